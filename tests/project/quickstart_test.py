#!/usr/bin/env python3
"""quickstart_test.py QUICKSTART PROGRAMS: scripts/quickstart.sh with programs that are built already."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

QUICKSTART, PROGRAMS = (os.path.abspath(path) for path in sys.argv[1:3])
ENGLISH = os.path.join(os.path.dirname(QUICKSTART), "../testdata/quickstart/english.jsonl")
HAVE_TRAINER = os.path.exists(os.path.join(PROGRAMS, "pretrain_gpt"))


class QuickstartTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        programs = os.path.join(self.folder, "bin")
        os.mkdir(programs)
        for name in os.listdir(PROGRAMS):
            os.symlink(os.path.join(PROGRAMS, name), os.path.join(programs, name))
        if HAVE_TRAINER:
            # 200 iterations would show no more than 20.
            os.remove(os.path.join(programs, "pretrain_gpt"))
            self.write("bin/pretrain_gpt", f'''#!/bin/sh
exec "{PROGRAMS}/pretrain_gpt" "$@" --train-iters 20 --save-interval 20 --eval-interval 20 --log-interval 4
''')
            os.chmod(os.path.join(programs, "pretrain_gpt"), 0o755)

    def quickstart(self, *arguments):
        return subprocess.run([QUICKSTART, *arguments], cwd=self.folder, text=True, capture_output=True,
                              env={**os.environ, "MEG_BUILD": self.folder, "OMP_NUM_THREADS": "1",
                                   "MEG_WITH_TORCH": "ON" if HAVE_TRAINER else "OFF"})

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def test_goes_from_text_to_a_served_answer(self):
        run = self.quickstart()
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        expected = ["verify dataset", "prepare_cache", "dataset_inspect --trace", "verify diff", "equal ("]
        if HAVE_TRAINER:
            expected += ["validation loss", "validation results", '"text":']
        for word in expected:
            self.assertIn(word, run.stdout)

    def test_goes_the_whole_way_with_ones_own_text(self):
        with open(ENGLISH, encoding="utf-8") as lines:
            text = "".join(json.dumps({"content": json.loads(line)["text"]}) + "\n" for line in list(lines)[:20])
        self.write("mine.jsonl", text)
        run = self.quickstart("--input", "mine.jsonl", "--json-keys", "content")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        expected = ["mine_content_document: ok (20 sequences", "prepare_cache", "equal ("]
        if HAVE_TRAINER:
            expected += ["--true-vocab-size 2257", "validation results", '"text":']
        for word in expected:
            self.assertIn(word, run.stdout)
        self.assertTrue(run.stdout.endswith("--data-path " + os.path.join(self.folder, "mine_content_document\n")))

    def test_too_little_text_becomes_tokens_alone(self):
        self.write("my.text.jsonl", '{"content": "And he said"}\n' * 3)
        run = self.quickstart("--input", "my.text.jsonl", "--json_keys=content", "--workers", "1")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("my_content_document: ok (3 sequences, 3 documents", run.stdout)
        self.assertIn("tokens are too few to train on", run.stdout)
        self.assertIn("--data-path " + os.path.join(self.folder, "my_content_document"), run.stdout)

    def test_says_that_an_input_has_no_documents(self):
        self.write("empty.jsonl", "")
        run = self.quickstart("--input", "empty.jsonl")
        self.assertEqual(run.returncode, 1)
        self.assertEqual(run.stderr.splitlines()[-1],
                         'error: empty.jsonl: no documents: expected JSON lines such as {"text": "some text"}')

    def test_names_a_flag_without_its_value(self):
        run = self.quickstart("--input")
        self.assertEqual((run.returncode, run.stderr), (2, "error: --input: expected a value\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
