#!/usr/bin/env python3
"""The server's page in a headless Chromium: what it asks and what it shows.

page_test.py STAND_IN_SERVER
Skipped where no Chromium is installed.
"""

import html.parser
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

from server_process import ServerProcess

SERVER = os.path.abspath(sys.argv[1])
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
GREEDY = {"prompt": "In the <b>beginning</b>", "tokens_to_generate": 12, "top_k": 1}


class Page(html.parser.HTMLParser):
    """The texts of a page's elements by id, and the spans of its answer."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.classes, self.spans = [], {}, {}, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag in ("meta", "link", "input", "br"):
            return
        attributes = dict(attributes)
        name = attributes.get("id", "")
        self.classes[name] = attributes.get("class", "")
        if tag == "span" and "text" in self.open:
            self.spans.append((attributes["class"], "", attributes["title"]))
        self.open.append(name)

    def handle_endtag(self, tag):
        self.open.pop()

    def handle_data(self, data):
        for name in filter(None, self.open):
            self.texts[name] = self.texts.get(name, "") + data
        if "text" in self.open and self.spans:
            kind, text, title = self.spans[-1]
            self.spans[-1] = (kind, text + data, title)


class PageTest(unittest.TestCase):
    def setUp(self):
        self.server = ServerProcess(SERVER)
        self.profile = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.profile, ignore_errors=True)
        self.addCleanup(self.server.stop)

    def open(self, **query):
        """The page as it stands after what a link to it asks for."""
        url = f"http://127.0.0.1:{self.server.port}/?{urllib.parse.urlencode(query)}"
        done = subprocess.run(
            [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             f"--user-data-dir={self.profile}", "--virtual-time-budget=5000", "--dump-dom", url],
            capture_output=True, text=True, timeout=120, check=True)
        return Page(done.stdout)

    def test_it_shows_the_answers_tokens(self):
        page = self.open(**GREEDY)
        _, answer = self.server.ask({"prompts": [GREEDY["prompt"]], "top_k": 1,
                                     "tokens_to_generate": GREEDY["tokens_to_generate"]})
        self.assertEqual([text for _, text, _ in page.spans], answer["segments"][0])
        self.assertEqual([kind for kind, _, _ in page.spans].count("new"), 12)
        self.assertIn("12 new tokens in ", page.texts["figures"])
        self.assertEqual(page.classes["state"], "ok")
        self.assertIn("stand-in: ", page.texts["state"])

    def test_it_shows_probabilities_where_they_are_asked_for(self):
        page = self.open(**GREEDY, logprobs="true")
        self.assertEqual(page.classes["legend"], "shown")
        self.assertTrue(all("p = " in title for _, _, title in page.spans[1:]), page.spans)

    def test_an_empty_prompt_begins_a_document(self):
        page = self.open(prompt="", tokens_to_generate=2)
        self.assertEqual([kind for kind, _, _ in page.spans], ["prompt", "new", "new"])

    def test_it_shows_what_the_server_refuses(self):
        page = self.open(prompt="Hello", top_k=5, top_p=0.5)
        self.assertEqual(page.classes["text"], "error")
        self.assertEqual(page.texts["text"], "top_k and top_p cannot both be set")


if __name__ == "__main__":
    if BROWSER is None:
        print("skipped: no Chromium is installed (apt-get install chromium)")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]])
