#!/usr/bin/env python3
"""train_tokenizer as a process: what it trains goes through preprocess_data; exit codes, files, messages.

train_tokenizer_test.py TRAIN_TOKENIZER PREPROCESS_DATA [unittest arguments]
Where the PyPI package tokenizers is absent, ids are not compared with its.
"""
import array
import gzip
import json
import os
import subprocess
import sys
import tempfile
import unittest

TRAIN = PREPROCESS = ""
TEXTS = ["The lower, the newest: it's 12345 of 67.\n", "  \u4e2d\u6587 na\u00efve caf\u00e9s  \n\n<|endoftext|> more", "aaaa"] * 5


class TrainTokenizer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.corpus = self.write("corpus.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in TEXTS))

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        with open(self.path(name), "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return self.path(name)

    def train(self, *flags, size=300, source=None, out="out"):
        command = [TRAIN, "--input", source or self.corpus, "--vocab-size", str(size), "--output-dir", self.path(out), *flags]
        return subprocess.run(command, capture_output=True, text=True)

    def files(self, out="out"):
        read = {}
        for name in sorted(os.listdir(self.path(out))):
            with open(self.path(out, name), "rb") as file:
                read[name] = file.read()
        return read

    def ids(self, *flags):
        done = subprocess.run([PREPROCESS, "--input", self.corpus, "--output-prefix", self.path("data"), "--append-eod",
                               "--workers", "1", *flags], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        ids = array.array("H")
        with open(self.path("data_text_document.bin"), "rb") as file:
            ids.frombytes(file.read())
        return list(ids)

    def package_ids(self, cut_specials):
        try:
            from tokenizers import Tokenizer
        except ImportError:
            return None
        tokenizer = Tokenizer.from_file(self.path("out", "tokenizer.json"))
        tokenizer.encode_special_tokens = not cut_specials
        return [id_ for text in TEXTS for id_ in [*tokenizer.encode(text).ids, 0]]

    def refuse(self, message, *flags, code=2, **options):
        before = sorted(os.listdir(self.folder))
        done = self.train(*flags, **options)
        self.assertEqual((done.returncode, done.stderr.splitlines()[-1].startswith("error: ")), (code, True), done.stderr)
        self.assertIn(message, done.stderr.splitlines()[-1])
        left = [name for name in sorted(os.listdir(self.folder)) if name not in before]
        self.assertEqual([name for folder in left for name in os.listdir(self.path(folder))], [])

    def test_preprocess_data_reads_it_as_gpt2_bpe(self):
        self.assertEqual(self.train("--special-tokens", "<|endoftext|>").returncode, 0)
        files = ["--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", self.path("out", "vocab.json"),
                 "--merge-file", self.path("out", "merges.txt")]
        for version, cut_specials in (("core_v0.14.0", False), ("core_v0.15.0", True)):
            expected = self.package_ids(cut_specials)
            if expected is None:
                self.skipTest("tokenizers is absent")
            self.assertEqual(self.ids(*files, "--megatron-version", version), expected)

    def test_preprocess_data_reads_it_as_hugging_face(self):
        for pattern in ("gpt2", "o200k", r"\s+|\S+"):
            with self.subTest(pattern):
                subprocess.run(["rm", "-rf", self.path("out")], check=True)
                done = self.train("--special-tokens", "<|endoftext|>", "<pad>", "--pattern", pattern, "--pad-token", "<pad>")
                self.assertEqual(done.returncode, 0, done.stderr)
                expected = self.package_ids(True)
                if expected is None:
                    self.skipTest("tokenizers is absent")
                found = self.ids("--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", self.path("out"))
                self.assertEqual(found, expected)

    def test_transformers_reads_the_folder(self):
        try:
            from transformers import AutoTokenizer
        except ImportError:
            self.skipTest("transformers is absent")
        self.assertEqual(self.train("--special-tokens", "<|endoftext|>", "<pad>", "--pad-token", "<pad>").returncode, 0)
        tokenizer = AutoTokenizer.from_pretrained(self.path("out"))
        self.assertEqual((tokenizer.eos_token, tokenizer.pad_token), ("<|endoftext|>", "<pad>"))
        self.assertEqual([id_ for text in TEXTS for id_ in [*tokenizer.encode(text), 0]], self.package_ids(True))

    def test_reads_every_source_to_the_same_files(self):
        self.assertEqual(self.train().returncode, 0)
        expected = self.files()
        lines = [json.dumps({"text": text}) + "\n" for text in TEXTS]
        packed = self.write("corpus.jsonl.gz", gzip.compress("".join(lines).encode()))
        array_ = self.write("corpus.json", json.dumps([{"text": text} for text in TEXTS]))
        keyed = self.write("keyed.jsonl", "".join(json.dumps({"a": text, "b": []}) + "\n" for text in TEXTS))
        os.mkdir(self.path("parts"))
        for i, text in enumerate(TEXTS):
            self.write(f"parts/{i}.txt", text)
        for source, flags in ((packed, []), (array_, []), (keyed, ["--json-keys", "a", "b"]), (self.path("parts"), []),
                              (self.corpus, ["--workers", "5", "--memory-budget", "1MiB"])):
            done = self.train(*flags, source=source)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.files(), expected)

    def test_replaces_an_older_tokenizer_as_a_whole(self):
        self.assertEqual(self.train(size=300).returncode, 0)
        before = self.files()
        self.assertEqual(self.train(size=290).returncode, 0)
        after = self.files()
        self.assertEqual(list(before), list(after))
        self.assertNotEqual(before["merges.txt"], after["merges.txt"])
        self.refuse("vocab.json: a file of another tokenizer", "--pattern", "llama3")
        self.assertEqual(self.files(), after)

    def test_says_that_the_vocabulary_was_not_reached(self):
        done = self.train("--min-frequency", "3", size=9000)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"--vocab-size 9000: the texts gave \d+ tokens; no pair is left that occurs 3 times")

    def test_skips_invalid_lines_if_asked_to(self):
        bad = self.write("bad.jsonl", b'{"text": "good words"}\n{"text": "\xff"}\n')
        self.refuse("bad.jsonl: line 2, byte 11: expected UTF-8", source=bad, code=1)
        done = self.train("--on-error", "skip", source=bad)
        self.assertEqual(done.returncode, 0)
        self.assertIn("skipped lines: 1", done.stdout)

    def test_refuses_bad_input(self):
        self.refuse("vocab_size: expected 257 (256 bytes and 1 special tokens)", "--special-tokens", "<s>", size=256)
        self.refuse("special token \"<s>\": it was given twice", "--special-tokens", "<s>", "<s>")
        self.refuse("eos_token: expected one of the special tokens, found \"</s>\"", "--eos-token", "</s>")
        self.refuse("--input: expected text, found none in 0 documents", source=self.write("empty.jsonl", ""))
        self.refuse("found none in 2 documents", source=self.write("blank.jsonl", '{"text": ""}\n{"text": []}\n'))
        self.refuse("did you mean llama3?", "--pattern", "llama")
        self.refuse("--memory-budget: expected at least 1MiB", "--memory-budget", "5")
        self.refuse("none.jsonl", source=self.path("none.jsonl"), code=1)
        self.write("file", "")
        self.refuse("file", out="file/out", code=1)


if __name__ == "__main__":
    TRAIN, PREPROCESS = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
