#!/usr/bin/env python3
"""Every golden checkpoint through every program that takes checkpoints, and into every format.

dialects_test.py BIN_DIR TESTDATA [unittest arguments]

What a program does not do it refuses in one line; what it converts holds the same state.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN = TESTDATA = ""
SHARED = os.environ.get("MEG_SHARED", os.path.join(os.path.dirname(__file__), "../../../shared"))
GOLDEN = os.path.join(SHARED, "oracle", "checkpoints")
TIMEOUT = 300
READERS = (["verify", "checkpoint"], ["checkpoint_inspect"], ["checkpoint_inspect", "--stats"],
           ["checkpoint_inspect", "--json"])


def checkpoints():
    """The one of the repository, and the golden ones where they are."""
    found = [os.path.join(TESTDATA, "checkpoint")]
    if os.path.isdir(GOLDEN):
        names = sorted(name for name in os.listdir(GOLDEN) if name != "evil")
        found += [path for path in (os.path.join(GOLDEN, name) for name in names)
                  if os.path.isdir(path)]
    return found


class Dialects(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def succeeds(self, program, *arguments):
        """False: it refused, in one line. Anything else fails."""
        done = subprocess.run([os.path.join(BIN, program), *arguments], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=TIMEOUT)
        self.assertIn(done.returncode, (0, 1), (program, arguments, done.stderr))
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        self.assertEqual(len(errors), done.returncode, (program, arguments, done.stderr))
        return done.returncode == 0

    def test_every_reader_answers_or_refuses(self):
        for checkpoint in checkpoints():
            for program, *arguments in READERS:
                with self.subTest(checkpoint=checkpoint, program=program):
                    self.succeeds(program, *arguments, checkpoint)

    def test_what_is_converted_holds_the_same_state(self):
        converted = set()
        for checkpoint in checkpoints():
            for target, compared in (("torch", []), ("torch_dist", []),
                                     ("huggingface", ["--no-optim"])):
                output = os.path.join(self.folder, "output")
                with self.subTest(checkpoint=checkpoint, target=target):
                    if not self.succeeds("checkpoint_util", "--load-dir", checkpoint, "--save-dir",
                                         output, "--target-format", target):
                        self.assertFalse(os.path.exists(output))
                        continue
                    converted.add(target)
                    self.assertTrue(self.succeeds("verify", "checkpoint", output))
                    self.assertTrue(self.succeeds("verify", "diff", checkpoint, output, *compared))
                shutil.rmtree(output, ignore_errors=True)
        self.assertEqual(converted, {"torch", "torch_dist", "huggingface"})


if __name__ == "__main__":
    BIN, TESTDATA = map(os.path.abspath, (sys.argv.pop(1), sys.argv.pop(1)))
    if not os.path.isdir(GOLDEN):
        print(f"not found, golden checkpoints are left out: {GOLDEN}")
    unittest.main()
