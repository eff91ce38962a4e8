#!/usr/bin/env python3
"""Rank files of 2022 and 2023 in several: model_rng.pt, and optim.pt with the optimizer.

Shards of data-parallel ranks are Megatron-LM's own (testdata/optimizer_shards), beside what its map of
ranges makes of them. An optim.pt for the whole rank has what others have under the same keys in
model_optim_rng.pt, so for it the oracle's files are taken apart here.

split_files_test.py CHECKPOINT_UTIL VERIFY TESTDATA [unittest arguments]
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

UTIL = VERIFY = SHARDS = ""
OF_OPTIMIZER = ("optimizer", "opt_param_scheduler")


class SplitCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.split = os.path.join(self.folder, "split", "iter_0005000")

    def run_program(self, program, *flags, code=0):
        done = cases.run(program, *flags)
        self.assertEqual(done.returncode, code, (flags, done.stdout[-2000:], done.stderr))
        return done

    def refuse(self, *words):
        save = os.path.join(self.folder, "none")
        done = self.run_program(UTIL, "--load-dir", self.split, "--save-dir", save, code=1)
        for word in words:
            self.assertIn(word, done.stderr.splitlines()[-1])
        self.assertFalse(os.path.exists(save))

    def expect_equal(self, a, b, *flags):
        self.assertIn("equal", self.run_program(VERIFY, "diff", a, b, *flags).stdout)


class Shards(SplitCase):
    def test_they_are_the_plain_optimizer(self):
        for case in sorted(os.listdir(SHARDS)):
            shards, plain = (os.path.join(SHARDS, case, *names)
                             for names in (["shards"], ["plain", "iter_0000002"]))
            if not os.path.isdir(shards):
                continue
            with self.subTest(case):
                self.expect_equal(plain, shards)
                self.run_program(VERIFY, "checkpoint", shards)
                manifest = os.path.join(self.folder, case + ".json")
                self.run_program(VERIFY, "manifest", plain, "--write", "--manifest", manifest)
                for number, flags in enumerate((
                        [], ["--target-optimizer", "plain"], ["--target-format", "torch_dist"],
                        ["--target-tensor-parallel-size", "4", "--target-pipeline-parallel-size", "2",
                         "--target-names", "mcore"])):
                    saved = os.path.join(self.folder, f"{case}{number}")
                    self.run_program(UTIL, "--load-dir", shards, "--save-dir", saved, *flags)
                    self.expect_equal(plain, saved)
                    for checked in (shards, saved):
                        self.run_program(VERIFY, "manifest", checked, "--manifest", manifest)

    def change(self, folder, change):
        path = os.path.join(self.split, folder, "optim.pt")
        state = torch.load(path, weights_only=False)
        change(state["optimizer"])
        torch.save(state, path)

    def test_what_does_not_fit_is_refused_by_name(self):
        def shorten(optimizer):
            groups = optimizer["shard_fp32_from_float16_groups"]
            groups[0][0] = groups[0][0][:-1]

        def move(optimizer):
            for group in optimizer["shard_fp32_from_float16_groups"]:
                group[0] = torch.roll(group[0], 1)

        def put_instead(path, other):
            shutil.copy(os.path.join(self.split, path), os.path.join(self.split, other))

        shard = "mp_rank_00_001"
        for words, damage in {
            "expected shards of 3 data-parallel ranks, as args say, found 2":
                lambda: shutil.rmtree(os.path.join(self.split, "mp_rank_00_002")),
            "expected the shard (optim.pt) of data-parallel rank 1":
                lambda: shutil.rmtree(os.path.join(self.split, shard)),
            "found 4": lambda: shutil.copytree(os.path.join(self.split, shard),
                                               os.path.join(self.split, "mp_rank_00_003")),
            "found both": lambda: shutil.copy(os.path.join(self.split, shard, "optim.pt"),
                                              os.path.join(self.split, "mp_rank_00")),
            "expected parts of": lambda: put_instead("mp_rank_00_002/optim.pt", shard),
            "elements of float32 from element": lambda: self.change(shard, shorten),
            "expected the fp32 weights of": lambda: self.change(shard, move),
            "expected lr": lambda: self.change(
                shard, lambda optimizer: optimizer["optimizer"]["param_groups"][0].update(lr=0.5)),
            "expected numbers": lambda: self.change(
                "mp_rank_00_000",
                lambda optimizer: optimizer["optimizer"]["param_groups"][0].update(x={})),
            "step of": lambda: self.change(
                shard, lambda optimizer: optimizer["optimizer"]["state"][0].update(step=7)),
            "expected an entry for": lambda: self.change(
                shard, lambda optimizer: optimizer["optimizer"]["state"].pop(0)),
            "expected param_groups and shard_fp32_from_float16_groups": lambda: self.change(
                shard, lambda optimizer: optimizer.pop("shard_fp32_from_float16_groups")),
        }.items():
            shutil.rmtree(self.split, ignore_errors=True)
            shutil.copytree(os.path.join(SHARDS, "fp16_dp3", "shards", "iter_0000002"), self.split)
            damage()
            with self.subTest(words):
                self.refuse("optimizer: ", words)
                weights = os.path.join(self.folder, "weights")
                self.run_program(UTIL, "--load-dir", self.split, "--save-dir", weights, "--no-optim")
                shutil.rmtree(weights)


@cases.needs_oracle
class SplitFiles(SplitCase):
    def take_apart(self, case, change=None):
        source = reference_files.iteration_folder(cases.path(case))
        shutil.rmtree(self.split, ignore_errors=True)
        for name in os.listdir(source):
            state = torch.load(os.path.join(source, name, "model_optim_rng.pt"), weights_only=False)
            if change:
                change(state)
            for folder, file, keys in (
                    (name, "model_rng.pt", [key for key in state if key not in OF_OPTIMIZER]),
                    (name, "optim.pt", OF_OPTIMIZER)):
                os.makedirs(os.path.join(self.split, folder), exist_ok=True)
                torch.save({key: state[key] for key in keys},
                           os.path.join(self.split, folder, file))

    def test_two_files_are_the_one(self):
        for case in ("gpt_tp2pp2_fp16", "gpt_tp1pp1_fp32", "gpt_tp1pp3_vpp2_fp16"):
            with self.subTest(case):
                self.take_apart(case)
                self.expect_equal(cases.path(case), self.split)
                self.run_program(VERIFY, "checkpoint", self.split)
                saved = os.path.join(self.folder, case)
                self.run_program(UTIL, "--load-dir", self.split, "--save-dir", saved,
                                 "--target-tensor-parallel-size", "2",
                                 "--target-pipeline-parallel-size", "1")
                self.expect_equal(cases.path(case), saved)

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

    def test_a_shard_for_the_whole_rank_is_refused(self):
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
        self.refuse("optim.pt: unexpected iteration")


if __name__ == "__main__":
    try:
        import megatron.core  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    UTIL, VERIFY = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    SHARDS = os.path.join(sys.argv.pop(1), "optimizer_shards")
    unittest.main()
