#!/usr/bin/env python3
"""run_text_generation_server with a model: what it serves is what `generate` makes offline.

run_text_generation_server_test.py SERVER GENERATE
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from server_process import ROOT, ServerProcess

sys.path.insert(0, str(ROOT / "tests"))
from python_script import run_script  # noqa: E402

SERVER, GENERATE = (os.path.abspath(path) for path in sys.argv[1:3])
SHARED = pathlib.Path(os.environ.get("MEG_SHARED") or ROOT.parent / "shared")
MAKE_MODEL = SHARED / "bench" / "make_hf_gpt2.py"
GPT2 = ["--vocab-file", str(SHARED / "data/gpt2/vocab.json"),
        "--merge-file", str(SHARED / "data/gpt2/merges.txt")]
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1")
SHAPE = "--hidden-size 64 --num-attention-heads 4 --max-position-embeddings 128".split()
TEXTS = ["Hello", "The quick brown fox jumps over the lazy dog", "In 1492", "Naïve café, 東京 and 🙂",
         "One two three four five six seven eight nine ten " * 3]


class RunServerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.held = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.held.name)
        run_script(MAKE_MODEL, cls.folder / "hf", "--layers", "3", "--hidden", "64", "--heads", "4",
                   "--positions", "128", "--std", "0.5")
        run_script(ROOT / "tests/generation/hf_gpt2_to_megatron.py", cls.folder / "hf",
                   cls.folder / "checkpoint")
        cls.model = ["--load", str(cls.folder / "checkpoint"), "--device", "cpu"]
        cls.server = ServerProcess(SERVER, *cls.model, "--max-batch-size", 8, vocabulary=GPT2,
                                   environment=ENVIRONMENT)
        cls.greedy = cls.offline("--tokens-to-generate", "20", "--greedy", "--logprobs")

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        cls.held.cleanup()
        assert code == 0, cls.server.log_text()

    def ask(self, body, expected=200):
        status, answer = self.server.ask(body)
        self.assertEqual(status, expected, answer)
        return answer

    @classmethod
    def offline(cls, *flags):
        """The lines of `generate` for TEXTS."""
        prompts = cls.folder / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
        done = subprocess.run([GENERATE, *cls.model, *GPT2, "--prompt-file", str(prompts), *flags],
                              env=ENVIRONMENT, capture_output=True, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_the_tutorials_request_gets_the_tutorials_form(self):
        done = subprocess.run(
            ["curl", "-sS", "--fail", f"http://localhost:{self.server.port}/api", "-X", "PUT", "-H",
             "Content-Type: application/json; charset=UTF-8", "-d",
             '{"prompts":["Hello world"], "tokens_to_generate":1}'], capture_output=True, check=True)
        answer = json.loads(done.stdout)
        self.assertEqual(answer["segments"][0][:2], ["Hello", " world"])
        self.assertEqual(len(answer["segments"][0]), 3)
        self.assertEqual(done.stdout.decode(),
                         json.dumps(answer, sort_keys=True, separators=(",", ":")) + "\n")

    def test_greedy_texts_and_log_probabilities_are_those_made_offline(self):
        wanted = self.greedy
        answer = self.ask({"prompts": TEXTS, "tokens_to_generate": 20, "top_k": 1, "logprobs": True})
        for text, line, found, logprobs in zip(TEXTS, wanted, answer["text"], answer["logprobs"]):
            self.assertEqual(found, text + line["text"])
            self.assertEqual(logprobs, line["logprobs"])

    def test_samples_of_a_seed_are_those_made_offline(self):
        wanted = self.offline("--tokens-to-generate", "20", "--top_p", "0.9", "--seed", "7")
        answer = self.ask({"prompts": TEXTS, "tokens_to_generate": 20, "top_p": 0.9,
                           "random_seed": 7})
        self.assertEqual(answer["text"], [text + line["text"] for text, line in zip(TEXTS, wanted)])

    def test_chats_are_written_by_the_tokenizers_template_and_greedy_is_a_rule_for_all(self):
        files = self.folder / "tokenizer"
        files.mkdir()
        for name in ("vocab.json", "merges.txt"):
            (files / name).symlink_to(SHARED / "data/gpt2" / name)
        template = ("{{ bos_token }}{% for message in messages %}{% if message.role == 'tool' %}{{ raise_exception('no tools') }}"
                    "{% endif %}<{{ message['role'] | upper }}>{{ message.content.strip() }}\n{% endfor %}"
                    "{% if add_generation_prompt %}<ASSISTANT>{% endif %}")
        (files / "tokenizer_config.json").write_text(json.dumps({"bos_token": "Start", "chat_template": template}))
        vocabulary = ["--vocab-file", str(files / "vocab.json"), "--merge-file", str(files / "merges.txt")]
        server = ServerProcess(SERVER, *self.model, "--greedy", vocabulary=vocabulary, environment=ENVIRONMENT)
        self.addCleanup(server.stop)
        status, answer = server.ask({"prompts": TEXTS, "tokens_to_generate": 20})
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["text"], [text + line["text"] for text, line in zip(TEXTS, self.greedy)])
        chat = {"messages": [{"role": "system", "content": " be brief \n"}, {"role": "user", "content": [
            {"type": "text", "text": "Naïve "}, {"type": "text", "text": "café?"}]}], "max_tokens": 9, "temperature": 0}
        status, answer = server.ask(chat, path="/v1/chat/completions", method="POST")
        self.assertEqual(status, 200, answer)
        prompt = "Start<SYSTEM>be brief\n<USER>Naïve café?\n<ASSISTANT>"
        status, plain = server.ask({"prompt": prompt, "max_tokens": 9, "temperature": 0}, path="/v1/completions", method="POST")
        self.assertEqual(answer["choices"][0]["message"]["content"], plain["choices"][0]["text"])
        self.assertEqual(answer["usage"], plain["usage"])
        for more, end in (({"continue_final_message": True}, ""), ({"chat_template_kwargs": {"bos_token": "Begin"}}, "<ASSISTANT>")):
            continued = {**chat, **more, "messages": chat["messages"] + [{"role": "assistant", "content": "It is "}]}
            status, answer = server.ask(continued, path="/v1/chat/completions", method="POST")
            self.assertEqual(status, 200, answer)
            prompt = f"{'Start' if not end else 'Begin'}<SYSTEM>be brief\n<USER>Naïve café?\n<ASSISTANT>It is" + (end and "\n" + end)
            status, plain = server.ask({"prompt": prompt, "max_tokens": 9, "temperature": 0}, path="/v1/completions", method="POST")
            self.assertEqual(answer["choices"][0]["message"]["content"], plain["choices"][0]["text"])
        hostile = {**chat, "chat_template_kwargs": {"messages": "x"}}
        self.assertEqual(server.ask(hostile, path="/v1/chat/completions", method="POST")[0], 400)
        (files / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{% include 'x' %}"}))
        broken = ServerProcess(SERVER, *self.model, vocabulary=vocabulary, environment=ENVIRONMENT)
        status, answer = broken.ask(chat, path="/v1/chat/completions", method="POST")
        self.assertEqual(status, 400)
        self.assertIn("no chat template", answer["error"]["message"])
        self.assertEqual(broken.stop(), 0)
        self.assertIn('chat_template: line 1: "include" is not supported (chat is refused)', broken.log_text())

    def test_64_clients_get_what_each_gets_alone(self):
        requests = []
        for number in range(64):
            request = {"prompts": [TEXTS[number % 4]] * (1 + number % 3), "logprobs": True,
                       "tokens_to_generate": number % 15, "random_seed": number}
            if number % 2:
                request["top_k"] = 1 + number % 5
            requests.append(request)
        alone = [self.ask(request) for request in requests]
        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            self.assertEqual(list(pool.map(self.ask, requests)), alone)

    def test_beams_come_with_falling_scores(self):
        answer = self.ask({"prompts": ["Hello"], "tokens_to_generate": 5, "beam_width": 4})
        self.assertEqual(answer["scores"], sorted(answer["scores"], reverse=True))
        self.assertEqual(len(set(answer["text"])), 4)

    def test_a_beam_search_beyond_its_memory_is_refused(self):
        wide = {"prompts": ["Hello"], "tokens_to_generate": 100, "beam_width": 128}
        self.assertIn("at most 1024 tokens in all texts of a beam search, found 128 texts of 1 and 100",
                      self.ask(wide, 400)["message"])
        self.assertEqual(len(self.ask(dict(wide, tokens_to_generate=5))["text"]), 128)

    def test_a_prompt_beyond_the_positions_is_refused(self):
        self.assertIn("128", self.ask({"prompts": ["word " * 100], "tokens_to_generate": 50},
                                      400)["message"])

    def test_the_model_tells_what_it_was_loaded_from(self):
        status, answer = self.server.ask(None, "GET", "/v1/models")
        self.assertEqual(status, 200)
        facts = answer["data"][0]["facts"]
        self.assertEqual(facts["layout"], "torch, tensor 1, pipeline 1")
        self.assertLessEqual({"model", "tokenizer", "computes in", "memory of weights", "memory of cache"}, set(facts))

    def test_health_names_the_checkpoint(self):
        self.assertIn("checkpoint", self.server.health()[1]["model"])

    def test_a_model_whose_logits_are_not_finite_is_a_500_and_health_says_so(self):
        """ModelEngineTest has every value; here the one that hides best in a softmax."""
        run_script(ROOT / "tests/generation/hf_gpt2_to_megatron.py", self.folder / "hf",
                   self.folder / "broken", "--broken-token", "50000=-inf")
        server = ServerProcess(SERVER, "--load", self.folder / "broken", "--device", "cpu",
                               vocabulary=GPT2, environment=ENVIRONMENT)
        status, health = server.health()
        self.assertEqual((status, health["status"]), (503, "failing"))
        self.assertIn("expected finite logits", health["error"])
        self.assertIn("warning: warm-up: expected finite logits", server.log_text())
        for how in ({}, {"top_k": 1}, {"top_k": 9}, {"top_p": 0.9}, {"logprobs": True},
                    {"logprobs": True, "tokens_to_generate": 0}, {"temperature": 1e-31},
                    {"beam_width": 3}):
            prompts = ["Hello"] if "beam_width" in how else ["Hello", "In 1492"]
            status, answer = server.ask({"prompts": prompts, "tokens_to_generate": 3, **how})
            self.assertEqual(status, 500, how)
            self.assertRegex(answer["message"], r"^text \d: token \d: expected finite logits")
            self.assertEqual(server.health()[1]["status"], "failing")
        self.assertEqual(server.stop(), 0)

    def test_what_does_not_fit_is_an_error_at_the_start(self):
        for vocabulary, words in ((GPT2 + SHAPE + ["--num-layers", "5"], "num_layers"),
                                  (GPT2 + ["--host", "no.such.host.invalid"], "cannot listen on")):
            done = subprocess.run([SERVER, *self.model, *vocabulary, "--port", "0"],
                                  env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr.splitlines()[-1], "^error: .*" + words)


if __name__ == "__main__":
    try:
        import safetensors  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    for needed in (MAKE_MODEL, pathlib.Path(GPT2[1])):
        if not needed.exists():
            print(f"skipped: not found: {needed}")
            sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
