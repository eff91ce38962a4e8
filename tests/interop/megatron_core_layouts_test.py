#!/usr/bin/env python3
"""Checkpoints of several ranks that the real megatron-core (PyPI) made go to other layouts and back.

megatron_core_layouts_test.py CHECKPOINT_UTIL VERIFY [unittest arguments]
The judges: the logits that megatron-core computed in the source's layout, its own optimizers, and
the source's files after a detour.
"""
import argparse
import logging
import os
import sys
import tempfile
import unittest
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

try:
    import torch

    from reference import cases
    from megatron_core import ranks
    from megatron_core import models as core
    from reference import files as reference_files
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

CHECKPOINT_UTIL = VERIFY = ""
SOURCES = ""  # the folder of what megatron-core made
DECOUPLED = {"decoupled_lr": 1e-5, "decoupled_min_lr": 1e-6, "apply_wd_to_qk_layernorm": True}


def make_sources():
    """What the tests read. Ranks are forked, so this comes before a group of our own."""
    sources = {
        "quick_geglu": [ranks.model_args(tp=2, quick_geglu=True)],
        "plain": [ranks.model_args()],
        "groups": [ranks.model_args(tp=4, group_query_attention=True, num_query_groups=2)],
        "sinks": [ranks.model_args(tp=2, softmax_type="learnable")],
        "alone": [ranks.model_args(pp=2, pipeline_model_parallel_layout="E|ttttL"), {}],
        "decoupled": [ranks.model_args(pp=2, qk_layernorm=True), DECOUPLED],
        "decoupled_pp4": [ranks.model_args(pp=4, qk_layernorm=True), DECOUPLED]}
    for name, arguments in sources.items():
        ranks.save(os.path.join(SOURCES, name), *arguments)


def source_of(name):
    return os.path.join(SOURCES, name)


class Layouts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def reshape(self, load, tp, pp, *flags):
        save = os.path.join(self.folder, f"save-{len(os.listdir(self.folder))}")
        process = cases.reshape(CHECKPOINT_UTIL, load, save, tp, pp, *flags)
        self.assertEqual(process.returncode, 0, process.stderr)
        return save

    def verified(self, *arguments):
        process = cases.run(VERIFY, *arguments)
        self.assertEqual(process.returncode, 0, process.stdout + process.stderr)

    def assert_computes_the_same(self, source, merged):
        state = reference_files.load_ranks(merged)[0, 0]
        model = core.make_model(state["args"], bf16=False, bias_gelu_fusion=False)
        model.load_state_dict(state["model"], strict=True)
        wanted = torch.load(os.path.join(source, "logits.pt"))
        torch.testing.assert_close(ranks.logits_of(model.eval()), wanted, atol=1e-5, rtol=0)

    def assert_same(self, found, wanted, path=""):
        if isinstance(wanted, torch.Tensor):
            self.assertTrue(torch.equal(found, wanted), path)
        elif isinstance(wanted, dict):
            self.assertEqual(list(found), list(wanted), path)
            for key in wanted:
                self.assert_same(found[key], wanted[key], f"{path}/{key}")
        elif isinstance(wanted, list):
            self.assertEqual(len(found), len(wanted), path)
            for place, value in enumerate(wanted):
                self.assert_same(found[place], value, f"{path}/{place}")
        else:
            self.assertEqual(found, wanted, path)

    def assert_comes_back(self, source, detour, *flags):
        """From another layout to the source's: every rank's values, names and orders."""
        wanted = reference_files.load_ranks(source)
        tp = max(tensor_rank for tensor_rank, _ in wanted) + 1
        pp = max(stage for _, stage in wanted) + 1
        found = reference_files.load_ranks(self.reshape(detour, tp, pp, *flags))
        self.assertEqual(sorted(found), sorted(wanted))
        for rank, state in wanted.items():
            for key in ("model", "optimizer"):
                self.assert_same(found[rank].get(key), state.get(key), f"{rank} {key}")


class Gates(Layouts):
    """fc1 of a gated MLP is cut in both of its halves, whatever args call the gate."""

    def test_quick_geglu_computes_the_same(self):
        source = source_of("quick_geglu")
        self.verified("checkpoint", source)
        merged = self.reshape(source, 1, 1)
        self.assert_computes_the_same(source, merged)
        self.verified("diff", source, merged)
        self.assert_comes_back(source, merged)

    def test_a_gate_that_args_do_not_name_is_told_by_its_rows(self):
        source = source_of("quick_geglu")
        unnamed = os.path.join(self.folder, "unnamed")
        os.makedirs(unnamed)
        with open(os.path.join(unnamed, "latest_checkpointed_iteration.txt"), "w") as file:
            file.write("1")
        for (rank, _), state in reference_files.load_ranks(source).items():
            state["args"].quick_geglu = False
            state["args"].our_own_gate = True
            folder = os.path.join(unnamed, "iter_0000001", f"mp_rank_{rank:02d}")
            os.makedirs(folder)
            torch.save(state, os.path.join(folder, "model_optim_rng.pt"))
        self.verified("checkpoint", unnamed)
        named = reference_files.load_ranks(self.reshape(source, 1, 1))
        found = reference_files.load_ranks(self.reshape(unnamed, 1, 1))
        self.assert_same(found[0, 0]["model"], named[0, 0]["model"])

    def test_rows_that_are_no_mlp_are_refused(self):
        state = reference_files.load_ranks(source_of("plain"))[0, 0]
        for changes in ({"ffn_hidden_size": 96}, {"swiglu": True}):
            file = os.path.join(self.folder, "spoilt.pt")
            args = argparse.Namespace(**(vars(state["args"]) | changes))
            torch.save(state | {"args": args}, file)
            save = os.path.join(self.folder, "refused")
            process = cases.reshape(CHECKPOINT_UTIL, file, save, 2, 1)
            self.assertEqual(process.returncode, 1, process.stderr)
            self.assertIn("mlp.linear_fc1.weight: expected shape", process.stderr)
            self.assertFalse(os.path.exists(save))


class QueryGroups(Layouts):
    """More tensor ranks than query groups, as core 0.16 brought them."""

    def test_compute_the_same(self):
        source = source_of("groups")
        self.verified("checkpoint", source)
        for tp in (1, 2):
            merged = self.reshape(source, tp, 1)
            self.verified("diff", source, merged)
            self.assert_comes_back(source, merged)
            if tp == 1:
                self.assert_computes_the_same(source, merged)

    def test_are_refused_for_names_of_legacy_models(self):
        process = cases.reshape(CHECKPOINT_UTIL, source_of("groups"),
                                os.path.join(self.folder, "refused"), 4, 1, "--target-names",
                                "legacy")
        self.assertEqual(process.returncode, 1)
        self.assertIn("4 over 2 query groups: expected mcore names", process.stderr)


class AttentionSinks(Layouts):
    """Each head's softmax_offset goes where its head goes."""

    def test_compute_the_same(self):
        source = source_of("sinks")
        self.verified("checkpoint", source)
        for tp, pp in ((1, 1), (4, 1), (2, 2)):
            other = self.reshape(source, tp, pp)
            self.verified("checkpoint", other)
            self.verified("diff", source, other)
            self.assert_comes_back(source, other)
            if tp == 1:
                self.assert_computes_the_same(source, other)

    def test_go_through_torch_dist_and_other_names(self):
        source = source_of("sinks")
        local = ["--target-names", "mcore", "--saver-transformer-impl", "local", "--target-format", "torch"]
        for flags in (["--target-format", "torch_dist"], ["--target-names", "hybrid"],
                      ["--saver-transformer-impl", "transformer_engine"]):
            with self.subTest(flags=flags):
                other = os.path.join(self.folder, flags[1])
                process = cases.run(CHECKPOINT_UTIL, "--load-dir", source, "--save-dir", other, *flags)
                self.assertEqual(process.returncode, 0, process.stderr)
                self.verified("diff", source, other)
                back = self.reshape(other, 2, 1, *local)
                self.verified("diff", source, back)
                found = reference_files.load_ranks(back)
                for rank, state in reference_files.load_ranks(source).items():
                    for name, tensor in state["model"].items():
                        if name.endswith("softmax_offset"):
                            self.assertEqual(tensor.shape, (ranks.HEADS // 2,))
                            self.assertTrue(torch.equal(found[rank]["model"][name], tensor), name)

    def test_are_refused_for_models_that_have_none(self):
        for flags, words in ((["--target-names", "legacy"], "softmax_offset"),
                             (["--target-format", "huggingface"], "softmax_type: expected \"vanilla\"")):
            process = cases.reshape(CHECKPOINT_UTIL, source_of("sinks"),
                                    os.path.join(self.folder, "refused"), 1, 1, *flags)
            self.assertEqual(process.returncode, 1)
            self.assertIn(words, process.stderr)


class ParamGroups(Layouts):
    """Every stage has the groups, orders and settings that megatron-core itself gives it."""

    def param_groups(self, root):
        return {rank: state["optimizer"]["param_groups"]
                for rank, state in reference_files.load_ranks(root).items()}

    def test_a_stage_of_the_embedding_alone_keeps_its_empty_group(self):
        source = source_of("alone")
        self.assertEqual([len(group["params"]) for group in self.param_groups(source)[0, 0]], [2, 0])
        self.verified("checkpoint", source)
        self.assert_comes_back(source, source)
        wide = self.reshape(source, 2, 2)
        self.assertEqual([len(group["params"]) for group in self.param_groups(wide)[1, 0]], [2, 0])
        self.assert_comes_back(source, wide)
        merged = self.reshape(source, 1, 1)
        self.verified("diff", source, merged)

    def test_decoupled_rates_and_decaying_norms_are_kept(self):
        source = source_of("decoupled")
        self.assertEqual(len(self.param_groups(source)[0, 0]), 3)
        self.verified("checkpoint", source)
        for tp, pp in ((1, 1), (2, 4)):
            other = self.reshape(source, tp, pp)
            self.verified("checkpoint", other)
            self.verified("diff", source, other)
            self.assert_comes_back(source, other)
        long = self.reshape(source, 1, 4)
        self.assertEqual(self.param_groups(long), self.param_groups(source_of("decoupled_pp4")))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    CHECKPOINT_UTIL, VERIFY = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    with tempfile.TemporaryDirectory(prefix="meg-test-") as SOURCES:
        make_sources()
        core.start_without_gpu()
        unittest.main()
