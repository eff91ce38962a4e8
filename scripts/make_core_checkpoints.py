#!/usr/bin/env python3
"""Makes the checkpoints of testdata/megatron_core with the real megatron-core (PyPI, 0.16.1).

usage: make_core_checkpoints.py [FOLDER]

Every case is a model that core builds and trains for two steps on the CPU (gloo, a process for each rank,
weights and gradients from fixed seeds), saved twice as rank files: `ranks` in the layout of the run, and
`whole` on one rank, after core itself resharded the run by its dist_checkpointing.
"""
import os
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests/interop"))

import megatron.core.optimizer
import torch
from make_optimizer_shards import Adam
from megatron.core import dist_checkpointing, parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.optimizer import OptimizerConfig, distrib_optimizer, get_megatron_optimizer
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler

from megatron_core import models, ranks

FOLDER = pathlib.Path(__file__).parents[1] / "testdata/megatron_core"
STEPS, BATCH = 2, 4
LLAMA = {"swiglu": True, "add_bias_linear": False, "position_embedding_type": "rope",
         "group_query_attention": True, "num_query_groups": 2}
CASES = {
    "tp2pp2": {"num_layers": 2, "tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2},
    "pp2_vpp2": {"num_layers": 4, "pipeline_model_parallel_size": 2, "fp16": True, "bf16": False,
                 "virtual_pipeline_model_parallel_size": 2, "num_layers_per_virtual_pipeline_stage": 1,
                 **LLAMA},
    "distopt_tp2_dp2": {"num_layers": 2, "tensor_model_parallel_size": 2, "data_parallel_size": 2,
                        "use_distributed_optimizer": True,
                        "untie_embeddings_and_output_weights": True},
}
ONE_RANK = {"tensor_model_parallel_size": 1, "pipeline_model_parallel_size": 1, "data_parallel_size": 1,
            "virtual_pipeline_model_parallel_size": None, "num_layers_per_virtual_pipeline_stage": None}


def args_of(fields):
    args = ranks.model_args(
        hidden_size=8, ffn_hidden_size=16, kv_channels=2, padded_vocab_size=32, max_position_embeddings=8,
        seq_length=8, iteration=STEPS, consumed_train_samples=STEPS * BATCH, consumed_valid_samples=0,
        micro_batch_size=1, global_batch_size=BATCH, optimizer="adam", lr=1e-3, min_lr=1e-4, train_iters=10,
        context_parallel_size=1, expert_model_parallel_size=1, ckpt_format="torch", num_experts=None,
        overlap_grad_reduce=False, accumulate_allreduce_grads_in_fp32=True, ckpt_fully_parallel_save=True,
        cross_entropy_loss_fusion=False)
    defaults = {"bf16": True, "fp16": False, "use_distributed_optimizer": False,
                "virtual_pipeline_model_parallel_size": None, "num_layers_per_virtual_pipeline_stage": None}
    for name, value in {**defaults, **fields}.items():
        setattr(args, name, value)
    args.params_dtype = torch.float16 if args.fp16 else torch.bfloat16
    args.world_size = (args.tensor_model_parallel_size * args.pipeline_model_parallel_size *
                       args.data_parallel_size)
    return args


class FusedAdam(Adam):
    """The one that training uses, Apex's or Transformer Engine's, keeps its step in the groups."""

    def __init__(self, params, adam_w_mode, **settings):
        assert adam_w_mode
        super().__init__(params, **settings)


def start(rank, store, args):
    models.start_without_gpu(
        args.tensor_model_parallel_size, args.pipeline_model_parallel_size, rank, store,
        args.data_parallel_size,
        virtual_pipeline_model_parallel_size=args.virtual_pipeline_model_parallel_size)
    models.call_types_cuda()
    torch.cuda.synchronize = lambda *device: None
    megatron.core.optimizer.USING_PYTORCH_OPTIMIZER = False
    megatron.core.optimizer.Adam = distrib_optimizer.Adam = FusedAdam
    distrib_optimizer.HAVE_APEX_OR_TE = True


def chunks_of(args):
    """The parts of the model that this rank has, one for each virtual stage."""
    stage, stages = parallel_state.get_pipeline_model_parallel_rank(), args.pipeline_model_parallel_size
    virtual = args.virtual_pipeline_model_parallel_size or 1
    config = DistributedDataParallelConfig(grad_reduce_in_fp32=True,
                                           use_distributed_optimizer=args.use_distributed_optimizer)
    chunks = []
    for chunk in range(virtual):
        model = models.make_model(args, (stage, chunk) == (0, 0), (stage, chunk) == (stages - 1, virtual - 1),
                                  vp_stage=chunk if virtual > 1 else None, is_fp16=args.fp16)
        chunks.append(DistributedDataParallel(model.config, config, model))
    return chunks


def made_up(chunk, name, parameter, what, scale):
    """The same on all ranks that have a copy of the parameter, and for both copies of a tied table."""
    stage = parallel_state.get_pipeline_model_parallel_rank()
    tied = ranks.is_shared(name) and getattr(parameter, "shared_embedding", False)
    key = "tied table" if tied else f"{stage} {chunk} {name}"
    is_cut = getattr(parameter, "tensor_model_parallel", False)
    rank = parallel_state.get_tensor_model_parallel_rank() if is_cut else 0
    return ranks.values(f"{what} {key}", rank, parameter.shape, scale)


def optimizer_of(chunks, args):
    return get_megatron_optimizer(OptimizerConfig(
        optimizer="adam", lr=args.lr, min_lr=args.min_lr, weight_decay=0.1, bf16=args.bf16, fp16=args.fp16,
        params_dtype=args.params_dtype, clip_grad=0.0, initial_loss_scale=2.0**16,
        use_distributed_optimizer=args.use_distributed_optimizer), chunks)


def train(args):
    """Chunks, optimizer and scheduler after the steps."""
    chunks = chunks_of(args)
    for number, chunk in enumerate(chunks):
        for name, parameter in chunk.module.named_parameters():
            mean = 1.0 if "layernorm.weight" in name else 0.0
            parameter.data.copy_(mean + made_up(number, name, parameter, "weight", 0.1))
    optimizer = optimizer_of(chunks, args)
    scheduler = scheduler_of(optimizer, args)
    scale = optimizer.get_loss_scale().item()
    for step in range(STEPS):
        for number, chunk in enumerate(chunks):
            for name, parameter in chunk.module.named_parameters():
                parameter.main_grad.copy_(scale * made_up(number, name, parameter, f"gradient {step}", 1.0))
        optimizer.step()
        scheduler.step(increment=BATCH)
    return chunks, optimizer, scheduler


def scheduler_of(optimizer, args):
    samples = args.train_iters * BATCH
    return OptimizerParamScheduler(
        optimizer, init_lr=0.0, max_lr=args.lr, min_lr=args.min_lr, lr_warmup_steps=0, lr_decay_steps=samples,
        lr_decay_style="cosine", start_wd=0.1, end_wd=0.1, wd_incr_steps=samples, wd_incr_style="constant")


def model_keys(chunks):
    return ["model"] if len(chunks) == 1 else [f"model{number}" for number in range(len(chunks))]


def save_rank_files(folder, args, chunks, optimizer, scheduler):
    """As Megatron-LM's trainer does with --ckpt-format torch: the keys of a file, and which rank writes it."""
    tensor, stage = (parallel_state.get_tensor_model_parallel_rank(),
                     parallel_state.get_pipeline_model_parallel_rank())
    name = f"mp_rank_{tensor:02d}" + (f"_{stage:03d}" if args.pipeline_model_parallel_size > 1 else "")
    path = folder / f"iter_{STEPS:07d}" / name
    path.mkdir(parents=True, exist_ok=True)
    if args.use_distributed_optimizer:
        optimizer.save_parameter_state(path / "distrib_optim.pt")
    if parallel_state.get_data_parallel_rank() > 0:
        return
    args.rank = torch.distributed.get_rank()
    state = {"args": args, "checkpoint_version": 3.0, "iteration": STEPS}
    for key, chunk in zip(model_keys(chunks), chunks):
        state[key] = chunk.module.state_dict_for_save_checkpoint()
    state |= {"optimizer": optimizer.state_dict(), "opt_param_scheduler": scheduler.state_dict()}
    torch.save(state, path / "model_optim_rng.pt")


def sharded_state(chunks, optimizer, is_loading):
    """What Megatron-LM's trainer hands to dist_checkpointing, and what it says of it."""
    metadata = {"distrib_optim_sharding_type": "fully_reshardable", "singleton_local_shards": False,
                "chained_optim_avoid_prefix": True}
    group = {"dp_cp_group": parallel_state.get_data_parallel_group(with_context_parallel=True)}
    state = {key: chunk.module.sharded_state_dict(metadata=metadata | group)
             for key, chunk in zip(model_keys(chunks), chunks)}
    state["optimizer"] = optimizer.sharded_state_dict(state if len(chunks) > 1 else state["model"],
                                                      is_loading=is_loading, metadata=metadata | group)
    return state, metadata


def run_rank(folder, rank, args, sharded):
    start(rank, torch.distributed.FileStore(os.path.join(sharded, "store"), args.world_size), args)
    chunks, optimizer, scheduler = train(args)
    save_rank_files(folder, args, chunks, optimizer, scheduler)
    state, metadata = sharded_state(chunks, optimizer, False)
    os.makedirs(os.path.join(sharded, "saved"), exist_ok=True)
    dist_checkpointing.save(state, os.path.join(sharded, "saved"), content_metadata=metadata)


def run_whole(folder, rank, args, sharded):
    start(rank, None, args)
    chunks = chunks_of(args)
    optimizer = optimizer_of(chunks, args)
    scheduler = scheduler_of(optimizer, args)
    scheduler.step(increment=STEPS * BATCH)
    loaded = dist_checkpointing.load(sharded_state(chunks, optimizer, True)[0], os.path.join(sharded, "saved"))
    chunks[0].module.load_state_dict(loaded["model"])
    optimizer.load_state_dict(loaded["optimizer"])
    save_rank_files(folder, args, chunks, optimizer, scheduler)


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for case, fields in CASES.items():
        shutil.rmtree(root / case, ignore_errors=True)
        with tempfile.TemporaryDirectory() as sharded:
            for name, run, changes in (("ranks", run_rank, {}), ("whole", run_whole, ONE_RANK)):
                args = args_of(fields | changes)
                ranks.run_ranks(root / case / name, args.world_size, run, args, sharded)
                (root / case / name / "latest_checkpointed_iteration.txt").write_text(str(STEPS))


if __name__ == "__main__":
    main()
