"""Writes checkpoints by torch, from the reference: layouts and shapes that the oracle lacks."""
import argparse
import collections
import os
import random

import torch

from reference import names as reference_names
from reference import reshape as reference

NESTED = ("language_model.encoder.", "language_model.output_layer.",
          "language_model.embedding.word_embeddings.",
          "language_model.embedding.position_embeddings.", "word_embeddings_for_head.")


def nested(chunk):
    """Legacy's dicts: nested down to the keys of the encoder, which stay flat."""
    result = {}
    for name, tensor in chunk.items():
        prefix = next(prefix for prefix in NESTED if name.startswith(prefix))
        place = result
        for key in prefix[:-1].split("."):
            place = place.setdefault(key, {})
        place[name.removeprefix(prefix)] = tensor
    return result


def with_extra_states(chunk):
    """mcore's local layers save None beside every linear module."""
    result = collections.OrderedDict()
    names = list(chunk)
    for number, name in enumerate(names):
        result[name] = chunk[name]
        module = name.rsplit(".", 1)[0]
        following = names[number + 1].rsplit(".", 1)[0] if number + 1 < len(names) else ""
        if ("linear_" in module or module == "output_layer") and following != module:
            result[f"{module}._extra_state"] = None
    return result


# Ways in which real files differ from the common one.
TWISTS = ("legacy file", "strided", "step tensors", "before the first step", "old optimizer words",
          "release", "uneven stages", "random states of data-parallel ranks")


def own(tensor, strided=False):
    """A tensor with a storage of its own; strided: one in which its elements do not run on."""
    if strided and tensor.dim() == 2:
        return tensor.t().contiguous().clone().t()
    return tensor.contiguous().clone()


def seeded(value):
    return torch.tensor(list(value.to_bytes(8, "little")) + [0] * 8, dtype=torch.uint8)


def optimizer_of(rank, groups, masters, scaler, twists):
    state, written, lists, place = {}, [], [], 0
    for group in rank.groups:
        count = len(group["names"])
        written.append({**groups[group["wd_mult"]], "params": list(range(place, place + count))})
        lists.append([])
        for key in group["names"]:
            pieces = {kind: own(tensor, "strided" in twists)
                      for kind, tensor in rank.optimizer[key].items()}
            if masters:
                lists[-1].append(pieces.pop("fp32_param"))
            if "step tensors" in twists:
                pieces = {"step": torch.tensor(3.0), **pieces}
            if "before the first step" not in twists:
                state[place] = pieces
            place += 1
    inner = {"state": state, "param_groups": written}
    if not masters:
        return inner
    more = {"grad_scaler": {"scale": torch.tensor([1024.0]), "growth_tracker": 3,
                            "hysteresis_tracker": 2}} if scaler else {}
    if "old optimizer words" in twists:
        return {"optimizer_state_dict": inner, **more, "fp32_from_fp16": lists}
    return {"optimizer": inner, **more, "fp32_from_fp16_params": lists}


def write(root, merged, args, tp, pp, vpp=1, twists=(), iteration=7):
    """Saves `merged` at a layout. args: a namespace without the parallel sizes."""
    family = merged.family
    expected, rows = reference.expect(merged, tp, pp, vpp)
    strided = "strided" in twists
    where = "release" if "release" in twists else f"iter_{iteration:07d}"
    kinds = merged.tensors[reference_names.WORD]
    for (t, p), rank in expected.items():
        fields = dict(vars(args), tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp,
                      world_size=tp * pp, padded_vocab_size=rows, rank=p * tp + t,
                      virtual_pipeline_model_parallel_size=vpp if vpp > 1 else None,
                      num_layers_per_virtual_pipeline_stage=merged.config.layers // (pp * vpp)
                      if vpp > 1 else None)
        state = {"args": argparse.Namespace(**fields), "checkpoint_version": 3.0,
                 "iteration": iteration}
        for number, chunk in enumerate(rank.chunks):
            chunk = collections.OrderedDict((name, own(tensor, strided))
                                            for name, tensor in chunk.items())
            state["model" if vpp == 1 else f"model{number}"] = \
                nested(chunk) if family == "legacy" else with_extra_states(chunk)
        if len(kinds) > 1:
            state["optimizer"] = optimizer_of(rank, merged.groups, "fp32_param" in kinds,
                                              kinds["weight"].dtype == torch.float16, twists)
            state["opt_param_scheduler"] = {"max_lr": 0.01, "num_steps": 80}
        state["rng_state"] = [
            {"cuda_rng_state": seeded(5 + data + 100 * p), "rng_tracker_states": {
                "model-parallel-rng": seeded(2723 + data + 100 * p + t)}}
            for data in range(0, 20 if "random states of data-parallel ranks" in twists else 10, 10)]
        folder = os.path.join(root, where, f"mp_rank_{t:02d}" + (f"_{p:03d}" if pp > 1 else ""))
        os.makedirs(folder)
        torch.save(state, os.path.join(folder, "model_optim_rng.pt"),
                   _use_new_zipfile_serialization="legacy file" not in twists)
    with open(os.path.join(root, "latest_checkpointed_iteration.txt"), "w") as file:
        file.write("release" if "release" in twists else str(iteration))


class RandomModel:
    """A model of any shape that Megatron can train, with values of no meaning, and its args."""

    def __init__(self, seed):
        rng = self.rng = random.Random(seed)
        self.torch_rng = torch.Generator().manual_seed(seed)
        self.family = rng.choice(["legacy", "legacy", "mcore", "mcore", "te"])
        self.dtype = rng.choice([torch.float32, torch.float16, torch.bfloat16])
        heads = rng.choice([2, 4, 6, 8])
        groups = rng.choice([g for g in range(1, heads + 1) if heads % g == 0])
        args = self.args = argparse.Namespace(
            num_layers=rng.choice([2, 4, 6, 8, 12]), hidden_size=rng.choice([8, 12, 24, 40]),
            num_attention_heads=heads, kv_channels=rng.choice([2, 3, 4, 8]),
            num_query_groups=groups, group_query_attention=groups != heads,
            ffn_hidden_size=rng.choice([8, 24, 32, 64]), swiglu=rng.random() < 0.5,
            add_bias_linear=rng.random() < 0.5, add_qkv_bias=rng.random() < 0.3,
            untie_embeddings_and_output_weights=rng.random() < 0.5, max_position_embeddings=8,
            seq_length=8, make_vocab_size_divisible_by=rng.choice([1, 4, 8]),
            normalization=rng.choice(["LayerNorm", "RMSNorm"]),
            position_embedding_type=rng.choice(["learned_absolute", "rope"]),
            transformer_impl="transformer_engine" if self.family == "te" or
            self.family == "legacy" and rng.random() < 0.2 else "local",
            params_dtype=self.dtype, data_parallel_size=1, sequence_parallel=rng.random() < 0.3,
            num_experts=None, use_distributed_optimizer=False)
        self.true_vocab = rng.randrange(10, 60)
        self.optimizer = rng.random() < 0.8

    def sizes(self):
        """Tensor-parallel sizes that cut everything evenly."""
        a = self.args
        return [tp for tp in (1, 2, 3, 4, 6, 8)
                if all(size % tp == 0 for size in (
                    a.num_query_groups, a.num_attention_heads, a.ffn_hidden_size, a.hidden_size,
                    a.num_attention_heads * a.kv_channels))]

    def layout(self, sizes=None):
        pairs = [(pp, vpp) for pp in (1, 2, 3, 4, 6) for vpp in (1, 2, 3)
                 if self.args.num_layers % (pp * vpp) == 0 and (vpp == 1 or pp > 1)]
        return (self.rng.choice(sizes or self.sizes()), *self.rng.choice(pairs))

    def shapes(self, rows):
        a = self.args
        query = a.num_attention_heads * a.kv_channels
        fc1 = a.ffn_hidden_size * (2 if a.swiglu else 1)
        shapes = {reference_names.WORD: (rows, a.hidden_size)}
        if a.position_embedding_type == "learned_absolute":
            shapes["embedding.position_embeddings.weight"] = (8, a.hidden_size)
        for layer in range(a.num_layers):
            at = reference_names.MCORE_LAYER.format(layer)
            for name, shape, biased in (
                ("input_layernorm", (a.hidden_size,), a.normalization == "LayerNorm"),
                ("self_attention.linear_proj", (a.hidden_size, query), a.add_bias_linear),
                ("self_attention.linear_qkv",
                 (query + 2 * a.num_query_groups * a.kv_channels, a.hidden_size),
                 a.add_bias_linear or a.add_qkv_bias),
                ("pre_mlp_layernorm", (a.hidden_size,), a.normalization == "LayerNorm"),
                ("mlp.linear_fc1", (fc1, a.hidden_size), a.add_bias_linear),
                ("mlp.linear_fc2", (a.hidden_size, a.ffn_hidden_size), a.add_bias_linear),
            ):
                shapes[f"{at}{name}.weight"] = shape
                if biased:
                    shapes[f"{at}{name}.bias"] = shape[:1]
        shapes["decoder.final_layernorm.weight"] = (a.hidden_size,)
        if a.normalization == "LayerNorm":
            shapes["decoder.final_layernorm.bias"] = (a.hidden_size,)
        if a.untie_embeddings_and_output_weights:
            shapes[reference_names.OUTPUT] = (rows, a.hidden_size)
        return shapes

    def merged(self, tp):
        """The whole model, its vocabulary padded for tp."""
        result = reference.Merged()
        result.family = self.family
        result.config = reference.Config(self.args, {(0, 0): None})
        rows = reference.padded_size(self.true_vocab, self.args.make_vocab_size_divisible_by, tp)
        for name, shape in self.shapes(rows).items():
            full = torch.empty(shape).normal_(generator=self.torch_rng)
            kinds = result.tensors[name] = {"weight": full.to(self.dtype)}
            if self.optimizer:
                kinds["exp_avg"] = torch.empty(shape).normal_(generator=self.torch_rng)
                kinds["exp_avg_sq"] = torch.empty(shape).uniform_(generator=self.torch_rng)
                if self.dtype != torch.float32:
                    kinds["fp32_param"] = full
        core = {} if self.family == "legacy" else {"is_expert_parallel": False,
                                                   "is_decoupled_lr": False}
        result.decay_first = self.family == "legacy"
        for mult in (1.0, 0.0):
            result.groups[mult] = {"wd_mult": mult, "lr_mult": 1.0, **core, "lr": 0.25,
                                   "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1 * mult,
                                   "step": 3}
        return result
