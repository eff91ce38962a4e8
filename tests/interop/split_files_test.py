#!/usr/bin/env python3
"""Rank files of 2022 and 2023 in two: model_rng.pt, and optim.pt with the optimizer.

save_checkpoint of those revisions puts into optim.pt what others have under the same keys in
model_optim_rng.pt, so the oracle's files are taken apart here.

split_files_test.py CHECKPOINT_UTIL VERIFY [unittest arguments]
"""
import os
import shutil
import sys
import tempfile
import unittest

try:
    import torch

    from reference import cases
    from reference import files as reference_files
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

UTIL = VERIFY = ""
OF_OPTIMIZER = ("optimizer", "opt_param_scheduler")


class SplitFiles(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.split = os.path.join(self.folder, "split", "iter_0005000")

    def run_program(self, program, *flags, code=0):
        done = cases.run(program, *flags)
        self.assertEqual(done.returncode, code, (flags, done.stdout[-2000:], done.stderr))
        return done

    def take_apart(self, case, shards=False, change=None):
        source = reference_files.iteration_folder(cases.path(case))
        shutil.rmtree(self.split, ignore_errors=True)
        for name in os.listdir(source):
            state = torch.load(os.path.join(source, name, "model_optim_rng.pt"), weights_only=False)
            if change:
                change(state)
            for folder, file, keys in (
                    (name, "model_rng.pt", [key for key in state if key not in OF_OPTIMIZER]),
                    (name + "_000" * shards, "optim.pt", OF_OPTIMIZER)):
                os.makedirs(os.path.join(self.split, folder), exist_ok=True)
                torch.save({key: state[key] for key in keys},
                           os.path.join(self.split, folder, file))

    def refuse(self, *words):
        save = os.path.join(self.folder, "none")
        done = self.run_program(UTIL, "--load-dir", self.split, "--save-dir", save, code=1)
        for word in words:
            self.assertIn(word, done.stderr.splitlines()[-1])
        self.assertFalse(os.path.exists(save))

    def test_two_files_are_the_one(self):
        for case in ("gpt_tp2pp2_fp16", "gpt_tp1pp1_fp32", "gpt_tp1pp3_vpp2_fp16"):
            with self.subTest(case):
                self.take_apart(case)
                self.assertIn("equal",
                              self.run_program(VERIFY, "diff", cases.path(case), self.split).stdout)
                self.run_program(VERIFY, "checkpoint", self.split)
                saved = os.path.join(self.folder, case)
                self.run_program(UTIL, "--load-dir", self.split, "--save-dir", saved,
                                 "--target-tensor-parallel-size", "2",
                                 "--target-pipeline-parallel-size", "1")
                self.assertIn("equal",
                              self.run_program(VERIFY, "diff", cases.path(case), saved).stdout)

    def test_half_a_pair_is_refused(self):
        self.take_apart("gpt_tp2pp2_fp16")
        os.rename(os.path.join(self.split, "mp_rank_01_001", "optim.pt"),
                  os.path.join(self.folder, "optim.pt"))
        self.refuse("mp_rank_01_001/model_rng.pt: optimizer: expected optim.pt beside it")
        self.run_program(UTIL, "--load-dir", self.split, "--save-dir",
                         os.path.join(self.folder, "weights"), "--no-optim")
        os.remove(os.path.join(self.split, "mp_rank_01_001", "model_rng.pt"))
        os.rename(os.path.join(self.folder, "optim.pt"),
                  os.path.join(self.split, "mp_rank_01_001", "optim.pt"))
        self.refuse("mp_rank_01_001: expected model_rng.pt beside optim.pt")

    def test_runs_that_saved_no_optimizer_have_no_pair(self):
        self.take_apart("gpt_tp1pp1_fp32",
                        change=lambda state: setattr(state["args"], "no_save_optim", True))
        os.remove(os.path.join(self.split, "mp_rank_00", "optim.pt"))
        self.run_program(UTIL, "--load-dir", self.split, "--save-dir",
                         os.path.join(self.folder, "weights"))

    def test_shards_of_data_parallel_ranks_are_refused_by_name(self):
        for case in ("gpt_tp2pp2_fp16", "gpt_tp1pp1_fp32"):
            self.take_apart(case, shards=True)
            self.refuse("optimizer: shards of data-parallel ranks (optim.pt)", "--no-optim")
            saved = os.path.join(self.folder, case)
            self.run_program(UTIL, "--load-dir", self.split, "--save-dir", saved, "--no-optim")
            self.run_program(VERIFY, "diff", cases.path(case), saved, "--no-optim")

        def shard(state):
            state["optimizer"] = {"optimizer": state["optimizer"]["optimizer"],
                                  "shard_fp32_from_float16_groups": []}
        self.take_apart("gpt_tp2pp2_fp16", change=shard)
        self.refuse("shard_fp32_from_float16_groups", "--no-optim")

    def test_layouts_are_not_mixed(self):
        self.take_apart("gpt_tp2pp2_fp16")
        rank = os.path.join(self.split, "mp_rank_01_001")
        os.rename(os.path.join(rank, "model_rng.pt"), os.path.join(rank, "model_optim_rng.pt"))
        self.refuse("expected ranks of one layout", "mp_rank_01_001")
        self.take_apart("gpt_tp1pp1_fp32")
        rank = os.path.join(self.split, "mp_rank_00")
        state = torch.load(os.path.join(rank, "optim.pt"), weights_only=False)
        torch.save({**state, "iteration": 1}, os.path.join(rank, "optim.pt"))
        self.refuse("optim.pt: expected no iteration")


if __name__ == "__main__":
    try:
        import megatron.core  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    if not os.path.isdir(cases.ORACLE):
        print("skipped: no shared folder with checkpoints of the real Megatron-LM")
        sys.exit(77)
    UTIL, VERIFY = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    unittest.main()
