#!/usr/bin/env python3
"""score beside transformers on the same weights, with lm-eval's rules for tokens, and with wrong input.

score_test.py SCORE CHECKPOINT_UTIL
"""
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from python_script import run_script  # noqa: E402

os.environ["OMP_NUM_THREADS"] = "1"
SHARED = pathlib.Path(os.environ.get("MEG_SHARED", ROOT.parent / "shared"))
SCORE, CHECKPOINT_UTIL = (os.path.abspath(path) for path in sys.argv[1:3])
LAMBADA = SHARED / "data/lambada/lambada_test.jsonl"
GPT2 = SHARED / "data/gpt2"
TOKENIZER = ["--vocab-file", str(GPT2 / "vocab.json"), "--merge-file", str(GPT2 / "merges.txt")]
POSITIONS = 96
EOD = 50256


def run(*command, stdin=""):
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300,
                          input=stdin)


def done(*command):
    process = run(*command)
    assert process.returncode == 0, process.stderr
    return process


def examples():
    """Pairs as tasks of lm-eval have them: a last word, choices after one context, odd spaces."""
    pairs = []
    for line in LAMBADA.read_text().splitlines()[:20]:
        context, word = json.loads(line)["text"].rsplit(" ", 1)
        pairs += [(context, " " + word), (context[-100:] + "  ", word)]
    pairs += [("Question: 1 + 1?\nAnswer:", f" {n}") for n in range(4)]
    pairs += [("", "All of it counts."), ("  ", "After spaces"),
              ("Grüße ", "aus Köln 🙂"), ("long " * 300, "context"), ("a", " b" * POSITIONS)]
    return pairs


class Peer:
    """lm-eval's loglikelihood (lm_eval/api/model.py: TemplateLM, models/huggingface.py: HFLM)."""

    def __init__(self, folder):
        from transformers import GPT2LMHeadModel
        sys.path.insert(0, str(SHARED / "bench"))
        from peer_preprocess import hf
        self.tokenizer = hf(str(GPT2 / "vocab.json"), str(GPT2 / "merges.txt"))
        self.model = GPT2LMHeadModel.from_pretrained(folder).eval()

    def encode(self, text):
        return self.tokenizer.encode(text).ids

    def tokens(self, context, continuation):
        stripped = context.rstrip()
        continuation = context[len(stripped):] + continuation
        if not stripped:
            ids = self.encode(continuation)
            return [EOD], ids
        before, whole = self.encode(stripped), self.encode(stripped + continuation)
        return before, whole[len(before):]

    def score(self, before, after):
        import torch
        ids = torch.tensor((before + after)[-(POSITIONS + 1):])
        with torch.inference_mode():
            logits = self.model(ids[None, :-1]).logits[0].log_softmax(-1)[-len(after):]
        wanted = ids[-len(after):]
        return {"ids": after, "predicted": logits.argmax(-1).tolist(),
                "logprobs": logits.gather(1, wanted[:, None])[:, 0].tolist(),
                "context_tokens": len(ids) - len(after),
                "cut_tokens": len(before) + len(after) - len(ids)}


class Score(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, folder)
        run_script(SHARED / "bench/make_hf_gpt2.py", folder / "hf", "--layers", 4, "--hidden", 64,
                   "--heads", 4, "--positions", POSITIONS, "--std", 0.2)
        run_script(ROOT / "tests/generation/hf_gpt2_to_megatron.py", folder / "hf", folder / "megatron")
        done(CHECKPOINT_UTIL, "--model-type", "GPT", "--load-dir", folder / "megatron", "--save-dir",
             folder / "tp2pp2", "--target-tensor-parallel-size", 2,
             "--target-pipeline-parallel-size", 2)
        cls.peer = Peer(folder / "hf")
        # Every second one is the model's own word, so that some are greedy.
        cls.pairs = examples()
        for number in range(0, 40, 2):
            before, after = cls.peer.tokens(*cls.pairs[number])
            ids = cls.peer.score(before, after)["predicted"]
            word = cls.peer.tokenizer.decode(ids)
            if cls.peer.tokens(cls.pairs[number][0], word)[1] == ids[:1]:
                cls.pairs[number] = (cls.pairs[number][0], word)

    def score(self, lines, *arguments, load="megatron"):
        return run(SCORE, "--load", self.folder / load, "--device", "cpu", *TOKENIZER, *arguments,
                   stdin="".join(json.dumps(line) + "\n" for line in lines))

    def assert_scores(self, process, wanted):
        self.assertEqual(process.returncode, 0, process.stderr)
        answers = [json.loads(line) for line in process.stdout.splitlines()]
        self.assertEqual([answer["index"] for answer in answers], list(range(len(wanted))))
        for ours, theirs in zip(answers, wanted):
            self.assertEqual(ours["tokens"], len(theirs["ids"]))
            self.assertEqual(ours["is_greedy"], theirs["ids"] == theirs["predicted"])
            for key in ("ids", "predicted", "context_tokens", "cut_tokens"):
                self.assertEqual(ours[key], theirs[key], theirs["ids"])
            # fp32 leaves a logit of size 30 no more than 1e-5 of exactness.
            for our, their in zip(ours["logprobs"], theirs["logprobs"]):
                self.assertAlmostEqual(our, their, delta=1e-5)
            self.assertAlmostEqual(ours["logprob"], sum(theirs["logprobs"]),
                                   delta=1e-5 * ours["tokens"])

    def test_every_continuation_is_scored_as_lm_eval_scores_it(self):
        tokens = [self.peer.tokens(*pair) for pair in self.pairs]
        wanted = [self.peer.score(*pair) for pair in tokens]
        self.assertTrue(any(one["ids"] == one["predicted"] for one in wanted))
        self.assertTrue(any(one["cut_tokens"] for one in wanted))
        texts = [{"context": a, "continuation": b} for a, b in self.pairs]
        self.assert_scores(self.score(texts, "--logprobs"), wanted)
        ids = [{"context": a, "continuation": b} for a, b in tokens]
        ids += [{"context": [], "continuation": [11, 12]}, {"context": [], "continuation": [EOD, 12]}]
        wanted += [self.peer.score([EOD], [11, 12]), self.peer.score([EOD], [12])]
        process = self.score(ids, "--logprobs", load="tp2pp2")
        self.assert_scores(process, wanted)
        self.assertRegex(process.stderr, r"\d+ of \d+ contexts are cut on the left to the sequence length")
        self.assertRegex(process.stderr, r"scored \d+ continuations in ")

    def test_a_file_is_written_whole_or_not_at_all(self):
        path, output = self.folder / "in.jsonl", self.folder / "out.jsonl"
        path.write_text('{"context": "One two", "continuation": " three", "id": 7}\n')
        process = self.score([], "--input", path, "--output", output)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(process.stdout, "")
        self.assertEqual(list(json.loads(output.read_text())),
                         ["index", "logprob", "is_greedy", "tokens", "context_tokens", "cut_tokens"])
        output.unlink()
        path.write_text("nothing\n")
        self.assertEqual(self.score([], "--input", path, "--output", output).returncode, 1)
        self.assertFalse(output.exists())

    def test_wrong_lines_are_named(self):
        good = {"context": "a", "continuation": " b"}
        def error(line):
            process = self.score([good, line])
            self.assertEqual(process.returncode, 1, process.stdout)
            self.assertEqual(process.stdout, "")
            last = process.stderr.splitlines()[-1]
            self.assertTrue(last.startswith("error: standard input: line 2: "), last)
            return last
        self.assertIn("expected a JSON object", error(["a", "b"]))
        self.assertIn("continuation: expected a text or a list of ids, found none", error({"context": "a"}))
        self.assertIn("found number", error({"context": 1, "continuation": "b"}))
        self.assertIn("found one of each", error({"context": "a", "continuation": [1]}))
        self.assertIn("expected at least one token", error({"context": "a", "continuation": ""}))
        self.assertIn("after the context's, found none", error({"context": "wo", "continuation": "rd"}))
        self.assertIn("expected at most 96 tokens", error({"context": "a", "continuation": " b" * 97}))
        self.assertIn("expected ids 0 to 50256, found 50257", error({"context": [1], "continuation": [50257]}))
        self.assertIn("found -1 in it", error({"context": [-1], "continuation": [5]}))
        self.assertIn("found 1.5 in it", error({"context": [1.5], "continuation": [5]}))
        self.assertIn("empty file", self.score([]).stderr)


if __name__ == "__main__":
    missing = [name for name in ("torch", "transformers", "tokenizers", "safetensors")
               if importlib.util.find_spec(name) is None]
    if missing or not LAMBADA.exists():
        print("skipped: needs", ", ".join(missing) or LAMBADA)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
