#!/usr/bin/env python3
"""Man pages and completions: every flag of --help is in them, and shells take them.

man_pages_test.py PROGRAM_FOLDER
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = sorted(pathlib.Path(sys.argv[1]).resolve().iterdir())
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "make_man_pages.py"


def run(*command):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, timeout=300)


class ManPages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.share = pathlib.Path(folder.name)
        run(sys.executable, SCRIPT, cls.share, *PROGRAMS)

    def text(self, *parts):
        return self.share.joinpath(*parts).read_text(encoding="utf-8")

    def test_every_flag_of_help_is_in_all_three(self):
        for program in PROGRAMS:
            listed = run(program, "--help").stdout.partition("\nFlags not supported yet\n")[0]
            flags = re.findall(r"^  (--[\w-]+)", listed, re.MULTILINE)
            self.assertIn("--help", flags)
            man = self.text("man", "man1", f"{program.name}.1").replace("\\-", "-")
            bash = self.text("bash-completion", "completions", program.name)
            zsh = self.text("zsh", "site-functions", f"_{program.name}")
            for flag in flags:
                with self.subTest(program=program.name, flag=flag):
                    self.assertIn(f"\\fB{flag}\\fR", man)
                    self.assertRegex(bash, rf"[ \"]{flag}[ \"]")
                    self.assertRegex(zsh, rf"'{flag}[=\[]")

    def completed(self, name, *words):
        """What bash offers for the last of the words."""
        script = self.share / "bash-completion" / "completions" / name
        typed = " ".join(f"'{word}'" for word in (name, *words))
        done = run("bash", "-c", f"source '{script}'; COMP_WORDS=({typed}); COMP_CWORD={len(words)}; "
                                 f"_{name}; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
        return done.stdout.split()

    def test_bash_completes_flags_choices_and_commands(self):
        self.assertEqual(self.completed("preprocess_data", "--append"), ["--append-eod"])
        self.assertEqual(self.completed("preprocess_data", "--on-error", ""), ["fail", "skip"])
        self.assertEqual(self.completed("verify", "man"), ["manifest"])

    def test_groff_reads_the_pages_without_a_warning(self):
        if not shutil.which("groff"):
            self.skipTest("groff is not installed")
        for page in sorted((self.share / "man" / "man1").iterdir()):
            with self.subTest(page=page.name):
                self.assertEqual(run("groff", "-man", "-wmac", "-z", page).stderr, "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
