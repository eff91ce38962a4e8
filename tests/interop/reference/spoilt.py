"""What the tests of damage, full disks and kills share: a checkpoint to spoil, and programs."""
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from reference import files as reference_files

TRACKER = "latest_checkpointed_iteration.txt"
SECONDS = 10  # More than any program may take for a small checkpoint.


def tree(root):
    """Every file under root with the digest of its bytes."""
    found = {}
    for folder, _, files in os.walk(root):
        for name in files:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, root)] = hashlib.sha256(file.read()).hexdigest()
    return found


class SpoiltCheckpoint(unittest.TestCase):
    """A copy of the small checkpoint of testdata in a folder of its own."""

    bin = testdata = ""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.source = self.path("source")
        shutil.copytree(os.path.join(self.testdata, "checkpoint"), self.source,
                        ignore=shutil.ignore_patterns("README.md"))

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def rank(self, name="mp_rank_01_001"):
        return self.path("source", "iter_0000100", name, "model_optim_rng.pt")

    def program(self, name, *flags, **options):
        """The finished process, with its output and its seconds."""
        start = time.monotonic()
        process = subprocess.Popen([os.path.join(self.bin, name), *flags], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   cwd=self.folder, **options)
        try:
            process.stdout_text, process.stderr_text = process.communicate(timeout=3 * SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.fail(f"{name} {' '.join(flags)}: still running after {3 * SECONDS} s")
        process.seconds = time.monotonic() - start
        return process

    def reshape(self, *flags, load=None, save=None, tp=1, pp=1, **options):
        return self.program(
            "checkpoint_util", "--model-type", "GPT", "--load-dir", load or self.source,
            "--save-dir", save or self.path("saved"), "--target-tensor-parallel-size", str(tp),
            "--target-pipeline-parallel-size", str(pp), *flags, **options)

    def assert_refused(self, process, *words):
        """Exit code 1 and one line of error, which has all of these words."""
        self.assertEqual(process.returncode, 1, process.stdout_text + process.stderr_text)
        lines = process.stderr_text.strip().splitlines()
        self.assertTrue(lines and lines[-1].startswith("error: "), process.stderr_text)
        self.assertEqual(sum(line.startswith("error: ") for line in lines), 1, lines)
        for word in words:
            self.assertIn(word, lines[-1])

    def assert_nothing_saved(self, save=None):
        save = save or self.path("saved")
        self.assertEqual(tree(save) if os.path.exists(save) else {}, {})

    def assert_clean(self, root):
        process = self.program("verify", "checkpoint", root)
        self.assertEqual(process.returncode, 0, process.stdout_text + process.stderr_text)

    def edit(self, name, change):
        """Rewrites one rank's file by torch after change(state)."""
        state = reference_files.load_file(self.rank(name))
        change(state)
        reference_files.save_file(state, self.rank(name))


def run_tests():
    """unittest.main for scripts that are called with BIN_DIR TESTDATA [unittest arguments]."""
    SpoiltCheckpoint.bin, SpoiltCheckpoint.testdata = (os.path.abspath(sys.argv.pop(1))
                                                       for _ in range(2))
    unittest.main()
