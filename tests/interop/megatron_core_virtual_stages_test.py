#!/usr/bin/env python3
"""Buffers of virtual pipeline stages (dp_reshardable) say what the named tensors of the same run say,
with as many layers in each stage and with others.

megatron_core_virtual_stages_test.py CHECKPOINT_UTIL VERIFY [unittest arguments]
"""
import importlib.util
import os
import re
import sys
import tempfile
import unittest

from megatron_core.processes import run_package

HERE = os.path.dirname(os.path.abspath(__file__))
FORMS = ("dp_reshardable", "fully_reshardable")
RUNS = ({"pp": 2, "world_size": 2, "ddp_bucket_size": 20000},
        {"pp": 2, "world_size": 4, "data_parallel_size": 2, "ddp_bucket_size": 20000},
        {"pp": 2, "world_size": 2, "pipeline_model_parallel_layout": "Ett||t|tL"},
        {"pp": 2, "world_size": 2, "fp16": True})  # with a loss scaler, an object of each group's own
UTIL = VERIFY = ""


class VirtualStages(unittest.TestCase):
    def run_program(self, *words):
        done = run_package(words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr[-3000:])
        return done.stdout

    def save(self, fields, folder):
        """By form."""
        self.run_program(sys.executable, "-W", "ignore", os.path.join(HERE, "megatron_core", "virtual_stages.py"),
                         repr(fields | {"virtual_pipeline_model_parallel_size": 2}), folder, *FORMS)
        return [os.path.join(folder, form) for form in FORMS]

    def test_masters_that_core_saved_shifted_are_refused(self):
        """After a bucket that ends with padding the names have the state of what lies further on."""
        with tempfile.TemporaryDirectory() as folder:
            buffers, named = self.save({"pp": 2, "world_size": 4, "data_parallel_size": 2,
                                        "ddp_bucket_size": 5000}, os.path.join(folder, "saved"))
            self.run_program(VERIFY, "checkpoint", buffers)
            for flags in ([], ["--target-format", "torch_dist"]):
                save = os.path.join(folder, f"none{len(flags)}")
                done = run_package([UTIL, "--load-dir", named, "--save-dir", save, *flags])
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertRegex(done.stderr.splitlines()[-1], "^error: .*: expected the optimizer.s fp32 weights.*--no-optim")
                self.assertFalse(os.path.exists(save))
                # The weights are whole; nobody but the user can say what else is to be kept.
                for flag in ("--no-optim", "--no-master-check"):
                    self.run_program(UTIL, "--load-dir", named, "--save-dir", save + flag, *flags, flag)
                    self.run_program(VERIFY, "diff", "--no-optim", buffers, save + flag)

    def test_buffers_say_what_named_tensors_say(self):
        for fields in RUNS:
            with self.subTest(fields=fields), tempfile.TemporaryDirectory() as folder:
                buffers, named = self.save(fields, os.path.join(folder, "saved"))
                self.run_program(VERIFY, "checkpoint", buffers)
                # Weights, masters and two moments of each.
                found = re.search(r"equal \((\d+) parameters, (\d+) tensors",
                                  self.run_program(VERIFY, "diff", buffers, named))
                self.assertEqual(int(found[2]), 4 * int(found[1]))
                whole = os.path.join(folder, "whole")
                self.run_program(UTIL, "--load-dir", buffers, "--save-dir", whole,
                                 "--target-tensor-parallel-size", "1", "--target-pipeline-parallel-size", "1")
                self.run_program(VERIFY, "diff", named, whole)


if __name__ == "__main__":
    if not importlib.util.find_spec("megatron") or not importlib.util.find_spec("torch"):
        print("skipped: megatron-core or torch is missing")
        sys.exit(77)
    UTIL, VERIFY = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
