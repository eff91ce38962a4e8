#!/usr/bin/env python3
"""Every flag of every revision of Megatron-LM through the parser of every program that may meet it.

every_argument_test.py PROGRAM_FOLDER
No flag may be unknown, and what --list-arguments says of a flag is what happens to it.
"""

import csv
import functools
import pathlib
import subprocess
import sys
import unittest

PROGRAMS = pathlib.Path(sys.argv[1])
FLAGS = pathlib.Path(__file__).resolve().parents[2] / "libmeg" / "megatron" / "megatron_flags.tsv"
# The programs, and the families of flags that each takes, of equal flags the first.
FAMILIES = {
    "pretrain_gpt": ["kTraining"],
    "evaluate_gpt": ["kTasks", "kTraining"],
    "generate": ["kTextGeneration", "kTraining"],
    "score": ["kTraining"],
    "run_text_generation_server": ["kTextGeneration", "kTraining"],
    "prepare_cache": ["kTraining"],
    "dataset_inspect": ["kTraining"],
    "report_theoretical_memory": ["kTraining"],
    "preprocess_data": ["kPreprocess"],
    "checkpoint_util": ["kConvert"],
}
AT_ONCE = 1000


def run(program, *arguments):
    return subprocess.run([PROGRAMS / program, *arguments], capture_output=True, text=True, timeout=120)


def extracted():
    """Megatron's flags as they were read from its sources: (family, plain name) -> row."""
    with open(FLAGS, encoding="utf-8") as file:
        lines = file.readlines()[1:]  # after the revisions
    rows = list(csv.DictReader(lines, delimiter="\t"))
    return {(row["family"], name.replace("_", "-")): row
            for row in rows for name in [row["flag"], *row["other_names"].split()]}


def lowest():
    """Flag -> the smallest number that it takes, where arguments.txt says one."""
    fields = [line.split(" | ") for line in (FLAGS.parent / "arguments.txt").read_text().splitlines()]
    return {line[0].split()[0]: float(line[2].strip().partition("..")[0] or 0)
            for line in fields if len(line) > 3 and ".." in line[2]}


@functools.cache
def listed(program):
    titles, *rows = (line.split("\t") for line in run(program, "--list-arguments").stdout.splitlines())
    return [dict(zip(titles, row)) for row in rows]


def other_value(row):
    """A value that is not the default and that the flag's type takes."""
    if row["arity"] == "kSwitch":
        return []
    choices = [word for word in row["choices"].split() if word != row["default"].strip("'")]
    if choices:
        return [choices[-1]]
    real = 1.5 if LOWEST.get(row["flag"], 0) >= 1 else 0.625
    return {"kBool": ["true"], "kInteger": ["7"], "kReal": [str(real)]}.get(row["type"], ["other"])


LOWEST = lowest()


class EveryArgument(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.flags = extracted()

    def programs(self):
        return [(program, families) for program, families in FAMILIES.items() if (PROGRAMS / program).exists()]

    def test_stands_in_the_list_of_every_program(self):
        for program, families in self.programs():
            names = {name.strip("()").replace("_", "-") for row in listed(program)
                     for name in [row["flag"], *row["other names"].split()]}
            expected = {name for family, name in self.flags if family in families}
            self.assertEqual(expected - names, set())
            self.assertGreater(len(expected), 20)

    def test_is_ignored_with_a_reason_or_refused_or_read(self):
        for program, _ in self.programs():
            for row in listed(program):
                self.assertIn(row["here"], ("read", "ignored", "refused"), row)
                self.assertTrue(row["why"], row)

    def test_that_is_refused_ends_the_program_by_name(self):
        for program, families in self.programs():
            rows = [row for row in listed(program) if row["here"] == "refused"]
            for first in range(0, len(rows), AT_ONCE):
                some, command = rows[first:first + AT_ONCE], []
                for row in some:
                    command += self.with_value(row["flag"], families)
                done = run(program, *command)
                self.assertEqual(done.returncode, 1, f"{program}: {done.stderr[-600:]}")
                error = done.stderr.splitlines()[-1]
                missing = [row["flag"] for row in some if not self.is_default(row["flag"], families)
                           and row["flag"] not in error.replace(",", " ").replace(":", " ").split()]
                # Of two switches of one field the last counts.
                missing = [flag for flag in missing if not self.shares_a_field(flag, families, command)]
                self.assertEqual(missing, [], program)

    def test_that_is_ignored_is_noted_by_name(self):
        for program, families in self.programs():
            rows = [row for row in listed(program) if row["here"] == "ignored"]
            for first in range(0, len(rows), AT_ONCE):
                some, command = rows[first:first + AT_ONCE], []
                for row in some:
                    command += self.with_value(row["flag"], families)
                lines = run(program, *command).stderr.splitlines()
                noted = " ".join(line.partition(" (")[0] for line in lines if line.startswith("note: ignored: "))
                names = noted.replace(",", " ").split()
                missing = [row["flag"] for row in some if row["flag"] not in names]
                self.assertEqual(missing, [], f"{program}: {lines[-1]}")

    def test_that_changes_texts_or_answers_is_never_ignored(self):
        texts = ["--tokenizer-special-tokens", "--tokenizer-hf-no-use-fast", "--chat-template",
                 "--tokenizer-sentencepiece-legacy", "--trust-remote-code",
                 "--no-tokenizer-sentencepiece-ignore-extra-whitespaces"]
        answers = ["--termination-id", "--stop-words", "--top-n-logprobs", "--num-samples",
                   "--sample-input-file", "--sample-output-file", "--genfile", "--output-path",
                   "--greedy", "--stream", "--skip-prompt-log-probs", "--inference-repeat-n"]
        heeded = {"evaluate_gpt": texts, "score": texts, "generate": texts + answers,
                  "run_text_generation_server": texts + answers,
                  "pretrain_gpt": [*texts, "--yaml-cfg"], "prepare_cache": [*texts, "--yaml-cfg"],
                  "dataset_inspect": [*texts, "--yaml-cfg"],
                  "preprocess_data": [*texts, "--find-optimal-num-workers"]}
        for program, _ in self.programs():
            ignored = [row["flag"] for row in listed(program) if row["here"] == "ignored"]
            self.assertEqual([flag for flag in heeded.get(program, []) if flag in ignored], [], program)

    def row(self, flag, families):
        return next(self.flags[family, flag.replace("_", "-")] for family in families
                    if (family, flag.replace("_", "-")) in self.flags)

    def with_value(self, flag, families):
        return [flag, *other_value(self.row(flag, families))]

    def is_default(self, flag, families):
        row = self.row(flag, families)
        return row["arity"] == "kSwitch" and row["stored"] == row["default"]

    def shares_a_field(self, flag, families, command):
        dest = self.row(flag, families)["dest"]
        return any(word.startswith("--") and word != flag and self.row(word, families)["dest"] == dest
                   for word in command)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
