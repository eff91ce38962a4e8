#!/usr/bin/env python3
"""Checkpoints of several ranks that the real megatron-core (PyPI) made go to other layouts and back.

megatron_core_layouts_test.py CHECKPOINT_UTIL VERIFY [unittest arguments]
The judges: the logits that megatron-core computed in the source's layout, its own optimizers, and
the source's files after a detour.
"""
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

    import checkpoint_cases as cases
    import megatron_core_ranks as ranks
    import megatron_core_reads_checkpoints as core
    import reference_files
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

CHECKPOINT_UTIL = VERIFY = ""
FOLDER = None  # checkpoints that several tests read


def made(name, args, *options):
    """A checkpoint of megatron-core's, made once."""
    folder = os.path.join(FOLDER.name, name)
    return folder if os.path.isdir(folder) else ranks.save(folder, args, *options)


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
        model = core.make_model(state["args"])
        model.load_state_dict(state["model"], strict=True)
        wanted = torch.load(os.path.join(source, "logits.pt"))
        torch.testing.assert_close(ranks.logits_of(model.eval()), wanted, atol=1e-5, rtol=0)

    def assert_same_tensors(self, found, wanted, path=""):
        if isinstance(wanted, torch.Tensor):
            self.assertTrue(torch.equal(found, wanted), path)
        elif isinstance(wanted, (dict, list)):
            keys = wanted if isinstance(wanted, dict) else range(len(wanted))
            self.assertEqual(list(found) if isinstance(wanted, dict) else len(found),
                             list(wanted) if isinstance(wanted, dict) else len(wanted), path)
            for key in keys:
                self.assert_same_tensors(found[key], wanted[key], f"{path}/{key}")

    def assert_comes_back(self, source, detour, *flags):
        """From another layout to the source's: every rank's tensors, names and orders."""
        wanted = reference_files.load_ranks(source)
        tp = max(tensor_rank for tensor_rank, _ in wanted) + 1
        pp = max(stage for _, stage in wanted) + 1
        found = reference_files.load_ranks(self.reshape(detour, tp, pp, *flags))
        self.assertEqual(sorted(found), sorted(wanted))
        for rank, state in wanted.items():
            for key in ("model", "optimizer"):
                self.assert_same_tensors(found[rank].get(key), state.get(key), f"{rank} {key}")

    def check(self, source, tp=1):
        self.verified("checkpoint", source)
        merged = self.reshape(source, tp, 1)
        if tp == 1:
            self.assert_computes_the_same(source, merged)
        self.verified("diff", source, merged)
        self.assert_comes_back(source, merged)


class Gates(Layouts):
    """fc1 of a gated MLP is cut in both of its halves, whatever args call the gate."""

    def source(self):
        return made("quick_geglu", ranks.model_args(tp=2, quick_geglu=True))

    def test_quick_geglu_computes_the_same(self):
        self.check(self.source())

    def test_a_gate_that_args_do_not_name_is_told_by_its_rows(self):
        source = self.source()
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
        self.assert_same_tensors(found[0, 0]["model"], named[0, 0]["model"])

    def test_rows_that_are_no_mlp_are_refused(self):
        for field, value in (("ffn_hidden_size", 96), ("swiglu", True)):
            name = f"spoilt-{field}"
            source = made(name, ranks.model_args(tp=1))
            path = os.path.join(source, "iter_0000001/mp_rank_00/model_optim_rng.pt")
            state = reference_files.load_file(path)
            setattr(state["args"], field, value)
            torch.save(state, path)
            process = cases.reshape(CHECKPOINT_UTIL, source, os.path.join(self.folder, name), 2, 1)
            self.assertEqual(process.returncode, 1, process.stderr)
            self.assertIn("mlp.linear_fc1.weight: expected shape", process.stderr)
            self.assertFalse(os.path.exists(os.path.join(self.folder, name)))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    CHECKPOINT_UTIL, VERIFY = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    FOLDER = tempfile.TemporaryDirectory(prefix="meg-test-")
    # Ranks are forked: all but the parent's own group is started by them.
    made("quick_geglu", ranks.model_args(tp=2, quick_geglu=True))
    for name in ("spoilt-ffn_hidden_size", "spoilt-swiglu"):
        made(name, ranks.model_args())
    core.start_without_gpu()
    unittest.main()
