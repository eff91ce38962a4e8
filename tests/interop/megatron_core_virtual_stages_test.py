#!/usr/bin/env python3
"""Buffers of virtual pipeline stages (dp_reshardable) say what the named tensors of the same run say,
with as many layers in each stage and with others.

megatron_core_virtual_stages_test.py CHECKPOINT_UTIL VERIFY [unittest arguments]
"""
import os
import re

from checkpoint_case import CheckpointCase, run_tests

FORMS = ("dp_reshardable", "fully_reshardable")
RUNS = ({"pp": 2, "world_size": 2, "ddp_bucket_size": 20000},
        {"pp": 2, "world_size": 4, "data_parallel_size": 2, "ddp_bucket_size": 20000},
        {"pp": 2, "world_size": 2, "pipeline_model_parallel_layout": "Ett||t|tL"},
        {"pp": 2, "world_size": 2, "fp16": True})  # with a loss scaler, an object of each group's own


class VirtualStages(CheckpointCase):
    def save(self, fields, name):
        """By form."""
        self.run_main("megatron_core.virtual_stages", fields | {"virtual_pipeline_model_parallel_size": 2},
                      self.path(name), FORMS)
        return [os.path.join(self.path(name), form) for form in FORMS]

    def test_masters_that_core_saved_shifted_are_refused(self):
        """After a bucket that ends with padding the names have the state of what lies further on."""
        buffers, named = self.save({"pp": 2, "world_size": 4, "data_parallel_size": 2,
                                    "ddp_bucket_size": 5000}, "saved")
        self.run_program(self.verify, "checkpoint", buffers)
        for flags in ([], ["--target-format", "torch_dist"]):
            self.assertRegex(self.refuse(named, *flags),
                             "^error: .*: expected the optimizer.s fp32 weights.*--no-optim")
            # The weights are whole; nobody but the user can say what else is to be kept.
            for flag in ("--no-optim", "--no-master-check"):
                kept = self.convert(named, f"kept{len(flags)}{flag}", *flags, flag)
                self.run_program(self.verify, "diff", "--no-optim", buffers, kept)

    def test_buffers_say_what_named_tensors_say(self):
        for number, fields in enumerate(RUNS):
            with self.subTest(fields=fields):
                buffers, named = self.save(fields, f"saved{number}")
                self.run_program(self.verify, "checkpoint", buffers)
                # Weights, masters and two moments of each.
                found = re.search(r"equal \((\d+) parameters, (\d+) tensors",
                                  self.run_program(self.verify, "diff", buffers, named).stdout)
                self.assertEqual(int(found[2]), 4 * int(found[1]))
                whole = self.convert(buffers, f"whole{number}", "--target-tensor-parallel-size", "1",
                                     "--target-pipeline-parallel-size", "1")
                self.run_program(self.verify, "diff", named, whole)


if __name__ == "__main__":
    run_tests()
