#!/usr/bin/env python3
"""pretrain_gpt with communication that overlaps with computation: the same numbers as without.

overlapped_ranks_test.py PRETRAIN_GPT VERIFY
"""

import collections
import importlib.util
import json
import os
import subprocess
import sys
import unittest

from launched_ranks import ORACLE, TIMEOUT, LaunchedRanks

PRETRAIN, VERIFY = (os.path.abspath(path) for path in sys.argv[1:3])
REDUCE = ("--overlap-grad-reduce", "--ddp-bucket-size", 5000)


class OverlappedRanks(LaunchedRanks):
    program = PRETRAIN

    def events(self, file):
        found = collections.defaultdict(list)
        for event in json.loads(file.read_text())["traceEvents"]:
            if event["ph"] == "X":
                found[event["pid"]].append(event)
        return found

    def test_a_run_is_the_one_without_overlap_to_the_bit(self):
        """With dropout. Sums of two ranks do not depend on who begins."""
        for ranks, shape in (
                (2, "--bf16"), (2, "--use-distributed-optimizer"),
                (4, "--tensor-model-parallel-size 2 --sequence-parallel --qk-layernorm"),
                (4, "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
                    "--use-distributed-optimizer --bf16")):
            with self.subTest(shape=shape):
                plain, overlapped = (self.folder / str(ranks) / name for name in "ab")
                flags = [*shape.split(), "--train-iters", 3]
                self.train(ranks, *flags, "--save", plain)
                self.train(ranks, *flags, "--save", overlapped, *REDUCE)
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

    def test_two_sizes_of_buckets_are_refused(self):
        done = subprocess.run(self.command("--train-iters", 1, *REDUCE, "--ddp-num-buckets", 2),
                              cwd=ORACLE, capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(self.errors(done.stderr), [
            "--ddp-num-buckets 2: expected no --ddp-bucket-size beside it, found 5000"])


if __name__ == "__main__":
    if not ORACLE.is_dir() or not importlib.util.find_spec("torch"):
        print(f"skipped: {ORACLE} or torch is missing")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
