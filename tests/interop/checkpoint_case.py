"""What tests of checkpoints beside the real megatron-core share: a folder, our programs, runs of the package."""
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

from megatron_core.processes import imported

HERE = os.path.dirname(os.path.abspath(__file__))
# scripts/setup.sh unpacks it beside the version that is installed.
NEWER = os.path.join(os.environ.get("MEG_DEPS", os.path.expanduser("~/.cache/libmeg")),
                     "megatron-core-0.19.2")


class CheckpointCase(unittest.TestCase):
    util = verify = ""  # The programs: see run_tests().
    python_path = ()  # Searched before what is installed.

    def setUp(self):
        if NEWER in self.python_path and not os.path.isdir(NEWER):
            self.skipTest(f"{NEWER} is not there: scripts/setup.sh unpacks it")
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_program(self, *words, code=0):
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, code, (words, done.stdout[-2000:], done.stderr[-3000:]))
        return done

    def run_main(self, module, *words):
        """main(*words) of a module of this folder, with megatron-core of this case."""
        path = os.pathsep.join([*self.python_path, HERE, os.environ.get("PYTHONPATH", "")])
        imported(module, path).run_main(*words)

    def convert(self, load, name, *flags):
        self.run_program(self.util, "--load-dir", load, "--save-dir", self.path(name), *flags)
        return self.path(name)

    def refuse(self, load, *flags):
        """The last line that is printed."""
        done = self.run_program(self.util, "--load-dir", load, "--save-dir", self.path("none"), *flags,
                                code=1)
        self.assertFalse(os.path.exists(self.path("none")))
        return done.stderr.splitlines()[-1]


def run_tests():
    """Of the script that was started with CHECKPOINT_UTIL VERIFY [unittest arguments]."""
    for package in ("torch", "psutil", "megatron", "megatron.core"):  # not imported here: that takes seconds
        if importlib.util.find_spec(package) is None:
            print(f"skipped: no {package}")
            sys.exit(77)
    CheckpointCase.util, CheckpointCase.verify = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    unittest.main()
