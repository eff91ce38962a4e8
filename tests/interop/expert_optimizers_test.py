#!/usr/bin/env python3
"""Optimizers of expert-parallel ranks, as the real megatron-core saves them in several processes.

The same model takes the same steps over one expert-parallel rank and over several. What
checkpoint_util makes of the one checkpoint is the other: each tensor, number and group of every rank.

expert_optimizers_test.py CHECKPOINT_UTIL VERIFY [unittest arguments]
"""
import copy
import os
import shutil
import sys
import tempfile
import unittest

try:
    import psutil  # noqa: F401
    import torch

    from reference import cases
    from megatron_core import experts
    from reference import files as reference_files
    from reference.same import expect_same
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

UTIL = VERIFY = ""


def save(folder, tp, pp, ep, bf16):
    experts.save(experts.args_of(tp, pp, ep, bf16=bf16), [("plain_ranks", folder)])
    return folder


def ranks_of(root):
    folder = reference_files.iteration_folder(root)
    return {name: torch.load(os.path.join(folder, name, "model_optim_rng.pt"), weights_only=False)
            for name in sorted(os.listdir(folder)) if name.startswith("mp_rank")}


class ExpertOptimizers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_program(self, program, *flags, code=0):
        done = cases.run(program, *flags)
        self.assertEqual(done.returncode, code, (flags, done.stdout[-2000:], done.stderr))
        return done

    def convert(self, load, name, *flags):
        self.run_program(UTIL, "--load-dir", load, "--save-dir", self.path(name), *flags)
        return self.path(name)

    def expect_ranks(self, found, expected):
        ours, theirs = ranks_of(found), ranks_of(expected)
        self.assertEqual(sorted(ours), sorted(theirs))
        for name, rank in theirs.items():
            for part in ("model", "optimizer"):
                expect_same(ours[name][part], rank[part], f"{name} {part}")
        self.run_program(VERIFY, "checkpoint", found)

    def expect_layouts(self, tp, pp, ep, bf16):
        one, several = save(self.path("one"), tp, pp, 1, bf16), save(self.path("several"), tp, pp,
                                                                    ep, bf16)
        size = "--target-expert-parallel-size"
        self.assertIn("equal", self.run_program(VERIFY, "diff", one, several).stdout)
        self.expect_ranks(self.convert(one, "spread", size, str(ep)), several)
        self.expect_ranks(self.convert(several, "gathered", size, "1"), one)
        self.expect_ranks(self.convert(several, "kept"), several)
        other = self.convert(several, "other", size, "4", "--target-pipeline-parallel-size", "2")
        self.expect_ranks(self.convert(other, "back", size, str(ep), "--target-pipeline-parallel-size",
                                       str(pp)), several)
        dist = self.convert(several, "dist", "--target-format", "torch_dist",
                            "--target-optimizer", "plain")
        self.assertIn("equal", self.run_program(VERIFY, "diff", several, dist).stdout)

    def test_two_ranks_in_bf16(self):
        self.expect_layouts(1, 1, 2, True)

    def test_two_ranks_of_two_stages(self):
        self.expect_layouts(1, 2, 2, False)

    def test_two_ranks_cut_in_two(self):
        self.expect_layouts(2, 1, 2, True)

    def test_what_does_not_fit_is_refused(self):
        source = save(self.path("source"), 1, 1, 2, True)
        states = ranks_of(source)

        def refused(change, *words):
            root = self.path("spoilt")
            for name, state in states.items():
                folder = os.path.join(root, "iter_0000001", name)
                os.makedirs(folder, exist_ok=True)
                changed = copy.deepcopy(state)
                if name.endswith("1"):
                    change(changed)
                torch.save(changed, os.path.join(folder, "model_optim_rng.pt"))
            done = self.run_program(UTIL, "--load-dir", os.path.join(root, "iter_0000001"),
                                    "--save-dir", self.path("none"), code=1)
            error = done.stderr.splitlines()[-1]
            for word in ("mp_rank_00_001", "optimizer", *words):
                self.assertIn(word, error)
            self.assertFalse(os.path.exists(self.path("none")))
            self.convert(os.path.join(root, "iter_0000001"), "weights", "--no-optim")
            shutil.rmtree(self.path("weights"))

        refused(lambda state: state.pop("optimizer"), "expected a list of two", "none")
        refused(lambda state: state["optimizer"].pop(), "expected a list of two")
        refused(lambda state: state["optimizer"][1]["optimizer"]["state"].popitem(), "state")
        refused(lambda state: state["optimizer"][1]["optimizer"]["state"][0].update(
            exp_avg=torch.zeros(3, 3)), "exp_avg", "expected shape")
        refused(lambda state: state["optimizer"][1]["optimizer"]["param_groups"][0].update(lr=7.0),
                "lr")
        refused(lambda state: state["optimizer"][1]["optimizer"]["state"][0].update(
            step=torch.tensor(9.0)), "step")
        for state in ranks_of(source).values():
            self.assertEqual(len(state["optimizer"]), 2)


if __name__ == "__main__":
    UTIL, VERIFY = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    unittest.main()
