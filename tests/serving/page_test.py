#!/usr/bin/env python3
"""The server's page in a headless Chromium: what it asks and what it shows.

page_test.py STAND_IN_SERVER [--pictures FOLDER]
Skipped where no Chromium is installed.
"""

import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse

from server_process import ServerProcess

SERVER = os.path.abspath(sys.argv[1])
PICTURES = pathlib.Path(sys.argv[3]) if sys.argv[2:3] == ["--pictures"] else None
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PROMPT = "In the <b>beginning</b>"
GREEDY = {"prompt": PROMPT, "max_tokens": 12, "top_k": 1}


class Browser:
    """One page of a headless Chromium, by the DevTools protocol over pipes."""

    def __init__(self):
        self.profile = tempfile.mkdtemp()
        to_browser, self.to = os.pipe()
        self.of, from_browser = os.pipe()
        command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--remote-debugging-pipe", "--force-color-profile=srgb",
                   f"--user-data-dir={self.profile}", "about:blank"]
        # It reads from descriptor 3 and writes to 4.
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "sh", *command],
            pass_fds=(to_browser, from_browser), stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.session = b"", 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.buffer:
                part = os.read(self.of, 1 << 20)
                if not part:
                    raise RuntimeError("the browser has ended")
                self.buffer += part
            text, self.buffer = self.buffer.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(answer["error"])
                return answer["result"]

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait_for(self, expression, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.evaluate(expression)
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(f"{expression} stays {found}: {self.evaluate('document.body.innerText')}")

    def picture(self, name):
        if PICTURES is None:
            return
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        (PICTURES / f"{name}.png").write_bytes(base64.b64decode(answer["data"]))

    def close(self):
        os.close(self.to)
        os.close(self.of)
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def open(self, *flags, path="/", **query):
        """The page as a link opens it, of a server of its own."""
        self.server = ServerProcess(SERVER, *flags)
        self.addCleanup(self.server.stop)
        self.browser.call("Page.navigate",
                          url=f"http://127.0.0.1:{self.server.port}{path}?{urllib.parse.urlencode(query)}")
        self.browser.wait_for("document.readyState === 'complete' && "
                              "document.getElementById('state').className !== ''")

    def text_of(self, name):
        return self.browser.evaluate(f"document.getElementById('{name}').innerText")

    def class_of(self, name):
        return self.browser.evaluate(f"document.getElementById('{name}').className")

    def spans(self):
        return self.browser.evaluate("[...document.querySelectorAll('#text span')].map(span => "
                                     "[span.className, span.textContent, span.style.background])")

    def generate(self):
        self.browser.evaluate("document.getElementById('generate').click()")
        self.browser.wait_for("!document.getElementById('generate').disabled")

    def answer(self, **more):
        status, answer = self.server.ask({**GREEDY, **more}, "POST", "/v1/completions")
        self.assertEqual(status, 200, answer)
        return answer["choices"][0]

    def test_a_link_fills_the_form_in_and_sends_nothing(self):
        self.open(**GREEDY, stop_at="x")
        self.assertEqual(self.browser.evaluate("['prompt', 'max_tokens', 'top_k', 'stop_at'].map(name => "
                                               "element(name).value)"), [PROMPT, "12", "1", "x"])
        time.sleep(1)
        self.assertIn("Nothing asked yet", self.text_of("text"))
        self.assertNotIn("POST", self.server.log_text())

    def test_it_shows_the_answers_tokens(self):
        self.open(**GREEDY)
        self.generate()
        spans = self.spans()
        choice = self.answer(logprobs=5)
        self.assertEqual(spans[0][:2], ["prompt", PROMPT])
        self.assertEqual("".join(text for _, text, _ in spans[1:]), choice["text"])
        self.assertEqual([kind for kind, _, _ in spans].count("new"), 12)
        self.assertTrue(all(colour.startswith("hsl") or colour.startswith("rgb")
                            for _, _, colour in spans[1:]), spans)
        self.assertRegex(self.text_of("figures"), r"^12 new tokens in \d+\.\d\d s, \d+ tokens/s, \d+ in the prompt$")
        self.assertEqual(self.text_of("model"), "stand-in")
        self.assertEqual(self.text_of("facts"), "iteration 5 \u00b7 layout torch, tensor 2, pipeline 2 \u00b7 memory of weights none")
        self.assertEqual(self.class_of("state"), "ok")
        self.browser.picture("answer")

    def test_alternatives_are_shown_for_the_token_that_is_pointed_at(self):
        self.open(**GREEDY)
        self.generate()
        self.browser.evaluate("element('text').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}))")
        top = self.answer(logprobs=5)["logprobs"]["top_logprobs"][0]
        rows = self.browser.evaluate("[...document.querySelectorAll('#hint tr')].map(row => "
                                     "[...row.cells].map(cell => cell.textContent))")
        self.assertEqual([json.loads(name) for name, _, _ in rows], list(top))
        self.assertEqual([float(logprob) for _, _, logprob in rows],
                         [round(value, 3) for value in top.values()])
        self.browser.evaluate("element('text').children[4].dispatchEvent(new MouseEvent('mouseover', "
                              "{bubbles: true}))")
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('#text .chosen').length"), 1)
        self.assertIn("chosen", self.spans()[4][0])
        self.browser.picture("alternatives")

    def test_the_prompt_is_scored_where_that_is_asked_for(self):
        self.open(**GREEDY, echo="true")
        self.generate()
        spans = self.spans()
        prompt = [text for kind, text, _ in spans if kind == "prompt"]
        self.assertEqual("".join(prompt), PROMPT)
        self.assertGreater(len(prompt), 3)
        self.assertEqual(spans[0][2], "")
        self.assertTrue(all(colour for _, _, colour in spans[1:]))

    def test_tokens_come_one_by_one_until_they_are_stopped(self):
        self.open("--step-microseconds", 20000, prompt="Hello", max_tokens=1000)
        self.browser.evaluate("document.getElementById('generate').click()")
        first = self.browser.wait_for("document.querySelectorAll('#text .new').length")
        later = self.browser.wait_for(f"document.querySelectorAll('#text .new').length > {first} && "
                                      "document.querySelectorAll('#text .new').length")
        self.assertLess(later, 500)
        self.browser.call("Input.dispatchKeyEvent", type="keyDown", key="Escape")
        self.browser.wait_for("!document.getElementById('generate').disabled")
        self.assertRegex(self.text_of("figures"), r"^\d+ new tokens in .*, stopped$")
        for _ in range(500):
            if self.server.health()[1]["active"] == 0:
                return
            time.sleep(0.01)
        self.fail("the server goes on")

    def test_an_empty_prompt_begins_a_document(self):
        self.open(prompt="", max_tokens=2)
        self.generate()
        self.assertEqual([kind for kind, _, _ in self.spans()], ["prompt", "new", "new"])

    def test_it_shows_what_the_server_refuses(self):
        self.open(prompt="Hello", top_k=5, top_p=0.5)
        self.generate()
        self.assertEqual(self.class_of("text"), "error")
        self.assertEqual(self.text_of("text"), "top_k of more than 1 and top_p below 1 cannot both be set")

    def test_a_key_is_asked_for_where_the_server_needs_one(self):
        self.open("--api-key", "secret", prompt="Hello", max_tokens=2)
        self.browser.wait_for("!document.getElementById('key_field').hidden")
        self.browser.evaluate("element('api_key').value = 'secret'; "
                              "element('api_key').dispatchEvent(new Event('change'))")
        self.browser.wait_for("document.getElementById('model').textContent === 'stand-in'")
        self.generate()
        self.assertEqual(len(self.spans()), 3)
        self.browser.evaluate("element('as_curl').click()")
        self.assertNotIn("secret", self.text_of("code"))

    def test_the_defaults_are_those_of_the_server(self):
        self.open("--temperature", 0.5, "--top_p", 0.25)
        self.browser.wait_for("model")
        self.assertEqual(self.browser.evaluate("['temperature', 'top_k', 'top_p'].map(name => "
                                               "element(name).placeholder)"), ["0.5", "-1", "0.25"])

    def test_what_was_asked_can_be_had_back(self):
        self.open(**GREEDY)
        self.generate()
        before = self.spans()
        self.browser.evaluate("element('prompt').value = 'And'; element('max_tokens').value = 3")
        self.generate()
        self.assertNotEqual(self.spans(), before)
        self.browser.evaluate("document.querySelectorAll('#past button')[1].click()")
        self.assertEqual(self.spans(), before)
        self.assertEqual(self.browser.evaluate("element('prompt').value"), PROMPT)
        self.browser.picture("history")

    def test_the_copied_commands_give_the_same_answer(self):
        self.open(prompt="It's \"so\" \\ h\u00e9", max_tokens=7, top_k=1)
        self.generate()
        shown = "".join(text for kind, text, _ in self.spans() if kind == "new")
        self.browser.evaluate("element('as_curl').click()")
        done = subprocess.run(["sh", "-c", self.text_of("code")], capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(done.stdout)["choices"][0]["text"], shown)
        self.browser.evaluate("element('as_python').click()")
        program = self.text_of("code")
        compile(program, "copied", "exec")
        try:
            import openai  # noqa: F401
        except ImportError:
            return
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, shown + "\n")

    def test_nothing_is_cut_in_a_narrow_or_dark_window(self):
        self.browser.call("Emulation.setDeviceMetricsOverride", width=360, height=800, deviceScaleFactor=1,
                          mobile=True)
        self.browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        try:
            self.open(**GREEDY)
            self.generate()
            self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), 360)
            colours = self.browser.evaluate("[getComputedStyle(document.body).backgroundColor, "
                                            "getComputedStyle(document.body).color]")
            ground, ink = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours)
            self.assertLess(ground, 150)
            self.assertGreater(ink, 500)
            self.browser.picture("narrow_dark")
        finally:
            self.browser.call("Emulation.clearDeviceMetricsOverride")
            self.browser.call("Emulation.setEmulatedMedia", features=[])


if __name__ == "__main__":
    if BROWSER is None:
        print("skipped: no Chromium is installed (apt-get install chromium)")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]])
