#!/usr/bin/env python3
"""Models with the less common options compute what the real megatron-core (PyPI) computes.

megatron_core_computes_models.py PROGRAM [unittest arguments]
PROGRAM (compute_checkpoint) builds each model from the args and weights of a checkpoint that
megatron-core's model was saved to. Prints the differences measured.
"""
import argparse
import logging
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop"))

try:
    import numpy
    import torch

    from megatron_core import models as core
except ImportError as error:
    print(f"skipped: {error} (scripts/setup.sh installs it)")
    sys.exit(77)

PROGRAM = ""
GPT = {"num_layers": 3, "hidden_size": 32, "ffn_hidden_size": 128, "num_attention_heads": 4,
       "kv_channels": 8, "padded_vocab_size": 96, "make_vocab_size_divisible_by": 8,
       "seq_length": 24, "max_position_embeddings": 24, "position_embedding_type":
       "learned_absolute", "swiglu": False, "add_bias_linear": True, "bias_gelu_fusion": True,
       "untie_embeddings_and_output_weights": False, "tensor_model_parallel_size": 1,
       "pipeline_model_parallel_size": 1, "world_size": 1, "transformer_impl": "local"}
# Heads whose slowest pairs turn once in more than 8,192 tokens, so that every branch is taken.
LLAMA = GPT | {"hidden_size": 64, "kv_channels": 32, "num_attention_heads": 2,
               "position_embedding_type": "rope", "normalization": "RMSNorm", "swiglu": True,
               "add_bias_linear": False, "bias_gelu_fusion": False, "rotary_base": 500000,
               "untie_embeddings_and_output_weights": True, "seq_length": 200}
# Few enough experts that each has tokens.
MOE = LLAMA | {"num_experts": 4, "moe_ffn_hidden_size": 48, "moe_router_topk": 2, "seq_length": 64}


class MegatronCore(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def model(self, args):
        """megatron-core's, weights far enough from their first values for the options to show."""
        torch.manual_seed(1)
        model = core.make_model(args)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                one_dimension = parameter.dim() == 1
                parameter.add_(torch.randn_like(parameter) * (0.3 if one_dimension else 0.1))
            for name, buffer in model.named_buffers():
                if name.endswith("expert_bias"):
                    buffer.copy_(torch.randn_like(buffer) * 0.3)
        return model

    def computed(self, *cases):
        """What one run of PROGRAM makes of each model, by name. cases: args, model, windows."""
        places = []
        for args, model, windows in cases:
            places.append(tempfile.mkdtemp(dir=self.folder))
            core.save(os.path.join(places[-1], "load"), model, args)
            os.mkdir(os.path.join(places[-1], "out"))
            numpy.save(os.path.join(places[-1], "windows.npy"), windows.numpy())
        subprocess.run([PROGRAM, *(os.path.join(place, name) for place in places
                                   for name in ("load", "windows.npy", "out"))], check=True)
        return [{name: torch.from_numpy(numpy.fromfile(os.path.join(place, "out", name), "float32"))
                 for name in os.listdir(os.path.join(place, "out"))} for place in places]

    def windows(self, args):
        return torch.randint(0, args.padded_vocab_size, (2, args.seq_length + 1),
                             generator=torch.Generator().manual_seed(2))

    def differences(self, args, model, windows, found):
        """The largest of logits and losses, and of gradients beside their parameter's norm."""
        tokens, labels = windows[:, :-1].contiguous(), windows[:, 1:].contiguous()
        positions = torch.arange(args.seq_length).expand_as(tokens)
        logits = model(tokens, positions, None)
        loss = model(tokens, positions, None, labels=labels)
        loss.float().mean().backward()
        gradients = []
        for name, parameter in model.named_parameters():
            wanted = parameter.grad.float().flatten()
            difference = found["gradient." + name.removeprefix("module.")] - wanted
            gradients.append((difference.norm() / wanted.norm()).item())
        return {"logits": (found["logits"] - logits.detach().float().flatten()).abs().max().item(),
                "loss": (found["loss"] - loss.detach().float().flatten()).abs().max().item(),
                "gradients": max(gradients)}

    def compare(self, fields_of, **bounds):
        """fields_of: the args of each model, by name."""
        cases = []
        for fields in fields_of.values():
            args = argparse.Namespace(**fields)
            cases.append((args, self.model(args), self.windows(args)))
        for name, case, computed in zip(fields_of, cases, self.computed(*cases), strict=True):
            with self.subTest(name):
                found = self.differences(*case, computed)
                print(f"{name}: " + ", ".join(f"{what} {value:.1e}" for what, value in found.items()))
                for what, value in found.items():
                    self.assertLess(value, bounds[what], what)

    def test_computes_every_option(self):
        fp32 = {"logits": 1e-5, "loss": 1e-5, "gradients": 5e-6}
        self.compare({
            "gpt": GPT,
            "squared_relu": GPT | {"squared_relu": True, "bias_gelu_fusion": False},
            "quick_geglu": GPT | {"quick_geglu": True, "bias_gelu_fusion": False},
            "apply_layernorm_1p": GPT | {"apply_layernorm_1p": True},
            "llama": LLAMA,
            "use_rope_scaling": LLAMA | {"use_rope_scaling": True},
            "rope_scaling_factor": LLAMA | {"use_rope_scaling": True, "rope_scaling_factor": 32.0},
            "rotary_seq_len_interpolation_factor": LLAMA | {"rotary_seq_len_interpolation_factor": 4},
        }, **fp32)

    def test_computes_combinations(self):
        """Each flag by itself is common; what one means beside another is what goes wrong."""
        fp32 = {"logits": 1e-5, "loss": 1e-5, "gradients": 1e-5}
        wide = {"kv_channels": 24, "num_attention_heads": 4, "group_query_attention": True,
                "num_query_groups": 2}
        self.compare({
                "rotary_percent": LLAMA | {"rotary_percent": 0.5},
                "rotary_percent of an odd number": LLAMA | {"kv_channels": 20, "rotary_percent": 0.35},
                "rotary_interleaved": LLAMA | {"rotary_interleaved": True},
                "rotary_interleaved, rotary_percent, use_rope_scaling": LLAMA | {
                    "rotary_interleaved": True, "rotary_percent": 0.5, "use_rope_scaling": True},
                "use_rope_scaling, rotary_seq_len_interpolation_factor": LLAMA | {
                    "use_rope_scaling": True, "rotary_seq_len_interpolation_factor": 2},
                "kv_channels, num_query_groups": LLAMA | wide,
                "add_qkv_bias, num_query_groups": LLAMA | wide | {"add_qkv_bias": True},
                "qk_layernorm, num_query_groups": LLAMA | wide | {"qk_layernorm": True},
                # Without positions that turn them, keys' biases have no gradient.
                "qk_layernorm of LayerNorm": GPT | {"qk_layernorm": True,
                                                    "position_embedding_type": "rope"},
                "swiglu with biases": GPT | {"swiglu": True, "bias_gelu_fusion": False},
                "erf GELU": GPT | {"bias_gelu_fusion": False},
                "erf GELU, RMSNorm, no biases": GPT | {
                    "bias_gelu_fusion": False, "add_bias_linear": False, "normalization": "RMSNorm"},
                "no positions": GPT | {"position_embedding_type": "none"},
                "learned positions, untied, RMSNorm": GPT | {
                    "untie_embeddings_and_output_weights": True, "normalization": "RMSNorm"},
                "layernorm_epsilon": GPT | {"layernorm_epsilon": 0.1},
                "apply_query_key_layer_scaling": GPT | {"apply_query_key_layer_scaling": True},
                "quick_geglu, num_query_groups": LLAMA | wide | {"swiglu": False, "quick_geglu": True},
                "off-by-one": GPT | {"softmax_type": "off-by-one"},
                "off-by-one, num_query_groups": LLAMA | wide | {"softmax_type": "off-by-one"},
                "learnable": GPT | {"softmax_type": "learnable"},
                "learnable, num_query_groups": LLAMA | wide | {"softmax_type": "learnable"},
                "learnable, apply_query_key_layer_scaling": GPT | {
                    "softmax_type": "learnable", "apply_query_key_layer_scaling": True},
                "squared_relu, no biases": LLAMA | {"swiglu": False, "squared_relu": True},
        }, **fp32)

    def test_computes_mixtures_of_experts(self):
        """With the gradients of their auxiliary losses, which the losses themselves do not show."""
        fp32 = {"logits": 1e-5, "loss": 1e-5, "gradients": 1e-5}
        losses = {"moe_router_load_balancing_type": "aux_loss", "moe_aux_loss_coeff": 0.3}
        groups = {"num_experts": 8, "moe_router_num_groups": 4, "moe_router_group_topk": 2}
        sigmoid = {"moe_router_score_function": "sigmoid"}
        self.compare({name: MOE | fields for name, fields in {
                "experts": {},
                "moe_router_pre_softmax": {"moe_router_pre_softmax": True},
                "moe_router_topk 1": {"moe_router_topk": 1, "moe_router_pre_softmax": True},
                "moe_router_topk of all experts": {"moe_router_topk": 4},
                "moe_router_topk_scaling_factor": {
                    "moe_router_topk_scaling_factor": 2.5, "moe_router_pre_softmax": True},
                "sigmoid": sigmoid,
                "sigmoid, groups": sigmoid | groups | {"moe_router_topk_scaling_factor": 1.5},
                "pre-softmax, groups": groups | {"moe_router_pre_softmax": True},
                "fp64 router": {"moe_router_dtype": "fp64"},
                "aux_loss": losses,
                "aux_loss, sigmoid": losses | sigmoid,
                "seq_aux_loss": losses | {"moe_router_load_balancing_type": "seq_aux_loss"},
                "moe_z_loss_coeff": {"moe_z_loss_coeff": 0.01},
                "two losses": losses | {"moe_z_loss_coeff": 0.01, "moe_router_load_balancing_type":
                                        ["aux_loss", "seq_aux_loss"], "moe_aux_loss_coeff": [0.2, 0.1]},
                "shared expert": {"moe_shared_expert_intermediate_size": 40},
                "moe_shared_expert_gate": {"moe_shared_expert_intermediate_size": 40, "moe_shared_expert_gate": True},
                "global_aux_loss": losses | {"moe_router_load_balancing_type": "global_aux_loss"},
                "biases": {"add_bias_linear": True},
                "expert bias": sigmoid | {"moe_router_enable_expert_bias": True},
                "expert bias, groups": sigmoid | groups | {"moe_router_enable_expert_bias": True},
                "moe_expert_capacity_factor": {"moe_expert_capacity_factor": 0.9},
                "moe_token_drop_policy": losses | {
                    "moe_expert_capacity_factor": 0.7, "moe_token_drop_policy": "position"},
                "moe_pad_expert_input_to_capacity": {
                    "moe_expert_capacity_factor": 0.5, "moe_pad_expert_input_to_capacity": True},
                "moe_layer_freq": {"moe_layer_freq": 2},
                "moe_layer_freq of a list": {"moe_layer_freq": [0, 1, 1], "moe_shared_expert_intermediate_size": 40},
                "GELU": {"swiglu": False, "normalization": "LayerNorm"},
                "squared_relu": {"swiglu": False, "squared_relu": True},
        }.items()}, **fp32)

    def test_full_experts_drop_tokens(self):
        args = argparse.Namespace(**MOE)
        model, windows = self.model(args), self.windows(args)
        found = [computed["logits"] for computed in self.computed(*(
            (argparse.Namespace(**(MOE | fields)), model, windows) for fields in (
                {}, {"moe_expert_capacity_factor": -1.0}, {"moe_expert_capacity_factor": 4.0},
                {"moe_expert_capacity_factor": 0.7},
                {"moe_expert_capacity_factor": 0.7, "moe_token_drop_policy": "position"})))]
        for none in found[1:3]:
            self.assertTrue(torch.equal(found[0], none))
        for one, other in (0, 3), (0, 4), (3, 4):
            self.assertGreater((found[one] - found[other]).abs().max().item(), 1e-3)

    def test_auxiliary_losses_have_gradients(self):
        args = argparse.Namespace(**(MOE | {"moe_aux_loss_coeff": 0.3}))
        model, windows = self.model(args), self.windows(args)
        router = "gradient.decoder.layers.0.mlp.router.weight"
        found = [computed[router] for computed in self.computed(*(
            (argparse.Namespace(**(vars(args) | {"moe_router_load_balancing_type": of})), model, windows)
            for of in ("aux_loss", "seq_aux_loss", "none")))]
        for one, other in (0, 1), (0, 2), (1, 2):
            self.assertGreater((found[one] - found[other]).norm().item(), 0.01 * found[2].norm().item())

    def test_keeps_fp32_residuals(self):
        """Rounding of the products stays; that of a deep model's sums is gone."""
        deep = GPT | {"bf16": True, "num_layers": 16}
        kept = argparse.Namespace(**(deep | {"fp32_residual_connection": True}))
        self.compare({"bf16": deep, "fp32_residual_connection": vars(kept)},
                     **{"logits": 0.05, "loss": 0.05, "gradients": 0.05})
        model, windows = self.model(kept), self.windows(kept)
        tokens = windows[:, :-1].contiguous()
        wanted = model(tokens, torch.arange(kept.seq_length).expand_as(tokens), None).flatten()
        with_them, without = (computed["logits"] for computed in self.computed(
            (kept, model, windows), (argparse.Namespace(**deep), model, windows)))
        ratio = (without - wanted).norm() / (with_them - wanted).norm()
        print(f"fp32_residual_connection: without it {ratio:.1f} times as far from core")
        self.assertGreater(ratio.item(), 1.3)

    def test_options_change_the_function(self):
        """Else the comparisons above would say nothing."""
        for name, value, fields in (("squared_relu", True, GPT | {"bias_gelu_fusion": False}),
                                    ("apply_layernorm_1p", True, GPT), ("use_rope_scaling", True, LLAMA),
                                    ("softmax_type", "off-by-one", GPT),
                                    ("fp32_residual_connection", True, GPT | {"bf16": True})):
            args = argparse.Namespace(**fields)
            model, windows = self.model(args), self.windows(args)
            with_option = argparse.Namespace(**(fields | {name: value}))
            plain, changed = (computed["logits"] for computed in self.computed(
                (args, model, windows), (with_option, model, windows)))
            self.assertGreater((plain - changed).abs().max().item(), 1e-3, name)

    def test_begins_with_xaviers_deviations(self):
        args = argparse.Namespace(**(LLAMA | {"init_method_xavier_uniform": True}))
        torch.manual_seed(1)
        model = core.make_model(args)
        found, = self.computed((args, model, self.windows(args)))
        for name, parameter in model.named_parameters():
            initial = found["initial." + name]
            if parameter.dim() == 1:
                self.assertTrue(torch.equal(initial, parameter.detach()), name)
                continue
            self.assertLess(abs(initial.std() / parameter.std() - 1).item(), 0.05, name)
            self.assertLess(abs(initial.abs().max() / parameter.abs().max() - 1).item(), 0.02, name)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    core.start_without_gpu()
    unittest.main()
