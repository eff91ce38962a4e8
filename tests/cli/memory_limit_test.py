#!/usr/bin/env python3
"""Programs under ever smaller limits of memory: each ends by itself, with its result or one error.

memory_limit_test.py BIN_DIR TESTDATA [unittest arguments]
"""
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN = TESTDATA = ""
TIMEOUT = 120
MEBIBYTE = 1 << 20
# Threads reserve 64 MiB of addresses each, so that limits of all sizes are met.
LIMITS = [*range(12, 60, 4), *range(60, 300, 24), *range(300, 900, 120)]


def run(command, limit=resource.RLIM_INFINITY):
    def set_limit():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=TIMEOUT, preexec_fn=set_limit)


class MemoryLimits(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def preprocess(self, prefix):
        tokenizer = os.path.join(TESTDATA, "tokenizer")
        return ["preprocess_data", "--input", os.path.join(TESTDATA, "quickstart", "english.jsonl"),
                "--output-prefix", prefix, "--tokenizer-type", "GPT2BPETokenizer", "--append-eod",
                "--vocab-file", os.path.join(tokenizer, "vocab.json"),
                "--merge-file", os.path.join(tokenizer, "merges.txt"), "--workers", "2"]

    def sweep(self, command, output=None, is_all_or_nothing=True):
        """output: a path that is there after a success, and only then (where is_all_or_nothing)."""
        program = os.path.join(BIN, command[0])
        endings = set()
        for mebibytes in LIMITS:
            done = run([program, *command[1:]], mebibytes * MEBIBYTE)
            with self.subTest(program=command[0], mebibytes=mebibytes):
                if done.returncode == 127:  # not even the libraries were loaded, as the loader says
                    self.assertRegex(done.stderr, "error while loading shared libraries|^cannot allocate TLS")
                    continue
                self.assertIn(done.returncode, (0, 1), done.stderr)
                errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
                self.assertEqual(len(errors), done.returncode, done.stderr)
                if output is not None and is_all_or_nothing:
                    self.assertEqual(os.path.exists(output), done.returncode == 0)
            endings.add(done.returncode)
            if output is not None and os.path.isdir(output):
                shutil.rmtree(output)
            elif output is not None and os.path.exists(output):
                os.remove(output)
        self.assertIn(0, endings, "expected some limits to be large enough")

    def test_datasets(self):
        self.sweep(self.preprocess(self.path("swept")), self.path("swept_text_document.idx"))
        command = self.preprocess(self.path("corpus"))
        self.assertEqual(run([os.path.join(BIN, command[0]), *command[1:]]).returncode, 0)
        prefix = self.path("corpus_text_document")
        self.sweep(["dataset_inspect", prefix])
        self.sweep(["verify", "dataset", prefix])
        self.sweep(["prepare_cache", "--data-path", prefix, "--split", "1,0,0", "--seq-length", "64",
                    "--train-samples", "500", "--global-batch-size", "4", "--data-cache-path", self.path("cache"),
                    "--tokenizer-type", "NullTokenizer", "--vocab-size", "50256"],
                   self.path("cache"), is_all_or_nothing=False)

    def test_checkpoints(self):
        checkpoint = os.path.join(TESTDATA, "checkpoint")
        self.sweep(["checkpoint_inspect", checkpoint, "--stats"])
        self.sweep(["verify", "checkpoint", checkpoint])
        self.sweep(["verify", "diff", checkpoint, checkpoint])
        for target in ("torch", "torch_dist"):
            self.sweep(["checkpoint_util", "--load-dir", checkpoint, "--save-dir", self.path(target),
                        "--target-format", target],
                       self.path(target, "latest_checkpointed_iteration.txt"))
        self.sweep(["checkpoint_util", "--load-dir", checkpoint, "--save-dir", self.path("hf"),
                    "--target-format", "huggingface"], self.path("hf"))


if __name__ == "__main__":
    BIN, TESTDATA = map(os.path.abspath, (sys.argv.pop(1), sys.argv.pop(1)))
    unittest.main()
