"""Checkpoints that the real megatron-core (PyPI) makes in several processes on the CPU.

Each rank builds its part of a GPT model, gives it weights of its own and saves it as Megatron-LM's
trainer does with --ckpt-format torch.
"""
import argparse
import gc
import multiprocessing
import os
import zlib

import torch
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

from megatron_core import models as core
from megatron_core.processes import join_ranks

LAYERS, HIDDEN, HEADS, FFN, VOCABULARY, POSITIONS = 4, 32, 4, 80, 96, 24


def model_args(tp=1, pp=1, **changes):
    """What Megatron's args say of a small model; a field that is None is left out."""
    fields = dict(
        num_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS, ffn_hidden_size=FFN,
        kv_channels=HIDDEN // HEADS, group_query_attention=False, num_query_groups=1,
        max_position_embeddings=POSITIONS, seq_length=POSITIONS, padded_vocab_size=VOCABULARY,
        make_vocab_size_divisible_by=8, position_embedding_type="learned_absolute",
        normalization="LayerNorm", swiglu=False, quick_geglu=False, add_bias_linear=True,
        qk_layernorm=False, untie_embeddings_and_output_weights=False,
        transformer_impl="local", use_legacy_models=False, tensor_model_parallel_size=tp,
        pipeline_model_parallel_size=pp, world_size=tp * pp, data_parallel_size=1, iteration=1)
    fields.update(changes)
    return argparse.Namespace(**{name: value for name, value in fields.items()
                                 if value is not None})


def tokens():
    return torch.randint(0, VOCABULARY, (2, 16), generator=torch.Generator().manual_seed(1))


def logits_of(model):
    positions = torch.arange(tokens().shape[1]).expand_as(tokens())
    with torch.no_grad():
        return model(tokens(), positions, None)


def values(name, rank, shape, scale):
    generator = torch.Generator().manual_seed(zlib.crc32(f"{name} {rank}".encode()))
    return scale * torch.randn(shape, generator=generator)


def is_shared(name):
    return "word_embeddings.weight" in name or "output_layer.weight" in name


def fill(model, stage, tensor_rank):
    """Values that differ from stage to stage and, of what is cut, from rank to rank."""
    for name, parameter in model.named_parameters():
        # core forgets to mark it, though its sharded_state_dict says so.
        is_cut = getattr(parameter, "tensor_model_parallel", False) or name.endswith("softmax_offset")
        key = "word embeddings" if is_shared(name) else f"{stage} {name}"
        made = values(key, tensor_rank if is_cut else 0, parameter.shape, 0.1)
        parameter.data.copy_(made + (1.0 if "layernorm.weight" in name else 0.0))


def optimizer_of(model, options):
    """megatron-core's own, after two steps."""
    model = DistributedDataParallel(model.config, DistributedDataParallelConfig(), model)
    config = OptimizerConfig(optimizer="adam", lr=1e-3, min_lr=1e-4, weight_decay=0.1, fp16=False,
                             bf16=False, params_dtype=torch.float32, clip_grad=0.0, **options)
    optimizer = get_megatron_optimizer(config, [model])
    for step in range(2):
        for name, parameter in model.module.named_parameters():
            key = "word embeddings" if is_shared(name) else name
            parameter.main_grad.copy_(values(f"{key} {step}", 0, parameter.shape, 1.0))
        optimizer.step()
    return optimizer


def save_rank(folder, rank, args, optimizer_options):
    tp, pp = args.tensor_model_parallel_size, args.pipeline_model_parallel_size
    store = torch.distributed.FileStore(os.path.join(folder, "store"), tp * pp)
    core.start_without_gpu(tp, pp, rank, store)
    tensor_rank = parallel_state.get_tensor_model_parallel_rank()
    stage = parallel_state.get_pipeline_model_parallel_rank()
    model = core.make_model(args, stage == 0, stage == pp - 1, parallel_output=False)
    fill(model, stage, tensor_rank)
    state = {"args": args, "checkpoint_version": 3.0, "iteration": 1,
             "model": model.state_dict_for_save_checkpoint()}
    if pp == 1:
        answer = logits_of(model)
        if rank == 0:
            torch.save(answer, os.path.join(folder, "logits.pt"))
    if optimizer_options is not None:
        # The state_dict has the weights after the steps as well.
        optimizer = optimizer_of(model, optimizer_options)
        state["model"] = model.state_dict_for_save_checkpoint()
        state["optimizer"] = optimizer.state_dict()
        state["opt_param_scheduler"] = {"max_lr": 1e-3, "num_steps": 2}
    name = f"mp_rank_{tensor_rank:02d}" + (f"_{stage:03d}" if pp > 1 else "")
    path = os.path.join(folder, "iter_0000001", name)
    os.makedirs(path)
    torch.save(state, os.path.join(path, "model_optim_rng.pt"))


def write_tracker(root):
    with open(os.path.join(root, "latest_checkpointed_iteration.txt"), "w") as file:
        file.write("1")


def run_ranks(folder, world_size, save_one, *arguments):
    """A folder of iteration 1, of which each rank saves its part: save_one(folder, rank, *arguments)."""
    os.makedirs(folder, exist_ok=True)
    gc.freeze()  # else the first collection in each rank copies all of the memory that it shares with this process
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=save_one, args=(folder, rank, *arguments))
             for rank in range(world_size)]
    for process in ranks:
        process.start()
    join_ranks(ranks)
    write_tracker(folder)
    return folder


def save(folder, args, optimizer_options=None):
    """Makes a checkpoint in a new folder; of one stage also logits.pt, of the weights as filled."""
    return run_ranks(folder, args.world_size, save_rank, args, optimizer_options)


