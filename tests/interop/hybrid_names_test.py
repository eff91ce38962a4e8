#!/usr/bin/env python3
"""Checkpoints of GPT under the names of HybridModel, judged by the real megatron-core 0.19.2.

megatron-core saves a GPT model with its optimizer. What its own HybridModel loads of that, by
megatron-core's translation at loading, is what it finds in the checkpoint that checkpoint_util wrote
with --target-names hybrid; and what HybridModel saves is the same checkpoint to verify.

hybrid_names_test.py CHECKPOINT_UTIL VERIFY [unittest arguments]
"""
import os

from checkpoint_case import NEWER, CheckpointCase, run_tests

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")


class HybridNames(CheckpointCase):
    python_path = (NEWER,)

    def expect_judged(self, form):
        self.run_main("megatron_core.hybrid_names", self.util, self.verify, form, self.folder)

    def test_hybrid_models_load_distributed_optimizers(self):
        self.expect_judged("distributed")

    def test_hybrid_models_load_plain_optimizers(self):
        self.expect_judged("plain")


if __name__ == "__main__":
    run_tests()
