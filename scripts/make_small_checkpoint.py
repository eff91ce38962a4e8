#!/usr/bin/env python3
"""Makes the small checkpoint of testdata/checkpoint: random weights with the full training state.

usage: make_small_checkpoint.py [FOLDER]

GPT of 4 layers as Megatron-LM 6ef5bdc saves it: TP2 PP2, fp16 with fp32 masters and Adam's moments,
loss scaler, scheduler and random states. Every value follows from SEED and the tensor's name, so
the same files come out of every run with the packages of requirements*.txt.
"""
import argparse
import enum
import random
import shutil
import sys
import types
import zlib
from pathlib import Path

import numpy
import torch

FOLDER = Path(__file__).parents[1] / "testdata/checkpoint"
SEED = 1234
ITERATION = 100
TENSOR, PIPELINE = 2, 2
LAYERS, HIDDEN, HEADS, POSITIONS = 4, 8, 4, 16
VOCABULARY, DIVISIBLE_BY = 75, 8
PADDED = -(-VOCABULARY // (DIVISIBLE_BY * TENSOR)) * DIVISIBLE_BY * TENSOR
BATCH = 8


class ModelType(enum.Enum):
    encoder_or_decoder = 1
    encoder_and_decoder = 2


def name_like_megatron():
    """Lets ModelType be pickled under Megatron's name; readers without Megatron cannot import it."""
    for name in ("megatron", "megatron.core", "megatron.core.enums"):
        sys.modules[name] = types.ModuleType(name)
    ModelType.__module__ = "megatron.core.enums"
    sys.modules["megatron.core.enums"].ModelType = ModelType


def parameters(stage):
    """name, merged shape and the cut dimension of a stage's parameters, in Megatron's order."""
    rows = []
    if stage == 0:
        rows += [("embedding.word_embeddings.weight", (PADDED, HIDDEN), 0),
                 ("embedding.position_embeddings.weight", (POSITIONS, HIDDEN), None)]
    for layer in range(LAYERS // PIPELINE):
        at = f"encoder.layers.{layer}."
        for name, shape, cut in (
            ("input_layernorm.weight", (HIDDEN,), None),
            ("input_layernorm.bias", (HIDDEN,), None),
            ("self_attention.query_key_value.weight", (3 * HIDDEN, HIDDEN), 0),
            ("self_attention.query_key_value.bias", (3 * HIDDEN,), 0),
            ("self_attention.dense.weight", (HIDDEN, HIDDEN), 1),
            ("self_attention.dense.bias", (HIDDEN,), None),
            ("post_attention_layernorm.weight", (HIDDEN,), None),
            ("post_attention_layernorm.bias", (HIDDEN,), None),
            ("mlp.dense_h_to_4h.weight", (4 * HIDDEN, HIDDEN), 0),
            ("mlp.dense_h_to_4h.bias", (4 * HIDDEN,), 0),
            ("mlp.dense_4h_to_h.weight", (HIDDEN, 4 * HIDDEN), 1),
            ("mlp.dense_4h_to_h.bias", (HIDDEN,), None),
        ):
            rows.append((at + name, shape, cut))
    if stage == PIPELINE - 1:
        rows += [("encoder.final_layernorm.weight", (HIDDEN,), None),
                 ("encoder.final_layernorm.bias", (HIDDEN,), None),
                 ("word_embeddings_for_head.weight", (PADDED, HIDDEN), 0)]
    return rows


def whole(name, stage, kind, shape):
    """The merged tensor of a kind (fp32_param, exp_avg, exp_avg_sq)."""
    if name == "word_embeddings_for_head.weight":
        name, stage = "embedding.word_embeddings.weight", 0
    generator = torch.Generator().manual_seed(zlib.crc32(f"{SEED}/{stage}/{name}/{kind}".encode()))
    values = torch.empty(shape).normal_(generator=generator)
    if kind == "exp_avg":
        return values * 1e-3
    if kind == "exp_avg_sq":
        return values.square() * 1e-6
    return values * 0.02 + (1.0 if name.endswith("layernorm.weight") else 0.0)


def shard(values, cut, rank):
    return (values if cut is None else values.chunk(TENSOR, cut)[rank]).contiguous().clone()


def nested(tensors):
    """Megatron's nesting: dicts down to `encoder`, whose keys stay flat."""
    encoder = {name.removeprefix("encoder."): values for name, values in tensors.items()
               if name.startswith("encoder.")}
    model = {"language_model": {"encoder": encoder}}
    if "embedding.word_embeddings.weight" in tensors:
        embedding = {part: {"weight": tensors[f"embedding.{part}.weight"]}
                     for part in ("word_embeddings", "position_embeddings")}
        model = {"language_model": {"embedding": embedding, "encoder": encoder}}
    if "word_embeddings_for_head.weight" in tensors:
        model["word_embeddings_for_head"] = {"weight": tensors["word_embeddings_for_head.weight"]}
    return model


def optimizer(masters, moments):
    decayed = [name for name in masters if masters[name].dim() > 1]
    others = [name for name in masters if masters[name].dim() == 1]
    ids = {name: number for number, name in enumerate(decayed + others)}
    groups = [{"wd_mult": mult, "lr_mult": 1.0, "lr": 1.5e-4, "bias_correction": True,
               "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01 * mult, "step": ITERATION,
               "params": [ids[name] for name in names]}
              for mult, names in ((1.0, decayed), (0.0, others))]
    return {
        "optimizer": {"state": {ids[name]: moments[name] for name in ids}, "param_groups": groups},
        "grad_scaler": {"scale": torch.tensor([65536.0]), "growth_tracker": 3,
                        "hysteresis_tracker": 2},
        "fp32_from_fp16_params": [[masters[name] for name in names] for names in (decayed, others)],
    }


def arguments(rank):
    return argparse.Namespace(
        adam_beta1=0.9, adam_beta2=0.999, adam_eps=1e-8, add_bias_linear=True, bf16=False,
        clip_grad=1.0, consumed_train_samples=ITERATION * BATCH, consumed_valid_samples=0,
        data_parallel_size=1, data_path=["english_text_document"], encoder_num_layers=LAYERS,
        ffn_hidden_size=4 * HIDDEN, fp16=True, global_batch_size=BATCH, hidden_size=HIDDEN,
        init_method_std=0.02, iteration=ITERATION, kv_channels=HIDDEN // HEADS,
        layernorm_epsilon=1e-5, load=None, local_rank=rank, lr=1.5e-4, lr_decay_iters=320000,
        lr_decay_style="cosine", lr_warmup_iters=0, make_vocab_size_divisible_by=DIVISIBLE_BY,
        max_position_embeddings=POSITIONS, merge_file="merges.txt", micro_batch_size=4,
        min_lr=1e-5, model_type=ModelType.encoder_or_decoder, no_load_optim=None, no_load_rng=None,
        num_attention_heads=HEADS, num_experts=None, num_layers=LAYERS,
        num_layers_per_virtual_pipeline_stage=None, optimizer="adam", padded_vocab_size=PADDED,
        params_dtype=torch.float16, perform_initialization=True,
        pipeline_model_parallel_size=PIPELINE, position_embedding_type="learned_absolute",
        rank=rank, save="checkpoints", save_interval=ITERATION, seed=SEED,
        seq_length=POSITIONS, sequence_parallel=False, split="969, 30, 1", swiglu=False,
        tensor_model_parallel_size=TENSOR, tokenizer_type="GPT2BPETokenizer", train_iters=500000,
        transformer_impl="local", transformer_pipeline_model_parallel_size=PIPELINE,
        untie_embeddings_and_output_weights=False, use_checkpoint_args=False,
        use_cpu_initialization=None, use_distributed_optimizer=False,
        virtual_pipeline_model_parallel_size=None, vocab_file="vocab.json", weight_decay=0.01,
        world_size=TENSOR * PIPELINE)


def random_state(rank, stage):
    seed = SEED + 100 * stage
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)

    def cuda(value):
        return torch.tensor(list(value.to_bytes(8, "little")) + [0] * 8, dtype=torch.uint8)

    return [{"random_rng_state": random.getstate(), "np_rng_state": numpy.random.get_state(),
             "torch_rng_state": torch.get_rng_state(), "cuda_rng_state": cuda(seed),
             "rng_tracker_states": {"model-parallel-rng": cuda(seed + 2718 + rank)}}]


def rank_state(rank, stage):
    masters, moments = {}, {}
    for name, shape, cut in parameters(stage):
        masters[name] = shard(whole(name, stage, "fp32_param", shape), cut, rank)
        moments[name] = {kind: shard(whole(name, stage, kind, shape), cut, rank)
                         for kind in ("exp_avg", "exp_avg_sq")}
    samples = ITERATION * BATCH
    return {
        "args": arguments(stage * TENSOR + rank), "checkpoint_version": 3.0,
        "iteration": ITERATION, "model": nested({name: values.half()
                                                 for name, values in masters.items()}),
        "optimizer": optimizer(masters, moments),
        "opt_param_scheduler": {
            "max_lr": 1.5e-4, "lr_warmup_steps": 0, "num_steps": samples,
            "lr_decay_style": "cosine", "lr_decay_steps": 320000 * BATCH, "min_lr": 1e-5,
            "start_wd": 0.01, "end_wd": 0.01, "wd_incr_style": "constant",
            "wd_incr_steps": 500000 * BATCH},
        "rng_state": random_state(rank, stage)}


def main():
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    name_like_megatron()
    folder = root / f"iter_{ITERATION:07d}"
    shutil.rmtree(folder, ignore_errors=True)
    for stage in range(PIPELINE):
        for rank in range(TENSOR):
            path = folder / f"mp_rank_{rank:02d}_{stage:03d}/model_optim_rng.pt"
            path.parent.mkdir(parents=True)
            torch.save(rank_state(rank, stage), path)
    (root / "latest_checkpointed_iteration.txt").write_text(str(ITERATION))


if __name__ == "__main__":
    main()
