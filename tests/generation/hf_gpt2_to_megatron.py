#!/usr/bin/env python3
"""Writes the weights of a Hugging Face GPT-2 as a Megatron-LM checkpoint of one rank.

usage: hf_gpt2_to_megatron.py HF_DIR OUT_DIR [--make-vocab-size-divisible-by 128]

HF_DIR holds config.json and model.safetensors (or pytorch_model.bin). OUT_DIR becomes a checkpoint
as Megatron-LM 6ef5bdc saves it (format torch, checkpoint version 3.0, no optimizer, `release`),
with the args that --use-checkpoint-args reads. Values keep their type. Rows that pad the vocabulary
repeat the last one, as Megatron's checkpoint_util pads.
"""
import argparse
import json
from pathlib import Path

import torch

DTYPES = {torch.float32: (False, False), torch.float16: (True, False),
          torch.bfloat16: (False, True)}
PREFIX = "transformer."


def read_weights(folder):
    """The tensors by GPT-2's names, without the prefix that newer files have."""
    safe = folder / "model.safetensors"
    if safe.exists():
        from safetensors.torch import load_file
        tensors = load_file(safe)
    else:
        tensors = torch.load(folder / "pytorch_model.bin", weights_only=True)
    return {name.removeprefix(PREFIX): values for name, values in tensors.items()}


def by_heads(values, heads):
    """Rows [3, n, d] of query, key and value -> [n, 3, d], the order of checkpoint version 3.0."""
    rest = values.shape[1:]
    return values.view(3, heads, -1, *rest).transpose(0, 1).reshape(values.shape)


def pad_rows(table, rows):
    return torch.cat([table, table[-1:].expand(rows - table.shape[0], -1)])


def encoder(weights, config):
    """Layers and final norm by Megatron's names. Conv1D keeps its matrices [input, output]."""
    layers = {}
    for layer in range(config["n_layer"]):
        for theirs, ours in (("ln_1", "input_layernorm"), ("ln_2", "post_attention_layernorm"),
                             ("attn.c_attn", "self_attention.query_key_value"),
                             ("attn.c_proj", "self_attention.dense"),
                             ("mlp.c_fc", "mlp.dense_h_to_4h"),
                             ("mlp.c_proj", "mlp.dense_4h_to_h")):
            for kind in ("weight", "bias"):
                values = weights[f"h.{layer}.{theirs}.{kind}"]
                values = values.t() if values.dim() == 2 else values
                if theirs == "attn.c_attn":
                    values = by_heads(values, config["n_head"])
                layers[f"layers.{layer}.{ours}.{kind}"] = values.contiguous().clone()
    for kind in ("weight", "bias"):
        layers[f"final_layernorm.{kind}"] = weights[f"ln_f.{kind}"].clone()
    return layers


def arguments(config, dtype, padded, divisible_by):
    hidden, heads, positions = config["n_embd"], config["n_head"], config["n_positions"]
    fp16, bf16 = DTYPES[dtype]
    return argparse.Namespace(
        num_layers=config["n_layer"], encoder_num_layers=config["n_layer"], hidden_size=hidden,
        ffn_hidden_size=config.get("n_inner") or 4 * hidden, num_attention_heads=heads,
        kv_channels=hidden // heads, max_position_embeddings=positions, seq_length=positions,
        position_embedding_type="learned_absolute", use_rotary_position_embeddings=False,
        add_position_embedding=True, make_vocab_size_divisible_by=divisible_by,
        padded_vocab_size=padded, layernorm_epsilon=config["layer_norm_epsilon"], swiglu=False,
        bias_gelu_fusion=config["activation_function"] in ("gelu_new", "gelu_pytorch_tanh"),
        add_bias_linear=True, untie_embeddings_and_output_weights=False,
        apply_query_key_layer_scaling=False, attention_dropout=0.1, hidden_dropout=0.1,
        init_method_std=config["initializer_range"], fp16=fp16, bf16=bf16, params_dtype=dtype,
        tokenizer_type="GPT2BPETokenizer", tensor_model_parallel_size=1,
        pipeline_model_parallel_size=1, world_size=1, num_experts=None, iteration=0,
        consumed_train_samples=0, consumed_valid_samples=0)


def state(folder, divisible_by):
    config = json.loads((folder / "config.json").read_text())
    weights = read_weights(folder)
    words = weights["wte.weight"]
    padded = -(-words.shape[0] // divisible_by) * divisible_by
    embedding = {"word_embeddings": {"weight": pad_rows(words, padded)},
                 "position_embeddings": {"weight": weights["wpe.weight"].clone()}}
    return {"args": arguments(config, words.dtype, padded, divisible_by),
            "checkpoint_version": 3.0, "iteration": 0,
            "model": {"language_model": {"embedding": embedding,
                                         "encoder": encoder(weights, config)}}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hf_dir", type=Path)
    parser.add_argument("out_dir", type=Path)
    parser.add_argument("--make-vocab-size-divisible-by", type=int, default=128)
    parser.add_argument("--broken-token", metavar="ID=VALUE",
                        help="fill this token's row of the embedding, such as with nan")
    given = parser.parse_args()
    file = given.out_dir / "release/mp_rank_00/model_optim_rng.pt"
    file.parent.mkdir(parents=True, exist_ok=True)
    made = state(given.hf_dir, given.make_vocab_size_divisible_by)
    if given.broken_token:
        token, value = given.broken_token.split("=")
        words = made["model"]["language_model"]["embedding"]["word_embeddings"]["weight"]
        words[int(token)] = float(value)
    torch.save(made, file)
    (given.out_dir / "latest_checkpointed_iteration.txt").write_text("release")


if __name__ == "__main__":
    main()
