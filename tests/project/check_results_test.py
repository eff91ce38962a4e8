#!/usr/bin/env python3
"""scripts/check_results.py on made-up results of ctest.

check_results_test.py
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parents[2]
GTEST = "../../tests/a_test.cpp:60: Skipped\nno GPU on this machine\n[  SKIPPED ] A.B (0 ms)\n"
LIST = """# a comment
anywhere | ^A\\.B: no GPU | why
anywhere | ^some: skipped=2$ | why
without shared | : no shared folder | why
"""


class CheckResults(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "list").write_text(LIST)
        (self.folder / "shared").mkdir()

    def printed(self, *cases, shared="shared"):
        """What is printed of cases (name, "skipped", "failure" or nothing, output)."""
        (self.folder / "results").write_text("<testsuite>" + "".join(
            f'<testcase name="{name}">{f"<{end}/>" if end else ""}<system-out>{escape(output)}</system-out>'
            "</testcase>" for name, end, output in cases) + "</testsuite>")
        done = subprocess.run(
            [sys.executable, ROOT / "scripts/check_results.py", self.folder / "results", self.folder / "list"],
            env={**os.environ, "MEG_SHARED": str(self.folder / shared)}, capture_output=True, text=True)
        lines = done.stderr.splitlines()
        self.assertEqual(done.returncode, 1 if lines else 0, done.stderr)
        return lines

    def refused(self, *cases, shared="shared"):
        """The skips that are refused, of cases (name, is skipped, output)."""
        lines = self.printed(*((name, "skipped" if skipped else "", output) for name, skipped, output in cases), shared=shared)
        return [line.partition("allowed_skips.txt: ")[2] for line in lines]

    def test_what_passed_is_no_skip(self):
        self.assertEqual(self.refused(("A", False, "OK\n"), ("B", False, "Ran 2 tests\n\nOK\n")), [])

    def test_a_skip_needs_its_name_and_its_reason(self):
        self.assertEqual(self.refused(("A.B", True, GTEST)), [])
        self.assertEqual(self.refused(("A.C", True, GTEST)), ["A.C: no GPU on this machine"])
        other = GTEST.replace("no GPU on this machine", "not today")
        self.assertEqual(self.refused(("A.B", True, other)), ["A.B: not today"])

    def test_reasons_of_scripts_and_programs_are_found(self):
        self.assertEqual(
            self.refused(("a", True, "skipped: no torch\n"), ("b", True, "SKIPPED b/c: no file\n"), ("c", True, "")),
            ["a: no torch", "b: no file", "c: no reason given"])

    def test_skipped_cases_of_a_python_test_count(self):
        self.assertEqual(self.refused(("some", False, "Ran 3 tests in 1s\n\nOK (skipped=2)\n")), [])
        self.assertEqual(self.refused(("some", False, "Ran 3 tests in 1s\n\nOK (skipped=3)\n")), ["some: skipped=3"])

    def test_the_end_of_a_failed_tests_output_is_shown(self):
        output = "".join(f"line {i}\n" for i in range(100))
        self.assertEqual(self.printed(("A", "", output), ("B", "failure", output), ("C", "failure", "")),
                         ["failed: B", *(f"  line {i}" for i in range(60, 100)), "failed: C"])

    def test_the_shared_folder_is_no_excuse_where_it_is(self):
        case = ("a", True, "skipped: no shared folder with checkpoints\n")
        self.assertEqual(self.refused(case, shared="absent"), [])
        self.assertEqual(self.refused(case), ["a: no shared folder with checkpoints"])


if __name__ == "__main__":
    unittest.main()
