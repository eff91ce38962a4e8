#!/usr/bin/env python3
"""evaluate_gpt beside transformers on the same weights, from several layouts, and with wrong input.

evaluate_gpt_test.py EVALUATE_GPT CHECKPOINT_UTIL
"""
import importlib.util
import json
import math
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
EVALUATE, CHECKPOINT_UTIL = (os.path.abspath(path) for path in sys.argv[1:3])
LAMBADA = SHARED / "data/lambada/lambada_test.jsonl"
GPT2 = SHARED / "data/gpt2"
TOKENIZER = ["--vocab-file", str(GPT2 / "vocab.json"), "--merge-file", str(GPT2 / "merges.txt")]
LINES = 100
FIELDS = ["index", "context", "target", "predicted", "correct", "logprob"]


def run(command, *arguments):
    return subprocess.run([*map(str, command), *map(str, arguments)], capture_output=True,
                          text=True, timeout=300, stdin=subprocess.DEVNULL)


def done(command, *arguments):
    process = run(command, *arguments)
    assert process.returncode == 0, process.stderr
    return process.stdout


def json_lines(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]


def answerable(folder):
    """Texts that the model continues as it would itself: every second last word is its own."""
    sys.path.insert(0, str(SHARED / "bench"))
    from peer_preprocess import hf
    tokenizer = hf(str(GPT2 / "vocab.json"), str(GPT2 / "merges.txt"))
    texts = [line["text"] for line in json_lines(folder / "lines.jsonl")]
    for number, result in enumerate(json_lines(folder / "peer-last.jsonl")):
        if number % 2 == 0:
            ids = tokenizer.encode(texts[number]).ids
            texts[number] = tokenizer.decode(ids[:-1] + result["predicted"])
    return texts


def peer(folder, data, output, *flags):
    run_script(SHARED / "bench/peer_lambada.py", folder / "hf", data, *TOKENIZER, "--output", output,
               *flags)


class EvaluateGpt(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, folder)
        run_script(SHARED / "bench/make_hf_gpt2.py", folder / "hf", "--layers", 4, "--hidden", 64,
                   "--heads", 4, "--positions", 96, "--std", 0.2)
        run_script(ROOT / "tests/generation/hf_gpt2_to_megatron.py", folder / "hf",
                   folder / "megatron")
        done([CHECKPOINT_UTIL, "--model-type", "GPT", "--load-dir", folder / "megatron",
              "--save-dir", folder / "tp2pp2", "--target-tensor-parallel-size", 2,
              "--target-pipeline-parallel-size", 2])
        lines = LAMBADA.read_text().splitlines(keepends=True)[:LINES]
        (folder / "lines.jsonl").write_text("".join(lines))
        peer(folder, folder / "lines.jsonl", folder / "peer-last.jsonl")
        cls.data = folder / "data.jsonl"
        cls.data.write_text("".join(json.dumps({"text": text}) + "\n"
                                    for text in answerable(folder)))
        peer(folder, cls.data, folder / "peer-last.jsonl")
        peer(folder, cls.data, folder / "peer-strict.jsonl", "--strict")

    def evaluate(self, *arguments, load=None, task="LAMBADA", data=None):
        return run([EVALUATE, "--task", task, "--valid-data", data or self.data, "--load",
                    load or self.folder / "megatron", "--device", "cpu"], *TOKENIZER, *arguments)

    def assert_same_results(self, ours, theirs):
        self.assertEqual(len(ours), LINES)
        self.assertEqual(len(theirs), LINES)
        for our, their in zip(ours, theirs):
            self.assertEqual(list(our), FIELDS)
            for field in FIELDS[:-1]:
                self.assertEqual(our[field], their[field], their["index"])
            # fp32 leaves a logit of size 30 no more than 1e-5 of exactness.
            self.assertAlmostEqual(our["logprob"], their["logprob"],
                                   delta=1e-5 * len(their["target"]))

    def error(self, status, *arguments, **options):
        process = self.evaluate(*arguments, **options)
        self.assertEqual(process.returncode, status, process.stderr)
        last = process.stderr.splitlines()[-1]
        self.assertTrue(last.startswith("error: "), last)
        self.assertNotIn("validation results", process.stdout)
        return last

    def test_a_tokenizer_of_far_fewer_tokens_is_refused(self):
        small = ROOT / "testdata" / "tokenizer"
        last = self.error(1, "--vocab-file", small / "vocab.json", "--merge-file", small / "merges.txt")
        self.assertIn("not the tokenizer of this checkpoint: expected more than", last)
        self.assertIn("found 2257", last)

    def test_every_example_is_scored_as_transformers_scores_it(self):
        for load, flags, name in (("megatron", [], "last"), ("tp2pp2", ["--strict-lambada"], "strict")):
            output = self.folder / f"{load}-{name}.jsonl"
            process = self.evaluate(*flags, "--output", output, load=self.folder / load)
            self.assertEqual(process.returncode, 0, process.stderr)
            theirs = json_lines(self.folder / f"peer-{name}.jsonl")
            self.assert_same_results(json_lines(output), theirs)
        right = sum(line["correct"] for line in json_lines(self.folder / "peer-last.jsonl"))
        self.assertTrue(20 < right < LINES, right)

    def test_long_contexts_are_cut_as_transformers_positions_ask(self):
        contexts = [line["context"] for line in json_lines(self.folder / "peer-last.jsonl")]
        self.assertEqual(max(contexts), 96)

    def test_prints_megatrons_lines(self):
        process = self.evaluate("--micro-batch-size", 8, "--log-interval", 10)
        right = sum(line["correct"] for line in json_lines(self.folder / "peer-last.jsonl"))
        results = (f" validation results on LAMBADA | number correct: {right:.4E} | "
                   f"total examples: {LINES:.4E} | avg accuracy: {right / LINES:.4E}")
        dashes = "-" * (len(results) + 1)
        self.assertEqual(process.stdout.splitlines(), [
            f"> building lambada dataset from {self.data} ...", f" > found {LINES} samples.",
            "> working on iteration: 0", "> working on iteration: 10", dashes, results, dashes,
            "done :-)"])

    def test_json_gives_both_definitions_and_16_bit_weights_come_near(self):
        answer = json.loads(self.evaluate("--json").stdout)
        self.assertEqual((answer["schema"], answer["task"], answer["examples"]),
                         (1, "LAMBADA", LINES))
        for key, name in (("last_token", "last"), ("strict", "strict")):
            lines = json_lines(self.folder / f"peer-{name}.jsonl")
            right = sum(line["correct"] for line in lines)
            self.assertEqual(answer[key]["correct"], right)
            self.assertAlmostEqual(answer[key]["accuracy"], right / LINES)
            self.assertEqual(answer[key]["target_tokens"], sum(len(x["target"]) for x in lines))
            perplexity = math.exp(-sum(line["logprob"] for line in lines) / LINES)
            self.assertAlmostEqual(answer[key]["perplexity"] / perplexity, 1, places=4)
        self.assertEqual(set(answer["seconds"]), {"load", "tokenize", "score"})
        exact = answer["last_token"]["perplexity"]
        rounded = json.loads(self.evaluate("--json", "--bf16").stdout)["last_token"]["perplexity"]
        self.assertNotEqual(exact, rounded)
        self.assertAlmostEqual(math.log(rounded), math.log(exact), delta=0.2)

    def test_a_tutorials_command_is_taken(self):
        process = self.evaluate(
            "--strict-lambada", "--num-layers", 4, "--hidden-size", 64, "--num-attention-heads", 4,
            "--seq-length", 96, "--max-position-embeddings", 96, "--tokenizer-type",
            "GPT2BPETokenizer", "--batch-size", 8, "--log-interval", 10, "--no-load-optim",
            "--no-load-rng", "--activations-checkpoint-method", "uniform",
            "--tensor-model-parallel-size", 2)
        self.assertEqual(process.returncode, 0, process.stderr)

    def test_wikitext_is_what_its_windows_sum_up_to(self):
        import torch
        from transformers import GPT2LMHeadModel
        sys.path.insert(0, str(SHARED / "bench"))
        from peer_preprocess import hf
        # Nothing here that the detokenizer changes.
        text = "The king went out and his people saw him there\n" * 30
        path = self.folder / "wiki.txt"
        path.write_text(text)
        ids = hf(str(GPT2 / "vocab.json"), str(GPT2 / "merges.txt")).encode(text).ids
        model = GPT2LMHeadModel.from_pretrained(self.folder / "hf").eval()
        length, step, total = 96, 32, 0.0
        with torch.inference_mode():
            for start in range(0, len(ids) - 1, step):
                part = torch.tensor(ids[start:start + length + 1])
                if start and len(part) <= length - step + 1:
                    break
                losses = torch.nn.functional.cross_entropy(
                    model(part[None, :-1]).logits[0], part[1:], reduction="none")
                total += losses[0 if start == 0 else length - step:].sum().item()
        loss = total / (len(ids) - 1)
        ratio = (len(ids) - 1) / (len(text.strip().split(" ")) - 1)
        answer = json.loads(self.evaluate("--json", task="WIKITEXT103", data=path).stdout)
        self.assertAlmostEqual(answer["avg_loss"], loss, places=5)
        lines = self.evaluate(task="WIKITEXT103", data=path).stdout.splitlines()
        self.assertEqual(lines[0], f" > number of original tokens: {len(text.strip().split(' '))}, "
                                   f"number of detokenized tokens: {len(ids)}")
        loss = answer["avg_loss"]
        results = (f" validation results on WIKITEXT103 | avg loss: {loss:.4E} | "
                   f"ppl: {math.exp(min(20, loss)):.4E} | "
                   f"adjusted ppl: {math.exp(min(20, loss * ratio)):.4E} | token ratio: {ratio} |")
        self.assertEqual(lines[-3], results)
        self.assertEqual(lines[-4], "-" * (len(results) + 1))
        self.assertEqual(lines[-1], "done :-)")
        self.assertIn("--overlapping-eval: expected at most the sequence length 16, found 32",
                      self.error(1, "--seq-length", 16, task="WIKITEXT103", data=path))

    def test_files_of_another_form_are_named_with_the_line(self):
        """LambadaFile and LambadaExamples have every form; here one of each kind."""
        def of(content):
            path = self.folder / "odd.jsonl"
            path.write_bytes(content)
            return self.error(1, data=path)
        self.assertIn("odd.jsonl: line 2: ", of(b'{"text": "a b c"}\n{"text": "a \xff c"}\n'))
        self.assertIn("line 1: expected text before", of(b'{"text": "word"}\n'))

    def test_wrong_usage_is_told_apart(self):
        self.assertIn("--task", self.error(2, task="RACE"))
        self.assertIn("--output", self.error(2, "--output", "x", task="WIKITEXT103"))
        self.assertIn("--fp16 and --bf16", self.error(2, "--fp16", "--bf16"))

    def test_checkpoints_and_flags_that_do_not_fit_are_refused(self):
        found = self.error(1, "--num-layers", 6, "--hidden-size", 64, "--num-attention-heads", 8)
        self.assertIn("num_layers: expected 6, found 4", found)
        self.assertIn("num_attention_heads: expected 8, found 4", found)
        self.assertIn("nowhere", self.error(1, load=self.folder / "nowhere"))
        small = ROOT / "testdata/checkpoint"
        self.assertIn("not the tokenizer of this checkpoint", self.error(1, load=small))
        self.assertIn("vocab-file", self.error(1, "--vocab-file", ""))

    def test_a_model_whose_logits_are_not_finite_is_an_error_by_text_and_token(self):
        """The tests of Scoring have every value; here each value once, and what the program does."""
        words = self.folder / "words.txt"
        words.write_text("It was the best of times , it was the worst of times ." * 9)
        for value, task, data, flags in (("nan", "LAMBADA", self.data, ["--json"]),
                                         ("inf", "WIKITEXT103", words, []),
                                         ("-inf", "LAMBADA", self.data, ["--strict-lambada"])):
            run_script(ROOT / "tests/generation/hf_gpt2_to_megatron.py", self.folder / "hf",
                       self.folder / "broken", "--broken-token", f"50000={value}")
            output = self.folder / "absent.jsonl"
            if task == "LAMBADA":
                flags = [*flags, "--output", output]
            found = self.error(1, *flags, task=task, data=data, load=self.folder / "broken")
            self.assertRegex(found, data.name + r": text \d+: token \d+: expected finite logits, found NaN or infinity")
            self.assertFalse(output.exists())

    def test_marks_and_carriage_returns_of_wikitext_are_scored_and_said(self):
        path = self.folder / "windows.txt"
        path.write_bytes(b"\xef\xbb\xbfOne two\r\nthree four\r\n")
        process = self.evaluate(task="WIKITEXT103", data=path)
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertIn("windows.txt: the byte order mark (UTF-8 BOM) is part of", process.stderr)
        self.assertIn("windows.txt: the CR of its line ends is part of the text", process.stderr)

    def test_no_results_are_left_where_it_fails(self):
        output = self.folder / "absent.jsonl"
        self.error(1, "--output", output, data=self.folder / "nowhere.jsonl")
        self.assertFalse(output.exists())


if __name__ == "__main__":
    missing = [name for name in ("torch", "transformers", "tokenizers", "safetensors")
               if importlib.util.find_spec(name) is None]
    if missing or not LAMBADA.exists():
        print("skipped: needs", ", ".join(missing) or LAMBADA)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
