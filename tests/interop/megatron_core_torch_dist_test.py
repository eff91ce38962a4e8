#!/usr/bin/env python3
"""The optimizer of the real megatron-core through torch_dist and back, in both of its forms.

megatron-core saves a model with its optimizer, checkpoint_util converts that to rank files and these to
torch_dist again, in the same form or in the other one, and megatron-core loads what it then finds into
another model: everything is what it was. This is done with 0.16.1, which is installed, and with 0.19.2,
which scripts/setup.sh unpacks for this test.

megatron_core_torch_dist_test.py CHECKPOINT_UTIL VERIFY [unittest arguments]
"""
import os

from checkpoint_case import NEWER, CheckpointCase, run_tests

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")


class Installed(CheckpointCase):
    def test_megatron_core_finds_its_optimizer_again(self):
        self.run_main("megatron_core.optimizers", "judge", self.util, self.folder)


class Newer(Installed):
    python_path = (NEWER,)


if __name__ == "__main__":
    run_tests()
