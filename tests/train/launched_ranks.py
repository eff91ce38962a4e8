"""Runs of pretrain_gpt on several ranks."""

import os
import pathlib
import re
import shutil
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
