"""Training states of the real megatron-core (PyPI) with virtual pipeline stages, as torch_dist folders.

main(FIELDS, FOLDER, [FORM ...]): saves what args of these FIELDS say in each FORM of the distributed optimizer,
in a folder of its name.
"""
import os

import torch
from megatron.core import dist_checkpointing, parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

from megatron_core import models as core
from megatron_core import ranks


def chunks_of(args):
    """This rank's chunks, each with values of its own, wrapped as the trainer wraps them."""
    stage, last = parallel_state.get_pipeline_model_parallel_rank(), args.pipeline_model_parallel_size - 1
    virtual = args.virtual_pipeline_model_parallel_size
    chunks = []
    for chunk in range(virtual):
        model = core.make_model(args, (stage, chunk) == (0, 0), (stage, chunk) == (last, virtual - 1),
                                vp_stage=chunk, is_fp16=args.fp16)
        for name, parameter in model.named_parameters():
            key = "word embeddings" if ranks.is_shared(name) else f"{stage} {chunk} {name}"
            parameter.data.copy_(ranks.values(key, 0, parameter.shape, 0.1))
        chunks.append(DistributedDataParallel(model.config, DistributedDataParallelConfig(
            grad_reduce_in_fp32=True, use_distributed_optimizer=True,
            overlap_grad_reduce=True, bucket_size=getattr(args, "ddp_bucket_size", None)), model))
    return chunks


def optimizer_of(chunks, args):
    optimizer = get_megatron_optimizer(OptimizerConfig(
        optimizer="adam", lr=1e-3, min_lr=1e-4, weight_decay=0.1, bf16=args.bf16, fp16=args.fp16,
        params_dtype=torch.float16 if args.fp16 else torch.bfloat16, clip_grad=0.0,
        use_distributed_optimizer=True), chunks)
    for step in range(2):
        for number, chunk in enumerate(chunks):
            for name, parameter in chunk.module.named_parameters():
                key = "word embeddings" if ranks.is_shared(name) else f"{number} {name}"
                parameter.main_grad.copy_(ranks.values(f"{key} {step}", 0, parameter.shape, 1.0))
        optimizer.step()
    return optimizer


def save_rank(folder, rank, args, forms):
    store = torch.distributed.FileStore(os.path.join(folder, "store"), args.world_size)
    core.start_without_gpu(1, args.pipeline_model_parallel_size, rank, store, args.data_parallel_size,
                           virtual_pipeline_model_parallel_size=args.virtual_pipeline_model_parallel_size)
    core.call_types_cuda()
    torch.cuda.synchronize = lambda *device: None
    torch.cuda.Stream = lambda *arguments, **options: None
    chunks = chunks_of(args)
    optimizer = optimizer_of(chunks, args)
    group = parallel_state.get_data_parallel_group(with_context_parallel=True)
    for form in forms:
        metadata = {"singleton_local_shards": False, "chained_optim_avoid_prefix": True,
                    "distrib_optim_sharding_type": form}
        state = {f"model{number}": chunk.module.sharded_state_dict(metadata=metadata | {"dp_cp_group": group})
                 for number, chunk in enumerate(chunks)}
        state |= {"iteration": 1, "checkpoint_version": 3.0, "args": args,
                  "optimizer": optimizer.sharded_state_dict(state, metadata=metadata | {"dp_cp_group": group})}
        path = os.path.join(folder, form, "iter_0000001")
        os.makedirs(path, exist_ok=True)
        torch.distributed.barrier()
        dist_checkpointing.save(state, path, content_metadata=metadata)
        with open(os.path.join(folder, form, "latest_checkpointed_iteration.txt"), "w") as tracker:
            tracker.write("1")


def main(fields, folder, forms):
    args = ranks.model_args(**{
        "bf16": not fields.get("fp16"), "fp16": False, "use_distributed_optimizer": True,
        "overlap_grad_reduce": True, "accumulate_allreduce_grads_in_fp32": True,
        "context_parallel_size": 1, **fields})
    ranks.run_ranks(folder, args.world_size, save_rank, args, forms)
