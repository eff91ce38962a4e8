#!/usr/bin/env python3
"""Ranks of the real megatron-core (PyPI) that share experts train as one rank of libmeg does.

megatron_core_shares_experts.py PROGRAM [unittest arguments]
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
                           expert_model_parallel_size=args.expert_model_parallel_size,
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
        found.append({"loss": (sums[0] / sums[1]).item(), "grad_norm": step["norm_of_ranks"]})
    if rank == 0:
        with open(os.path.join(folder, "core.json"), "w") as file:
            json.dump(found, file)


class SharedExperts(unittest.TestCase):
    def test_ranks_of_core_are_like_one_of_libmeg(self):
        one_rank.STEPS, one_rank.MICRO_BATCHES = STEPS, MICRO_BATCHES
        with tempfile.TemporaryDirectory(prefix="meg-test-") as folder:
            run_ranks(folder, 1, save_whole, {})
            numpy.save(os.path.join(folder, "windows.npy"), one_rank.windows().numpy())
            numpy.save(os.path.join(folder, "masks.npy"), torch.ones_like(one_rank.windows())[..., 1:].numpy())
            told = subprocess.run([PROGRAM, *(os.path.join(folder, name) for name in
                                              ("load", "windows.npy", "masks.npy", "save"))],
                                  check=True, stdout=subprocess.PIPE, text=True).stdout
            expected = [json.loads(line) for line in told.splitlines()]
            self.assertEqual(len(expected), STEPS)
            for name, (ranks, fields) in SHAPES.items():
                with self.subTest(name):
                    run_ranks(folder, ranks, train_rank, name, fields, ranks)
                    with open(os.path.join(folder, "core.json")) as file:
                        found = json.load(file)
                    for what, bound in (("loss", 2e-6), ("grad_norm", 5e-6)):
                        difference = max(abs(one[what] / other[what] - 1)
                                         for one, other in zip(found, expected, strict=True))
                        print(f"{name}: {what} {difference:.1e}")
                        self.assertLess(difference, bound, what)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main(warnings="ignore")
