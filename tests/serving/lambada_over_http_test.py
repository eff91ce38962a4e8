#!/usr/bin/env python3
"""LAMBADA through the server as lm-eval asks for it: the answers are those of evaluate_gpt --strict-lambada.

lambada_over_http_test.py SERVER EVALUATE_GPT [LINES]
Whole texts and contexts are tokenized by the server, what follows the context's ids is scored by requests that echo
one prompt of ids each, and an answer is right where every token is the most likely one. LINES of the file (100), every
second one with a last word that the model itself would say; `all` for the whole file.
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

SERVER, EVALUATE = (os.path.abspath(path) for path in sys.argv[1:3])
LINES = None if sys.argv[3:4] == ["all"] else int((sys.argv[3:4] or ["100"])[0])
SHARED = pathlib.Path(os.environ.get("MEG_SHARED") or ROOT.parent / "shared")
MAKE_MODEL = SHARED / "bench" / "make_hf_gpt2.py"
LAMBADA = SHARED / "data" / "lambada" / "lambada_test.jsonl"
GPT2 = ["--vocab-file", str(SHARED / "data/gpt2/vocab.json"),
        "--merge-file", str(SHARED / "data/gpt2/merges.txt")]
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1")
BATCH = 16


def parts_of(text):
    """(context, target) of lm-eval's task lambada_openai."""
    context, _, word = text.rpartition(" ")
    return context, " " + word


class LambadaTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        held = tempfile.TemporaryDirectory()
        cls.addClassCleanup(held.cleanup)
        folder = pathlib.Path(held.name)
        run_script(MAKE_MODEL, folder / "hf", "--layers", "3", "--hidden", "64", "--heads", "4", "--positions", "320",
                   "--std", "0.2")
        run_script(ROOT / "tests/generation/hf_gpt2_to_megatron.py", folder / "hf", folder / "checkpoint")
        model = ["--load", str(folder / "checkpoint"), "--device", "cpu"]
        cls.server = ServerProcess(SERVER, *model, vocabulary=GPT2, environment=ENVIRONMENT)
        cls.addClassCleanup(cls.server.stop)
        texts = [json.loads(line)["text"] for line in LAMBADA.read_text().splitlines()[:LINES]]
        # A word that follows other whitespace is another target to lm-eval.
        cls.texts = cls.answerable([text for text in texts if text.split()[-1] == text.split(" ")[-1]])
        data, results = folder / "lambada.jsonl", folder / "results.jsonl"
        data.write_text("".join(json.dumps({"text": text}) + "\n" for text in cls.texts))
        done = subprocess.run([EVALUATE, "--task", "LAMBADA", "--valid-data", data, "--strict-lambada", *model, *GPT2,
                               "--output", results, "--json"], env=ENVIRONMENT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        cls.summary = json.loads(done.stdout)["strict"]
        cls.wanted = [json.loads(line) for line in results.read_text().splitlines()]

    @classmethod
    def ask(cls, path, request):
        status, answer = cls.server.ask(request, "POST", path, timeout=600)
        assert status == 200, answer
        return answer

    @classmethod
    def ask_all(cls, asked, requests):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            return list(pool.map(asked, requests))

    @classmethod
    def answerable(cls, texts):
        """The texts, of which every second one ends with what the model would say."""
        def continued(first):
            contexts = [parts_of(text)[0] for text in texts[first:first + BATCH]]
            return cls.ask("/v1/completions", {"prompt": contexts, "max_tokens": 1, "temperature": 0})["choices"]
        choices = sum(cls.ask_all(continued, range(0, len(texts), BATCH)), [])
        words = [choice["text"] for choice in choices]
        return [parts_of(text)[0] + word if number % 2 and word[0] == " " and word[1:].isalnum() else text
                for number, (text, word) in enumerate(zip(texts, words, strict=True))]

    def tokenize(self, text):
        return self.ask("/tokenize", {"prompt": text})["tokens"]

    def score(self, first):
        """[(target ids, log probability, whether it is greedy)]"""
        sides = [parts_of(text) for text in self.texts[first:first + BATCH]]
        contexts = [self.tokenize(context) for context, _ in sides]
        wholes = [self.tokenize(context + target) for context, target in sides]
        answer = self.ask("/v1/completions", {"model": "checkpoint", "prompt": wholes, "max_tokens": 1, "temperature": 0,
                                              "logprobs": 1, "echo": True, "seed": 1234})
        scored = []
        for choice, context, whole in zip(answer["choices"], contexts, wholes, strict=True):
            self.assertEqual(whole[:len(context)], context)
            logprobs = choice["logprobs"]
            self.assertEqual(len(logprobs["token_logprobs"]), len(whole) + 1)
            found = list(zip(logprobs["token_logprobs"], logprobs["top_logprobs"]))[len(context):-1]
            scored.append((whole[len(context):], sum(logprob for logprob, _ in found),
                           all(logprob == max(top.values()) for logprob, top in found)))
        return scored

    def test_answers_and_log_probabilities_are_those_of_evaluate_gpt(self):
        scored = sum(self.ask_all(self.score, range(0, len(self.texts), BATCH)), [])
        self.assertEqual(len(scored), len(self.wanted))
        most = 0
        for number, ((target, logprob, is_greedy), wanted) in enumerate(zip(scored, self.wanted)):
            self.assertEqual((target, is_greedy), (wanted["target"], wanted["correct"]), self.texts[number])
            most = max(most, abs(logprob - wanted["logprob"]) / len(target))
        correct = sum(is_greedy for _, _, is_greedy in scored)
        print(f"{len(scored)} lines, {correct} right, log probabilities within {most:.1e}")
        self.assertEqual(correct, self.summary["correct"])
        self.assertGreater(correct, len(scored) // 4)
        self.assertLess(most, 1e-5)


if __name__ == "__main__":
    try:
        import safetensors  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    for needed in (MAKE_MODEL, LAMBADA, pathlib.Path(GPT2[1])):
        if not needed.exists():
            print(f"skipped: not found: {needed}")
            sys.exit(77)
    unittest.main(argv=[sys.argv[0]])
