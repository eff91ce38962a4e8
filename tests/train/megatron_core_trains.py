#!/usr/bin/env python3
"""Options of training change what they change in the real megatron-core (PyPI).

megatron_core_trains.py PROGRAM [--newer] [unittest arguments]
--newer: beside megatron-core 0.19.2, which scripts/setup.sh unpacks, instead of the installed 0.16.1.
megatron-core's own schedule, gradient finalising, optimizer and scheduler train a model; PROGRAM
(train_checkpoint) trains the same weights on the same windows. Prints the differences measured.
"""
import argparse
import functools
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import unittest
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop"))
from checkpoint_case import NEWER  # noqa: E402

IS_NEWER = "--newer" in sys.argv
if IS_NEWER:
    sys.argv.remove("--newer")
    sys.path.insert(0, NEWER)
    if not os.path.isdir(NEWER):
        print(f"skipped: {NEWER} is not there: scripts/setup.sh unpacks it")
        sys.exit(77)

try:
    import numpy
    import torch
    from megatron.core.distributed import (DistributedDataParallel,
                                           DistributedDataParallelConfig, finalize_model_grads)
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
    from megatron.core.pipeline_parallel.schedules import forward_backward_no_pipelining
    from megatron.core.transformer.moe import moe_utils

    from megatron_core import models as core
    from reference import files as reference_files
except ImportError as error:
    print(f"skipped: {error} (scripts/setup.sh installs it)")
    sys.exit(77)

PROGRAM = ""
STEPS, MICRO_BATCHES, BATCH, LENGTH, VOCABULARY = 6, 3, 2, 16, 64
RUN = {"num_layers": 2, "hidden_size": 32, "ffn_hidden_size": 64, "num_attention_heads": 4,
       "kv_channels": 8, "padded_vocab_size": VOCABULARY, "make_vocab_size_divisible_by": 8,
       "seq_length": LENGTH, "max_position_embeddings": LENGTH, "swiglu": False,
       "position_embedding_type": "learned_absolute", "add_bias_linear": True,
       "bias_gelu_fusion": True, "untie_embeddings_and_output_weights": True,
       "tensor_model_parallel_size": 1, "pipeline_model_parallel_size": 1, "world_size": 1,
       "transformer_impl": "local", "lr": 0.004, "min_lr": 0.0004, "weight_decay": 0.1,
       "train_iters": STEPS, "lr_warmup_iters": 2, "decoupled_lr": None, "decoupled_min_lr": None}


def windows():
    return torch.randint(0, VOCABULARY, (STEPS, MICRO_BATCHES, BATCH, LENGTH + 1),
                         generator=torch.Generator().manual_seed(3))


def masks():
    """Micro-batches of very different numbers of tokens; one has none."""
    kept = torch.randint(1, LENGTH + 1, (STEPS, MICRO_BATCHES, BATCH, 1),
                         generator=torch.Generator().manual_seed(4))
    kept[1, 2] = 0
    return (torch.arange(LENGTH) < kept).long()


def forward_step(batches, model):
    window, mask = next(batches)
    positions = torch.arange(LENGTH).expand(BATCH, LENGTH)
    output = model(window[:, :-1].contiguous(), positions, None,
                   labels=window[:, 1:].contiguous())
    return output, functools.partial(core.loss_func, mask)


def random_mixture(number):
    """Args of a model with experts, which any number makes, of what people combine."""
    draw = random.Random(number)
    layers, experts = draw.choice((2, 3)), draw.choice((4, 6, 8))
    topk = draw.choice((1, 2, 2, 2, 3))
    is_sigmoid = draw.random() < 0.4
    losses = draw.choice((["aux_loss"], ["seq_aux_loss"], ["global_aux_loss"], ["none"], ["aux_loss", "seq_aux_loss"]))
    fields = {"num_layers": layers, "num_experts": experts, "moe_router_topk": topk,
              "moe_ffn_hidden_size": draw.choice((16, 24, 40)),
              "moe_router_score_function": "sigmoid" if is_sigmoid else "softmax",
              "moe_router_pre_softmax": not is_sigmoid and (topk == 1 or draw.random() < 0.3),
              "moe_router_load_balancing_type": losses if len(losses) > 1 else losses[0],
              "moe_aux_loss_coeff": [0.1, 0.02] if len(losses) > 1 else draw.choice((0.0, 0.01, 0.3)),
              "moe_z_loss_coeff": draw.choice((None, 0.001, 0.05)),
              "moe_layer_freq": draw.choice((1, 1, 2, [0] + [1] * (layers - 1))),
              "moe_router_dtype": draw.choice((None, None, "fp32", "fp64")),
              "add_bias_linear": draw.random() < 0.2, "normalization": draw.choice(("LayerNorm", "RMSNorm")),
              "calculate_per_token_loss": draw.random() < 0.3 and "seq_aux_loss" not in losses}
    if is_sigmoid and draw.random() < 0.7:
        fields |= {"moe_router_enable_expert_bias": True, "moe_router_bias_update_rate": draw.choice((0.001, 0.05))}
    if experts == 8 and topk == 2 and (is_sigmoid or fields["moe_router_pre_softmax"]) and draw.random() < 0.6:
        fields |= {"moe_router_num_groups": 4, "moe_router_group_topk": 2}
    if is_sigmoid or fields["moe_router_pre_softmax"]:
        fields["moe_router_topk_scaling_factor"] = draw.choice((None, 2.5))
    if draw.random() < 0.3:
        fields |= {"moe_expert_capacity_factor": draw.choice((0.6, 1.0, 1.25)),
                   "moe_token_drop_policy": draw.choice(("probs", "position")),
                   "moe_pad_expert_input_to_capacity": draw.random() < 0.3}
    if draw.random() < 0.4 and not fields["add_bias_linear"]:
        fields |= {"moe_shared_expert_intermediate_size": 20, "moe_shared_expert_gate": draw.random() < 0.5}
    activation = draw.choice(("swiglu", "swiglu", "squared_relu", "gelu"))
    return fields | {"bias_gelu_fusion": False, "swiglu": activation == "swiglu",
                     "squared_relu": activation == "squared_relu"}


def norm_of(tensors):
    return sum(tensor.double().pow(2).sum().item() for tensor in tensors) ** 0.5


def auxiliary_losses():
    """megatron-core's own dict."""
    return moe_utils.get_moe_metrics_tracker().metrics if IS_NEWER else moe_utils.get_moe_layer_wise_logging_tracker()


class CoreTraining:
    """What pretrain() would build of these args."""

    def __init__(self, args, module):
        config = module.config
        self.moe_layers = sum(hasattr(layer.mlp, "router") for layer in module.decoder.layers)
        auxiliary_losses().clear()  # one of all models of a process
        self.model = DistributedDataParallel(config, DistributedDataParallelConfig(), module)
        self.optimizer = get_megatron_optimizer(OptimizerConfig(
            optimizer="adam", lr=args.lr, min_lr=args.min_lr, decoupled_lr=args.decoupled_lr,
            decoupled_min_lr=args.decoupled_min_lr, weight_decay=args.weight_decay, clip_grad=0.0,
            params_dtype=torch.float32), [self.model])
        config.finalize_model_grads_func = finalize_model_grads
        config.grad_scale_func = self.optimizer.scale_loss
        samples = MICRO_BATCHES * BATCH
        self.scheduler = OptimizerParamScheduler(
            self.optimizer, 0.0, args.lr, args.min_lr, args.lr_warmup_iters * samples,
            args.train_iters * samples, "linear", args.weight_decay, args.weight_decay,
            args.train_iters * samples, "constant")

    def lr(self, decoupled):
        return next(group["lr"] for group in self.optimizer.param_groups
                    if group["default_config"] != decoupled)

    def step(self, batch, mask):
        self.model.zero_grad_buffer()
        self.optimizer.zero_grad()
        sums = forward_backward_no_pipelining(
            forward_step_func=forward_step, data_iterator=iter(zip(batch, mask)),
            model=self.model, num_microbatches=MICRO_BATCHES, seq_length=LENGTH,
            micro_batch_size=BATCH)
        total = torch.vstack(sums).sum(dim=0)
        has_decoupled = any(not group["default_config"] for group in self.optimizer.param_groups)
        found = {"loss_sum": total[0].item(), "tokens": total[1].item(),
                 "loss": (total[0] / total[1]).item(), "lr": self.lr(False),
                 "decoupled_lr": self.lr(has_decoupled),
                 "grad_norm": norm_of(p.main_grad for p in self.model.parameters())}
        moe_utils.reduce_aux_losses_tracker_across_ranks()
        tracker = moe_utils.get_moe_layer_wise_logging_tracker()
        found["auxiliary"] = {name: tracked["values"].sum().item() / self.moe_layers / MICRO_BATCHES
                              for name, tracked in tracker.items()}
        moe_utils.clear_aux_losses_tracker()
        _, found["norm_of_ranks"], _ = self.optimizer.step()
        self.scheduler.step(MICRO_BATCHES * BATCH)
        return found | {"params_norm": norm_of(p.detach() for p in self.model.parameters())}


class MegatronCore(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def trained(self, fields):
        """Steps, weights and state of megatron-core and of PROGRAM."""
        args = argparse.Namespace(**(RUN | fields))
        torch.manual_seed(5)
        module = core.make_model(args)
        place = tempfile.mkdtemp(dir=self.folder)
        core.save(os.path.join(place, "load"), module, args)
        numpy.save(os.path.join(place, "windows.npy"), windows().numpy())
        numpy.save(os.path.join(place, "masks.npy"), masks().numpy())
        told = subprocess.run([PROGRAM, *(os.path.join(place, name) for name in
                                          ("load", "windows.npy", "masks.npy", "save"))],
                              check=True, stdout=subprocess.PIPE, text=True).stdout
        core_training = CoreTraining(args, module)
        wanted = [core_training.step(batch, mask) for batch, mask in zip(windows(), masks())]
        saved = reference_files.load_ranks(os.path.join(place, "save"))[0, 0]
        return wanted, [json.loads(line) for line in told.splitlines()], core_training, saved

    def compare(self, name, fields, **closer):
        """Each step, and the weights after the last: key biases have no true gradient."""
        wanted, found, core_training, saved = self.trained(fields)
        self.assertEqual(len(found), STEPS)
        differences = {"loss": 0.0, "grad_norm": 0.0, "params_norm": 0.0, "lr": 0.0,
                       "decoupled_lr": 0.0, "auxiliary": 0.0}
        for step, expected in zip(found, wanted):
            self.assertEqual(set(step["auxiliary"]), set(expected["auxiliary"]))
            for kind, value in expected["auxiliary"].items():
                differences["auxiliary"] = max(differences["auxiliary"], abs(step["auxiliary"][kind] / value - 1))
            for what in differences.keys() - {"auxiliary"}:
                scale = abs(expected[what]) or 1.0
                differences[what] = max(differences[what],
                                        abs(step[what] - expected[what]) / scale)
        weights = dict(core_training.model.module.named_parameters())
        for key, bias in core_training.model.module.named_buffers():
            if key.endswith("expert_bias"):
                self.assertTrue(torch.equal(saved["model"][key], bias), (key, saved["model"][key], bias))
        differences["weights"] = max(
            (saved["model"][key] - weights[key].detach()).abs().max().item()
            for key in weights if "linear_qkv.bias" not in key)
        print(f"{name}: " + ", ".join(f"{what} {value:.1e}" for what, value in differences.items()))
        bounds = {"loss": 2e-6, "grad_norm": 5e-6, "params_norm": 1e-6, "lr": 1e-12,
                  "decoupled_lr": 1e-12, "auxiliary": 2e-6, "weights": 2e-5}
        for what, value in differences.items():
            self.assertLess(value, (bounds | closer)[what], what)
        return wanted, core_training, saved

    def test_means_over_micro_batches(self):
        self.compare("mean of micro-batches", {})

    def test_calculates_the_per_token_loss(self):
        with_it, _, _ = self.compare("calculate_per_token_loss", {"calculate_per_token_loss": True})
        without = self.compare("without", {})[0]
        self.assertGreater(abs(with_it[0]["grad_norm"] / without[0]["grad_norm"] - 1), 1e-2)

    def test_decouples_the_learning_rate(self):
        for untied in (True, False):
            fields = {"decoupled_lr": 0.02, "untie_embeddings_and_output_weights": untied}
            self.compare("decoupled_lr", fields)
            fields["decoupled_min_lr"] = 0.01
            wanted, core_training, saved = self.compare("decoupled_min_lr", fields)
            self.assertNotEqual(wanted[3]["lr"], wanted[3]["decoupled_lr"])
            self.expect_groups(core_training, saved, untied)

    def test_trains_attention_with_a_softmax_offset(self):
        plain = self.compare("vanilla", {})[0]
        for name in ("off-by-one", "learnable"):
            wanted, core_training, saved = self.compare(name, {"softmax_type": name})
            self.assertGreater(abs(wanted[0]["loss"] / plain[0]["loss"] - 1), 1e-5)
        # As biases have none, it has no weight decay.
        groups = saved["optimizer"]["param_groups"]
        self.assertEqual([(group["wd_mult"], len(group["params"])) for group in groups],
                         [(group["wd_mult"], len(group["params"])) for group in core_training.optimizer.param_groups])

    def test_trains_mixtures_of_experts(self):
        experts = {"num_experts": 4, "moe_ffn_hidden_size": 24, "add_bias_linear": False, "bias_gelu_fusion": False}
        losses = {"moe_router_load_balancing_type": "aux_loss", "moe_aux_loss_coeff": 1.0, "moe_z_loss_coeff": 0.1}
        plain = self.compare("experts", experts)[0]
        with_losses = self.compare("auxiliary losses", experts | losses)[0]
        self.compare("auxiliary losses of tokens", experts | losses | {"calculate_per_token_loss": True})
        # core 0.16.1 divides them by the sequences of a micro-batch if the loss is that of tokens.
        self.compare("losses of sequences", experts | losses | {"moe_router_load_balancing_type": "seq_aux_loss",
                                                                "calculate_per_token_loss": IS_NEWER})
        self.assertGreater(abs(with_losses[0]["grad_norm"] / plain[0]["grad_norm"] - 1), 1e-3)

    def test_trains_random_mixtures(self):
        """MEG_RANDOM_MIXTURES: how many."""
        for number in range(int(os.environ.get("MEG_RANDOM_MIXTURES", "4"))):
            fields = random_mixture(number)
            with self.subTest(number=number, fields=fields):
                self.compare(f"mixture {number}", fields, loss=5e-7, grad_norm=5e-7)

    def test_moves_expert_biases(self):
        experts = {"num_experts": 4, "moe_ffn_hidden_size": 24, "add_bias_linear": False, "bias_gelu_fusion": False,
                   "moe_router_score_function": "sigmoid", "moe_router_enable_expert_bias": True}
        core_training = self.compare("expert bias", experts)[1]
        biases = [bias for name, bias in core_training.model.module.named_buffers() if name.endswith("expert_bias")]
        self.assertEqual(len(biases), 2)
        for bias in biases:
            self.assertGreater(bias.abs().max().item(), 0.0009)

    def expect_groups(self, core_training, saved, untied):
        """As core 0.12 saves them: by first appearance; the same members and rates as core's."""
        groups = saved["optimizer"]["param_groups"]
        self.assertEqual([group["is_decoupled_lr"] for group in groups], [True, False, False])
        self.assertEqual([group["wd_mult"] for group in groups], [1.0, 1.0, 0.0])
        of_core = {(not group["default_config"], group["wd_mult"]): group
                   for group in core_training.optimizer.param_groups}
        for group in groups:
            expected = of_core[group["is_decoupled_lr"], group["wd_mult"]]
            self.assertEqual(len(group["params"]), len(expected["params"]))
            for key in ("max_lr", "min_lr"):
                self.assertEqual(group[key], expected[key], key)
        self.assertEqual(len(groups[0]["params"]), 2 if untied else 1)
        self.assertAlmostEqual(groups[0]["lr"], core_training.lr(True), places=12)
        # Moments follow the groups' order: the first belongs to the embedding.
        state = saved["optimizer"]["state"]
        self.assertEqual(state[0]["exp_avg"].shape, (VOCABULARY, RUN["hidden_size"]))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    core.start_without_gpu()
    unittest.main()
