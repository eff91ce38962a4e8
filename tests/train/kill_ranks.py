#!/usr/bin/env python3
"""Kills a random rank of pretrain_gpt at a random moment, again and again: the others end within ten
seconds, at most one of them says why, and the last checkpoint stays whole, from which the next run
goes on.

kill_ranks.py PRETRAIN_GPT VERIFY [ROUNDS [SEED]]
"""

import importlib.util
import os
import random
import signal
import subprocess
import sys
import time
import unittest

from launched_ranks import ORACLE, TIMEOUT, LaunchedRanks

PRETRAIN, VERIFY = (os.path.abspath(path) for path in sys.argv[1:3])
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 2
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 1
SHAPES = ((2, "--tensor-model-parallel-size 2 --sequence-parallel"),
          (2, "--pipeline-model-parallel-size 2 --bf16"),
          (2, "--use-distributed-optimizer --bf16"),
          (4, "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"),
          (2, "--ckpt-format torch_dist --use-distributed-optimizer"))


class KilledRanks(LaunchedRanks):
    program = PRETRAIN

    def test_rounds(self):
        chance = random.Random(SEED)
        print(f"seed {SEED}")
        for number in range(ROUNDS):
            shape = number % len(SHAPES)
            with self.subTest(round=number, seed=SEED):
                self.kill_one(number, *SHAPES[shape], self.folder / f"save{shape}", chance)

    def kill_one(self, number, ranks, shape, save, chance):
        processes = self.start(ranks, *shape.split(), "--train-iters", 20000, "--save", save,
                               "--load", save, "--save-interval", 4)
        victim, moment = chance.randrange(ranks), chance.uniform(0, 8)
        time.sleep(moment)
        self.assertEqual([process.poll() for process in processes], [None] * ranks)
        processes[victim].kill()
        killed = time.monotonic()
        # Ranks that have met notice by themselves; a launcher ends those that wait for the first
        # meeting.
        time.sleep(1)
        for process in processes:
            process.send_signal(signal.SIGTERM)
        codes, out, err = self.end(processes)
        seconds = time.monotonic() - killed
        steps = out.count(" iteration ")
        print(f"round {number}: {shape}: rank {victim} killed after {moment:.2f} s and {steps} steps: "
              f"others gone after {seconds:.1f} s; {self.errors(err)}", flush=True)
        self.assertLess(seconds, 10)
        self.assertEqual(codes[victim], -signal.SIGKILL)
        self.assertNotIn(0, codes)
        self.assertLessEqual(len(self.errors(err)), 1, err)
        if (save / "latest_checkpointed_iteration.txt").exists():
            done = subprocess.run([VERIFY, "checkpoint", save], capture_output=True, text=True,
                                  timeout=TIMEOUT)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    if not ORACLE.is_dir() or not importlib.util.find_spec("torch"):
        print(f"skipped: {ORACLE} or torch is missing")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
