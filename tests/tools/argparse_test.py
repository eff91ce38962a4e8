#!/usr/bin/env python3
"""Flags beside the real argparse: the same flags declared in both, the same command lines read.

argparse_test.py PROBE [unittest arguments]
PROBE is tests/tools/flags_probe.cpp. Beside a table of probes, random command lines are compared.
Left out is where Flags differs on purpose: it takes -1e3 and -1_0 as values and more values after
`--list=value`; an unknown `--x=a b` is no positional; and what can_judge() says.
"""
import argparse
import contextlib
import io
import json
import random
import subprocess
import sys
import unittest

PROBE = ""
SEED = 20260113
RANDOM_LINES = 4000

PROBES = [
    [],
    ["--num-layers", "24"],
    ["--num_layers", "24"],
    ["--num-layers=24"],
    ["--num_layers_per_stage=2"],
    ["--num-layers", "1", "--num-layers", "2"],
    ["--num-layers", "x", "--num-layers", "2"],
    ["--num-layers", "-3"],
    ["--num-layers", "+3"],
    ["--num-layers", "1.5"],
    ["--num-layers", "1_000"],
    ["--num-layers", "1__0"],
    ["--num-layers", "_1"],
    ["--num-layers", "1_"],
    ["--num-layers=-1_0"],
    ["--num-layers", " 5"],
    ["--num-layers", "007"],
    ["--lr", "1_0.5e-0_1"],
    ["--lr", "1_.5"],
    ["--lr", "\t.5 "],
    ["--lr", "nan(1)"],
    ["--num-layers"],
    ["--num-layers", "--bf16"],
    ["--num-layers="],
    ["--num", "1"],
    ["--lr=-1e-5"],
    ["--lr", "-.5"],
    ["--lr", ".5"],
    ["--lr", "5."],
    ["--lr", "1e3"],
    ["--lr-", "linear"],
    ["--lr_d=cosine"],
    ["--lr-decay-style", "cubic"],
    ["--data-c", "x"],
    ["--data", "x"],
    ["--data-cache-path", ""],
    ["--data-cache-path="],
    ["--data-cache-path", "-"],
    ["--data-cache-path=--bf16"],
    ["--data-cache-path", "-my folder"],
    ["--data-cache-path", "--"],
    ["--data-cache-path", "a=b"],
    ["--data-cache-path=a=b"],
    ["--data-path", "0.5", "a", "-0.5", "b", "-", "-1"],
    ["--data-path", "a", "--bf16", "--data-path", "b", "c"],
    ["--data-path"],
    ["--data-path", "--bf16"],
    ["--data-path", ""],
    ["--data-path", "a", "", "b"],
    ["--json-keys", "text", "title", "-", ""],
    ["--json-keys", "text", "body"],
    ["--json-keys", "body", "--json-keys", "text"],
    ["--bf16"],
    ["--bf16", "--bf16"],
    ["--bf1"],
    ["--bf16-m"],
    ["--bf16=1"],
    ["--bf16="],
    ["--unknown"],
    ["-x"],
    ["-5"],
    ["a"],
    ["--", "a"],
    ["a", "b", "--bf16", "c"],
    ["a", "--", "--bf16", "-x"],
    ["--num-layers", "2", "a", "--data-path", "x", "y"],
]

PIECES = ["--num-layers", "--num_layers", "--num-layers-per-stage", "--num-l", "--num-layers-p",
          "--lr", "--lr-decay-style", "--lr_decay", "--data-path", "--data_path", "--data-c",
          "--data", "--json-keys", "--json", "--bf16", "--bf16-moments", "--bf16_m", "--bf", "--x",
          "-y", "--", "-", "", "0", "1", "-1", "-2.5", "-.5", "1e-3", "1_0", "1_", " 2", "linear", "cosine", "text",
          "title", "a", "b c", "-d e", "a=b"]


def argparse_parser(positionals):
    parser = argparse.ArgumentParser(prog="probe")

    parser.add_argument("--num-layers", type=int)
    parser.add_argument("--num-layers-per-stage", type=int)
    parser.add_argument("--lr", type=float)
    parser.add_argument("--lr-decay-style", choices=["constant", "linear", "cosine"], default="linear")
    parser.add_argument("--data-cache-path")
    parser.add_argument("--data-path", nargs="+", default=[])
    parser.add_argument("--json-keys", nargs="+", choices=["text", "title", "-", ""], default=["text"])
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--bf16-moments", action="store_true")
    if positionals:
        parser.add_argument("first")
        parser.add_argument("rest", nargs="*")
    return parser


def judged(parser, words, positionals):
    """What argparse makes of the words; None for a usage error."""
    flags = words.index("--") if "--" in words else len(words)
    words = [with_dashes(word) for word in words[:flags]] + words[flags:]
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            intermixed = positionals and "--" not in words
            return vars((parser.parse_intermixed_args if intermixed else parser.parse_args)(words))
    except SystemExit as end:
        assert end.code == 2, end.code
        return None


def can_judge(words, positionals):
    """Whether argparse itself gets the line right: among flags it forgets what `--` means, and it
    drops each `--` that is a positional or a value."""
    if any(word.endswith("=--") for word in words):
        return False
    if "--" not in words:
        return True
    if not positionals:
        return words[-1] != "--"
    before = words[:words.index("--")]
    return words.count("--") == 1 and not any(word.startswith("-") for word in before)


def with_dashes(word):
    """--a_b as --a-b: Flags takes both spellings, of prefixes too."""
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value


def random_line(choose):
    words = [choose.choice(PIECES) for _ in range(choose.randrange(7))]
    for i, word in enumerate(words):
        if word.startswith("--") and word not in ("--", "--x", "--data-path", "--data_path"):
            if "json" not in word and choose.random() < 0.2:
                words[i] = word + "=" + choose.choice(PIECES)
    return words


class Argparse(unittest.TestCase):
    maxDiff = None

    def compare(self, lines, positionals):
        lines = [words for words in lines if can_judge(words, positionals)]
        text = "".join("\x1f".join(["probe", *words, ""]) + "\n" for words in lines)
        command = [PROBE, "positionals"] if positionals else [PROBE]
        answers = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        found = [json.loads(answer) for answer in answers.stdout.splitlines()]
        self.assertEqual(len(found), len(lines))
        parser = argparse_parser(positionals)
        right = 0
        for words, answer in zip(lines, found):
            expected = judged(parser, words, positionals)
            self.assertEqual(answer, expected, words)
            right += expected is not None
        return right

    def test_probes_are_read_alike(self):
        self.compare(PROBES, positionals=False)
        self.compare(PROBES, positionals=True)

    def test_random_command_lines_are_read_alike(self):
        choose = random.Random(SEED)
        lines = [random_line(choose) for _ in range(RANDOM_LINES)]
        self.assertGreater(self.compare(lines, positionals=False), RANDOM_LINES // 20,
                           "too few of the lines are right")
        self.assertGreater(self.compare(lines, positionals=True), RANDOM_LINES // 20)


if __name__ == "__main__":
    PROBE = sys.argv.pop(1)
    unittest.main()
