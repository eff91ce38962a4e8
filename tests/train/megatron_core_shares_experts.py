#!/usr/bin/env python3
"""Ranks of the real megatron-core (PyPI) that share experts train as one rank of libmeg does.

megatron_core_shares_experts.py PROGRAM [--newer] [unittest arguments]
PROGRAM (train_checkpoint) trains the same weights on the same windows. That ranks of libmeg do, too,
is what expert_ranks_test.py shows.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import megatron_core_trains as one_rank
import numpy
import torch
from megatron.core import parallel_state
from megatron_core import models as core
from megatron_core.ranks import run_ranks

PROGRAM = ""
STEPS, MICRO_BATCHES, EXPERTS = 3, 2, 4
FIELDS = {"num_experts": EXPERTS, "moe_ffn_hidden_size": 24, "add_bias_linear": False,
          "bias_gelu_fusion": False, "moe_router_load_balancing_type": "aux_loss",
          "moe_aux_loss_coeff": 1.0, "moe_z_loss_coeff": 0.1}
TP2 = {"tensor_model_parallel_size": 2, "sequence_parallel": True}
# Ranks, and fields of args.
SHAPES = {"EP2": (2, {"expert_model_parallel_size": 2}),
          "EP2 x TP2": (4, TP2 | {"expert_model_parallel_size": 2, "expert_tensor_parallel_size": 2}),
          "EP2 over TP2": (2, TP2 | {"expert_model_parallel_size": 2, "expert_tensor_parallel_size": 1})}
GLOBAL = {"moe_router_load_balancing_type": "global_aux_loss"}


def args_of(fields):
    return one_rank.argparse.Namespace(**(one_rank.RUN | FIELDS | fields))


def save_whole(folder, _, fields):
    core.start_without_gpu()
    torch.manual_seed(5)
    args = args_of(fields)
    model = core.make_model(args)
    core.save(os.path.join(folder, "load"), model, args)
    torch.save(dict(model.named_parameters()), os.path.join(folder, "weights.pt"))


def own_part(weights, name, parameter):
    """Of the whole model's weights."""
    share = EXPERTS // parallel_state.get_expert_model_parallel_world_size()
    first = parallel_state.get_expert_model_parallel_rank() * share
    is_expert = ".local_experts." in name
    whole = weights[re.sub(r"local_experts\.(\d+)", lambda m: f"local_experts.{int(m[1]) + first}", name)]
    rank = parallel_state.get_expert_tensor_parallel_rank() if is_expert \
        else parallel_state.get_tensor_model_parallel_rank()
    for axis, (own, all_of_it) in enumerate(zip(parameter.shape, whole.shape)):
        if own != all_of_it:
            return whole.chunk(all_of_it // own, axis)[rank]
    return whole


def train_rank(folder, rank, name, fields, ranks):
    """Losses and gradient norms, which the first rank writes."""
    args = args_of(fields)
    tp = args.tensor_model_parallel_size
    copies = ranks // tp
    store = torch.distributed.FileStore(os.path.join(folder, f"store of {name}"), ranks)
    core.start_without_gpu(tp, 1, rank, store, dp=copies,
                           expert_model_parallel_size=getattr(args, "expert_model_parallel_size", 1),
                           expert_tensor_parallel_size=getattr(args, "expert_tensor_parallel_size", None))
    model = core.make_model(args)
    weights = torch.load(os.path.join(folder, "weights.pt"), weights_only=False)
    for key, parameter in model.named_parameters():
        parameter.data.copy_(own_part(weights, key, parameter))
    one_rank.MICRO_BATCHES = MICRO_BATCHES // copies
    training = one_rank.CoreTraining(args, model)
    own = slice(parallel_state.get_data_parallel_rank(), None, copies)
    found = []
    for batch, mask in zip(*(torch.from_numpy(numpy.load(os.path.join(folder, name)))
                             for name in ("windows.npy", "masks.npy"))):
        step = training.step(batch[own], mask[own])
        sums = torch.tensor([step["loss_sum"], step["tokens"]], dtype=torch.float64)
        torch.distributed.all_reduce(sums, group=parallel_state.get_data_parallel_group())
        found.append({"loss": (sums[0] / sums[1]).item(), "grad_norm": step["norm_of_ranks"],
                      "balancing": [value for kind, value in step["auxiliary"].items() if kind != "z_loss"]})
    if rank == 0:
        with open(os.path.join(folder, "core.json"), "w") as file:
            json.dump(found, file)


class SharedExperts(unittest.TestCase):
    def expect_like_one_rank(self, shapes, fields=None, of_one=None, samples=1):
        """fields: args of all; of_one: others of libmeg's rank, whose micro-batches have `samples` times as many."""
        one_rank.STEPS, one_rank.MICRO_BATCHES = STEPS, MICRO_BATCHES
        with tempfile.TemporaryDirectory(prefix="meg-test-") as folder:
            run_ranks(folder, 1, save_whole, (fields or {}) | (of_one or {}))
            expected = self.trained_by_libmeg(folder, samples)
            for name, (ranks, shape) in shapes.items():
                with self.subTest(name):
                    run_ranks(folder, ranks, train_rank, name, shape | (fields or {}), ranks)
                    with open(os.path.join(folder, "core.json")) as file:
                        self.expect_near(name, json.load(file), expected)

    def trained_by_libmeg(self, folder, samples):
        windows = one_rank.windows().numpy()
        whole = windows.reshape(STEPS, MICRO_BATCHES // samples, -1, windows.shape[-1])
        for kind, of_it in (("", windows), ("whole_", whole)):
            numpy.save(os.path.join(folder, kind + "windows.npy"), of_it)
            numpy.save(os.path.join(folder, kind + "masks.npy"), numpy.ones_like(of_it)[..., 1:])
        told = subprocess.run([PROGRAM, *(os.path.join(folder, name) for name in
                                          ("load", "whole_windows.npy", "whole_masks.npy", "save"))],
                              check=True, stdout=subprocess.PIPE, text=True).stdout
        steps = [json.loads(line) for line in told.splitlines()]
        self.assertEqual(len(steps), STEPS)
        return [{"loss": step["loss"], "grad_norm": step["grad_norm"],
                 "balancing": [value for kind, value in step["auxiliary"].items() if kind != "z_loss"]}
                for step in steps]

    def expect_near(self, name, found, expected):
        for what, bound in (("loss", 2e-6), ("grad_norm", 5e-6), ("balancing", 2e-6)):
            pairs = numpy.array([[steps[what] for steps in pair] for pair in zip(found, expected, strict=True)])
            difference = numpy.abs(pairs[:, 0] / pairs[:, 1] - 1)
            self.assertEqual(difference.size, STEPS, what)
            print(f"{name}: {what} {difference.max():.1e}")
            self.assertLess(difference.max(), bound, what)

    def test_ranks_of_core_are_like_one_of_libmeg(self):
        # core 0.16.1 divides auxiliary losses by the tensor-parallel size if the loss is that of tokens.
        self.expect_like_one_rank(SHAPES, {"calculate_per_token_loss": one_rank.IS_NEWER})

    def test_global_losses_are_those_of_all_parts_of_sequences(self):
        self.expect_like_one_rank({"TP2": (2, TP2), "EP2 over TP2": SHAPES["EP2 over TP2"]}, GLOBAL)

    def test_global_losses_of_copies_are_those_of_their_micro_batches_together(self):
        # Each copy's part is of all tokens, and its gradient is divided by the number of copies as well.
        shapes = {name: SHAPES[name] for name in ("EP2", "EP2 x TP2")}
        self.expect_like_one_rank(shapes, GLOBAL, {"moe_aux_loss_coeff": 0.5}, samples=2)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(warnings="ignore")
