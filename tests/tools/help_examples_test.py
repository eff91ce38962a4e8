#!/usr/bin/env python3
"""The examples with which each program's --help ends are command lines that it takes.

help_examples_test.py PROGRAM_FOLDER

Each is run in an empty folder: there it may fail because its files are missing (exit code 1), not as wrong usage (2).
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from make_man_pages import read_pages  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv[1]).resolve()
ENVIRONMENT = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", "COLUMNS": "80"}


def help_of(command):
    done = subprocess.run(command, shell=True, capture_output=True, text=True, env=ENVIRONMENT, timeout=300)
    return done.stdout


def examples_of(text):
    section = text.partition("\nexamples:\n")[2]
    return [re.sub(r" \\\n +", " ", command).strip() for command in re.split(r"\n(?=  \S)", section)]


class HelpExamples(unittest.TestCase):
    def test_each_is_a_command_line_that_its_program_takes(self):
        commands = [f"{program.name} {word}".strip() for program in sorted(PROGRAMS.iterdir())
                    for word in read_pages(program) if program.name != "meg" or not word]
        self.assertIn("verify manifest", commands)
        for command in commands:
            found = examples_of(help_of(f"{command} --help"))
            self.assertIn(len(found), (2, 3), command)
            for example in found:
                # `verify` starts the other program.
                self.assertIn(command.replace("verify_resume", "verify resume"), example)
                with self.subTest(example=example), tempfile.TemporaryDirectory() as folder:
                    done = subprocess.run(["bash", "-c", example], cwd=folder, env=ENVIRONMENT, capture_output=True,
                                          text=True, stdin=subprocess.DEVNULL, timeout=300)
                    if done.returncode == 2:  # of verify resume and run, whose 1 is a judgement
                        self.assertRegex(done.stderr, "(?i)no such file")
                    else:
                        self.assertIn(done.returncode, (0, 1), done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
