"""GPT under the names of the real megatron-core's HybridModel (0.19.2), there and back.

main(CHECKPOINT_UTIL, VERIFY, FORM, FOLDER): an assertion fails where that changes something
"""
import argparse
import os
import subprocess

import torch
from megatron.core import dist_checkpointing
from megatron.core.dist_checkpointing import gpt_checkpoint_interop as interop

from megatron_core import hybrid_models as hybrid
from megatron_core import optimizers as round_trip
from megatron_core.ranks import logits_of, model_args
from reference import files as reference_files
from reference.same import expect_same


def expect_equal(verify, a, b):
    done = subprocess.run([verify, "diff", a, b], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    subprocess.run([verify, "checkpoint", b], check=True, stdout=subprocess.DEVNULL)


def main(util, verify, form, folder):
    round_trip.start()
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
    round_trip.convert(util, gpt, path["ours"], "--target-names", "hybrid", *to_dist)
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
        expect_same(ours[part], theirs[part], part)
    assert ours["args"].hybrid_layer_pattern == "*-*-*-" and ours["args"].num_layers == 6
    expect_equal(verify, gpt, path["ours"])

    # Rank files: everything by name, and parameters of the optimizer in the model's order.
    round_trip.convert(util, gpt, path["ranks"], "--target-names", "hybrid", "--target-optimizer", "plain")
    rank = torch.load(os.path.join(reference_files.iteration_folder(path["ranks"]), "mp_rank_00",
                                   "model_optim_rng.pt"), weights_only=False)
    model.module.load_state_dict(rank["model"], strict=True)
    assert torch.equal(logits_of(model.module), answer), "logits"
    expect_equal(verify, gpt, path["ranks"])
    if form == "plain":
        optimizer.load_state_dict(rank["optimizer"])
        of_ranks = round_trip.state_of(model, optimizer)
        model.module.load_state_dict(theirs["model"])
        optimizer.load_state_dict(theirs["optimizer"])
        expect_same(of_ranks, round_trip.state_of(model, optimizer), "rank files")
        # What HybridModel saves itself.
        state, metadata = round_trip.sharded_state(
            model, optimizer, argparse.Namespace(**{
                **vars(args), "num_layers": 6, "hybrid_layer_pattern": "*-*-*-"}), form, False)
        saved = os.path.join(path["saved"], "iter_0000003")
        os.makedirs(saved)
        dist_checkpointing.save(state, saved, content_metadata=metadata)
        expect_equal(verify, gpt, saved)
        round_trip.convert(util, saved, path["again"], "--target-names", "mcore", *to_dist)
        expect_equal(verify, gpt, path["again"])
