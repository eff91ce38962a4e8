"""Runs of pretrain_gpt on several ranks."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from rank_processes import TIMEOUT, RankProcesses  # noqa: E402

SHARED = pathlib.Path(os.environ.get("MEG_SHARED", ROOT.parent / "shared"))
ORACLE = SHARED / "oracle" / "training"
RUN = ("--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 "
       "--max-position-embeddings 40 --make-vocab-size-divisible-by 74 --micro-batch-size 2 "
       "--global-batch-size 8 --lr 0.005 --min-lr 0.0005 --vocab-file gpt2-vocab.json --merge-file "
       "gpt2-merges.txt --split 90,8,2 --seed 42 --eval-interval 100 --eval-iters 2 --log-interval 1 "
       "--data-path data/tiny --device cpu").split()


class LaunchedRanks(unittest.TestCase):
    program = ""  # pretrain_gpt
    tags = ("lm loss", "grad-norm", "lm loss validation")  # of curves

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def command(self, *flags):
        return [self.program, *RUN, "--data-cache-path", str(self.folder / "cache"), *map(str, flags)]

    def start(self, ranks, *flags, of_rank=None, folders=None):
        return RankProcesses(self).start(ranks, self.command(*flags), of_rank, folders, cwd=ORACLE)

    def end(self, processes):
        """Exit codes, and what all of them wrote."""
        codes, written = RankProcesses.end(processes)
        return codes, "".join(out for out, _ in written), "".join(err for _, err in written)

    def train(self, ranks, *flags):
        codes, out, err = self.end(self.start(ranks, *flags))
        self.assertEqual(set(codes), {0}, out + err)
        return out

    def errors(self, err):
        return re.findall(r"^error: (.*)$", err, re.M)

    def losses(self, out):
        return [float(loss) for loss in re.findall(r"iteration .* lm loss: ([\d.E+-]+)", out)]

    def save(self, name, ranks, *flags):
        self.train(ranks, *flags, "--save", self.folder / name)
        return self.folder / name

    def save_in_parts(self, name, ranks, *flags):
        """Four iterations, saved by a run that takes them all and by one that goes on after its second."""
        flags = [*flags, "--train-iters", 4]
        straight = self.save(f"{name}-straight", ranks, *flags, "--save-interval", 2)
        return straight, self.save(f"{name}-parts", ranks, *flags, "--load", straight, "--ckpt-step", 2)

    def run_program(self, *words):
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=TIMEOUT,
                              cwd=ORACLE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def curves(self, name, ranks, *flags):
        """What `tags` names: the losses and the gradient norms of all steps, the loss of an evaluation."""
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        # Of a folder with two runs the first one's values would be read.
        events = tempfile.mkdtemp(prefix=name, dir=self.folder)
        self.train(ranks, *flags, "--tensorboard-dir", events)
        accumulator = EventAccumulator(events)
        accumulator.Reload()
        return {tag: [event.value for event in accumulator.Scalars(tag)]
                for tag in self.tags}

    def expect_near(self, found, expected, steps):
        for tag in ("lm loss", "grad-norm"):
            self.assertEqual(len(found[tag]), steps)
        for tag, values in expected.items():
            for one, other in zip(found[tag], values, strict=True):
                self.assertAlmostEqual(one / other, 1, delta=1e-5, msg=tag)

    def expect_refused(self, ranks, flags, *errors):
        codes, out, err = self.end(self.start(ranks, "--train-iters", 1, *flags.split()))
        self.assertEqual(set(codes), {1}, out + err)
        self.assertEqual(len(self.errors(err)), 1, err)
        for error in errors:
            self.assertIn(error, self.errors(err)[0])
