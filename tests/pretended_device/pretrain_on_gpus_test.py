#!/usr/bin/env python3
"""pretrain_gpt on two ranks with a GPU each, which computes nothing: how they begin and end.

pretrain_on_gpus_test.py PRETRAIN_GPT PRETENDED_DEVICE
"""

import importlib.util
import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "train"))
from launched_ranks import ORACLE, LaunchedRanks  # noqa: E402

PRETRAIN, DEVICE = (os.path.abspath(path) for path in sys.argv[1:3])


class RanksOnGpus(LaunchedRanks):
    program = PRETRAIN

    def start(self, ranks, *flags, gpus=2, **options):
        # The loader takes whitespace in LD_PRELOAD for ends of names.
        device = self.folder / os.path.basename(DEVICE)
        if not device.exists():
            device.symlink_to(DEVICE)
        # Memory that is not used again is zero where no kernel writes it.
        os.environ.update(LD_PRELOAD=str(device), MEG_PRETENDED_DEVICES=str(gpus),
                          MEG_PRETENDED_NCCL=str(self.folder), PYTORCH_NO_CUDA_MEMORY_CACHING="1")
        try:
            # The last --device counts.
            return super().start(ranks, *flags, "--device", "cuda", "--bf16", **options)
        finally:
            del os.environ["LD_PRELOAD"]

    def test_ranks_train_and_end_without_a_word(self):
        for shape in ("--tensor-model-parallel-size 2 --sequence-parallel",
                      "--pipeline-model-parallel-size 2", "--use-distributed-optimizer"):
            with self.subTest(shape=shape):
                codes, out, err = self.end(self.start(
                    2, *shape.split(), "--train-iters", 2, "--save", self.folder / "save",
                    "--distributed-backend", "gloo"))
                self.assertEqual(codes, [0, 0], out + err)
                self.assertIn("iteration        2/       2", out)
                self.assertIn("successfully saved checkpoint", out)
                notes = [line for line in err.splitlines() if "gloo" in line]
                self.assertEqual(notes, ["note: --distributed-backend gloo: the ranks compute on GPUs and communicate through nccl"])
                self.assertNotIn("destroy", err)
                self.assertNotIn("Warning", err)

    def test_two_ranks_with_one_gpu_are_an_error(self):
        codes, _, err = self.end(self.start(2, "--train-iters", 1, gpus=1))
        self.assertEqual(set(codes), {1}, err)
        self.assertRegex(err, "error: rank [01]: device: expected a GPU for each rank, found cuda:0")

    def test_a_softmax_that_no_kernel_has_is_refused(self):
        for name in ("off-by-one", "learnable"):
            self.expect_refused(2, f"--softmax-type {name}",
                                f"softmax_type: expected vanilla on a GPU, found {name}")

    def test_a_killed_rank_ends_the_other_at_once(self):
        processes = self.start(2, "--tensor-model-parallel-size", 2, "--train-iters", 1000000)
        for line in processes[1].stdout:
            if " iteration        3/" in line:
                break
        processes[1].kill()
        codes, out, err = self.end(processes)
        self.assertEqual(codes, [1, -signal.SIGKILL], out + err)
        self.assertEqual(len(self.errors(err)), 1, err)


if __name__ == "__main__":
    if not ORACLE.is_dir() or not importlib.util.find_spec("torch"):
        print(f"skipped: {ORACLE} or torch is missing")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
