#!/usr/bin/env python3
"""Checkpoints of GPT under the names of HybridModel, judged by the real megatron-core 0.19.2.

megatron-core saves a GPT model with its optimizer. What its own HybridModel loads of that, by
megatron-core's translation at loading, is what it finds in the checkpoint that checkpoint_util wrote
with --target-names hybrid; and what HybridModel saves is the same checkpoint to verify.

hybrid_names_test.py CHECKPOINT_UTIL VERIFY [unittest arguments]
"""
import argparse
import os
import subprocess
import sys
import tempfile
import unittest

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
import megatron_core_torch_dist_test as round_trip  # noqa: E402
from megatron_core.processes import run_package  # noqa: E402

HERE, NEWER = round_trip.HERE, round_trip.NEWER
VERIFY = ""


def expect_equal(a, b):
    done = subprocess.run([VERIFY, "diff", a, b], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    subprocess.run([VERIFY, "checkpoint", b], check=True, stdout=subprocess.DEVNULL)


def judge(form, folder):
    import torch
    from megatron.core import dist_checkpointing
    from megatron.core.dist_checkpointing import gpt_checkpoint_interop as interop

    from megatron_core import hybrid_models as hybrid
    from megatron_core import models as core
    from reference import files as reference_files
    from megatron_core.ranks import logits_of, model_args
    torch.cuda.synchronize = lambda *device: None
    core.start_without_gpu()
    core.call_types_cuda()
    args = model_args(bf16=True, num_layers=3, use_distributed_optimizer=form == "distributed")
    model, optimizer = round_trip.make(args, form)
    round_trip.take_steps(model, optimizer, range(2))
    state, metadata = round_trip.sharded_state(model, optimizer, args, form, False)
    path = {name: os.path.join(folder, name) for name in ("gpt", "saved", "ours", "ranks", "again")}
    gpt = os.path.join(path["gpt"], "iter_0000003")
    os.makedirs(gpt)
    dist_checkpointing.save(state, gpt, content_metadata=metadata)
    answer = logits_of(model.module)

    to_dist = ("--target-format", "torch_dist", "--target-optimizer", form)
    round_trip.convert(gpt, path["ours"], "--target-names", "hybrid", *to_dist)
    model, optimizer = round_trip.make(args, form, hybrid.make_model)
    round_trip.take_steps(model, optimizer, [7])
    layers = interop.gpt_compatible_layer_maps("*-" * args.num_layers)

    def load(where, is_gpt):
        wanted = round_trip.sharded_state(model, optimizer, args, form, True)[0]
        if is_gpt:
            for part in ("model", "optimizer"):
                interop.retarget_sharded_state_dict_to_gpt_checkpoint(wanted[part], layers)
        return dist_checkpointing.load(wanted, where)

    theirs = load(gpt, True)
    ours = load(reference_files.iteration_folder(path["ours"]), False)
    for part in ("model", "optimizer"):
        round_trip.expect_same(ours[part], theirs[part], part)
    assert ours["args"].hybrid_layer_pattern == "*-*-*-" and ours["args"].num_layers == 6
    expect_equal(gpt, path["ours"])

    # Rank files: everything by name, and parameters of the optimizer in the model's order.
    round_trip.convert(gpt, path["ranks"], "--target-names", "hybrid", "--target-optimizer", "plain")
    rank = torch.load(os.path.join(reference_files.iteration_folder(path["ranks"]), "mp_rank_00",
                                   "model_optim_rng.pt"), weights_only=False)
    model.module.load_state_dict(rank["model"], strict=True)
    assert torch.equal(logits_of(model.module), answer), "logits"
    expect_equal(gpt, path["ranks"])
    if form == "plain":
        optimizer.load_state_dict(rank["optimizer"])
        of_ranks = round_trip.state_of(model, optimizer)
        model.module.load_state_dict(theirs["model"])
        optimizer.load_state_dict(theirs["optimizer"])
        round_trip.expect_same(of_ranks, round_trip.state_of(model, optimizer), "rank files")
        # What HybridModel saves itself.
        state, metadata = round_trip.sharded_state(
            model, optimizer, argparse.Namespace(**{
                **vars(args), "num_layers": 6, "hybrid_layer_pattern": "*-*-*-"}), form, False)
        saved = os.path.join(path["saved"], "iter_0000003")
        os.makedirs(saved)
        dist_checkpointing.save(state, saved, content_metadata=metadata)
        expect_equal(gpt, saved)
        round_trip.convert(saved, path["again"], "--target-names", "mcore", *to_dist)
        expect_equal(gpt, path["again"])
    print("equal")


class HybridNames(unittest.TestCase):
    def expect_judged(self, form):
        if not os.path.isdir(NEWER):
            self.skipTest(f"{NEWER} is not there: scripts/setup.sh unpacks it")
        with tempfile.TemporaryDirectory() as folder:
            path = os.pathsep.join([NEWER, HERE, os.environ.get("PYTHONPATH", "")])
            run = run_package([sys.executable, "-W", "ignore", os.path.abspath(__file__), round_trip.UTIL,
                               VERIFY, "judge", form, folder], env={**os.environ, "PYTHONPATH": path})
            self.assertEqual(run.returncode, 0, run.stderr[-3000:])
            self.assertIn("equal", run.stdout)

    def test_hybrid_models_load_distributed_optimizers(self):
        self.expect_judged("distributed")

    def test_hybrid_models_load_plain_optimizers(self):
        self.expect_judged("plain")


if __name__ == "__main__":
    round_trip.UTIL, VERIFY = (os.path.abspath(path) for path in sys.argv[1:3])
    if sys.argv[3:4] == ["judge"]:
        judge(*sys.argv[4:6])
        sys.exit(0)
    try:
        import megatron.core  # noqa: F401
        import psutil  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
