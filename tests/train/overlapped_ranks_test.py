#!/usr/bin/env python3
"""pretrain_gpt with communication that overlaps with computation: the same numbers as without.

overlapped_ranks_test.py PRETRAIN_GPT VERIFY
"""

import collections
import importlib.util
import json
import os
import re
import subprocess
import sys
import unittest

from launched_ranks import ORACLE, TIMEOUT, LaunchedRanks

PRETRAIN, VERIFY = (os.path.abspath(path) for path in sys.argv[1:3])
REDUCE = ("--overlap-grad-reduce", "--ddp-bucket-size", 5000)
GATHER = ("--use-distributed-optimizer", "--overlap-param-gather")


def figures(out):
    """What the lines of steps and evaluations say, without their times."""
    return re.findall(r"consumed samples: .*? \||(?:lm loss|params norm|grad norm|value): ?[\d.E+-]+", out)


class OverlappedRanks(LaunchedRanks):
    program = PRETRAIN

    def events(self, file):
        found = collections.defaultdict(list)
        for event in json.loads(file.read_text())["traceEvents"]:
            if event["ph"] == "X":
                found[event["pid"]].append(event)
        return found

    def test_a_run_is_the_one_without_overlap_to_the_bit(self):
        """With dropout. Sums of two ranks do not depend on who begins. What is gathered is evaluated, normed and
        saved while it may be on its way."""
        reads = "--use-distributed-optimizer --eval-interval 1 --log-params-norm "
        for ranks, shape, overlap in (
                (2, "--bf16", REDUCE), (2, reads, REDUCE),
                (4, "--tensor-model-parallel-size 2 --sequence-parallel --qk-layernorm", REDUCE),
                (2, reads + "--bf16 --save-interval 1 --recompute-granularity full --recompute-method uniform",
                 REDUCE + GATHER),
                (4, "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
                    "--use-distributed-optimizer --bf16", REDUCE + GATHER)):
            with self.subTest(shape=shape):
                plain, overlapped = (self.folder / str(ranks) / name for name in "ab")
                flags = [*shape.split(), "--train-iters", 3]
                expected, found = (figures(self.train(ranks, *flags, "--save", folder, *more))
                                   for folder, more in ((plain, ()), (overlapped, overlap)))
                self.assertGreaterEqual(len(expected), 5)
                self.assertEqual(found, expected)
                done = subprocess.run([VERIFY, "diff", plain, overlapped], capture_output=True,
                                      text=True, timeout=TIMEOUT)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                for folder in (plain, overlapped):
                    subprocess.run(["rm", "-r", folder], check=True)

    def test_gradients_are_sent_while_the_backward_pass_goes_on(self):
        file = self.folder / "trace.json"
        for operation, flags in (("all-reduce", []),
                                 ("reduce-scatter", ["--use-distributed-optimizer"])):
            with self.subTest(operation=operation):
                self.train(2, "--train-iters", 1, "--eval-iters", 0, "--trace-schedule", file,
                           *REDUCE, *flags)
                for events in self.events(file).values():
                    last = [event for event in events if event["name"] == "forward and backward"][-1]
                    sent = [event["args"]["issued"] for event in events
                            if event["name"] == operation and event["args"]["bytes"] > 1000]
                    self.assertGreater(len(sent), 4)
                    self.assertEqual(sent, sorted(sent)[::-1])  # the last bucket came first
                    for time in sent:
                        self.assertTrue(last["ts"] < time < last["ts"] + last["dur"])

    def test_parameters_are_gathered_while_the_next_forward_pass_goes_on(self):
        file = self.folder / "trace.json"
        self.train(2, "--train-iters", 2, "--eval-iters", 0, "--trace-schedule", file, *REDUCE, *GATHER)
        for events in self.events(file).values():
            first = [event for event in events if event["name"] == "forward and backward"][0]
            gathers = [event for event in events
                       if event["name"] == "all-gather" and event["args"]["bytes"] > 1000]
            self.assertGreater(len(gathers), 4)
            for gather in gathers:
                self.assertLess(gather["args"]["issued"], first["ts"])  # after the optimizer of the step before
                self.assertTrue(first["ts"] < gather["ts"] < first["ts"] + first["dur"])

    def test_what_megatron_refuses_is_refused_by_name(self):
        for flags, error in (
                ((*REDUCE, "--ddp-num-buckets", 2),
                 "--ddp-num-buckets 2: cannot be combined with --ddp-bucket-size 5000"),
                ((*REDUCE, "--overlap-param-gather"),
                 "--overlap-param-gather: requires --use-distributed-optimizer"),
                (GATHER, "--overlap-param-gather: requires --overlap-grad-reduce")):
            with self.subTest(flags=flags):
                done = subprocess.run(self.command("--train-iters", 1, *flags), cwd=ORACLE, capture_output=True,
                                      text=True, timeout=TIMEOUT)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertEqual(self.errors(done.stderr), [error])


if __name__ == "__main__":
    if not ORACLE.is_dir() or not importlib.util.find_spec("torch"):
        print(f"skipped: {ORACLE} or torch is missing")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
