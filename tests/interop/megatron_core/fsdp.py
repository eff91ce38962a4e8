"""Checkpoints that the real Megatron-FSDP (in megatron-core, PyPI) saves in several processes on the CPU,
as Megatron-LM's trainer does with --ckpt-format fsdp_dtensor.
"""
import contextlib
import os
import random

import numpy
import torch
import torch.distributed.checkpoint
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallelConfig
from megatron.core.distributed.fsdp import mcore_fsdp_adapter as adapter
from megatron.core.distributed.fsdp.src.megatron_fsdp.uneven_dtensor import \
    preprocess_state_dict_for_uneven_dtensor
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.transformer import fsdp_dtensor_checkpoint
from torch.distributed import DeviceMesh

from megatron_core import models as core
from megatron_core.ranks import model_args, run_ranks, values

ITERATION = 1
SCHEDULER = {"max_lr": 1e-3, "min_lr": 0.0, "lr_warmup_steps": 0, "lr_decay_style": "constant", "lr_decay_steps": 8,
             "start_wd": 0.01, "end_wd": 0.01, "wd_incr_style": "constant", "wd_incr_steps": 8,
             "num_steps": ITERATION}


class Cpu(str):
    """The device "cpu", whose number among the CUDA devices is 0."""

    def __format__(self, _):
        return "0"


class Stream:
    """Of CUDA's work, of which there is none."""

    def wait_stream(self, _):
        pass


def lead_fsdp_to_the_cpu():
    torch.cuda.current_device = lambda: Cpu("cpu")
    torch.cuda.Stream = torch.cuda.current_stream = lambda *_, **__: Stream()
    torch.cuda.stream = lambda _: contextlib.nullcontext()
    torch.cuda.synchronize = lambda *_: None
    from_group = DeviceMesh.from_group
    DeviceMesh.from_group = lambda groups, device_type, **options: from_group(groups, "cpu", **options)
    # einops arranges the ranks of a mesh, nothing else of it is needed.
    adapter._get_dp_tp_mesh = lambda data, tensor, ep_size=1: torch.arange(
        torch.distributed.get_world_size()).view(data.size(), tensor.size())
    if not isinstance(getattr(adapter, "TELinear", None), type):  # None without Transformer Engine
        adapter.TELinear = type("TELinear", (), {})
    # torch has the states of CUDA's generators on machines with a GPU alone.
    adapter._get_rng_state_dict = dict
    adapter._load_rng_state_dict = lambda _: None


def start(folder, rank, args):
    tp, dp = args.tensor_model_parallel_size, args.data_parallel_size
    store = torch.distributed.FileStore(os.path.join(folder, "store"), args.world_size)
    core.start_without_gpu(tp, 1, rank, store, dp=dp)
    core.call_types_cuda()
    lead_fsdp_to_the_cpu()


def make(args):
    """This rank's part of a model of known weights, and its optimizer before the first step."""
    tensor_rank = parallel_state.get_tensor_model_parallel_rank()
    model = core.make_model(args)
    for name, parameter in model.named_parameters():
        is_cut = getattr(parameter, "tensor_model_parallel", False)
        parameter.data.copy_(values(name, tensor_rank if is_cut else 0, parameter.shape, 0.1))
    wrapped = adapter.FullyShardedDataParallel(
        model.config,
        DistributedDataParallelConfig(
            use_megatron_fsdp=True, use_distributed_optimizer=True, grad_reduce_in_fp32=True,
            data_parallel_sharding_strategy="optim_grads_params"),
        model, device=torch.device("cpu"))
    optimizer = get_megatron_optimizer(OptimizerConfig(
        optimizer="adam", lr=1e-3, min_lr=1e-4, weight_decay=0.1, bf16=args.bf16, fp16=False,
        params_dtype=torch.bfloat16 if args.bf16 else torch.float32, clip_grad=0.0,
        use_distributed_optimizer=True), [wrapped])
    return wrapped, optimizer


def take_steps(optimizer, count):
    """Gradients follow from the weights, so that they are the same however these are cut."""
    for _ in range(count):
        for group in optimizer.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = parameter.detach() * 0.5 + 0.25
        optimizer.optimizer.step()


def state_of(args, model, optimizer):
    """What the trainer saves. model: without megatron-core's own wrapper, as the trainer has it then."""
    rank = parallel_state.get_tensor_model_parallel_rank()
    random.seed(1)
    numpy.random.seed(1)
    torch.manual_seed(1)
    state = {
        "args": args, "checkpoint_version": 3.0, "iteration": ITERATION,
        "model": model.state_dict_for_save_checkpoint(),
        "optimizer": optimizer.sharded_state_dict(
            {}, metadata={"distrib_optim_sharding_type": "fsdp_dtensor"}),
        "opt_param_scheduler": SCHEDULER,
        "rng_state": {f"(0, {rank})": [{
            "random_rng_state": random.getstate(), "np_rng_state": numpy.random.get_state(),
            "torch_rng_state": torch.get_rng_state(), "cuda_rng_state": torch.arange(rank, rank + 16).byte(),
            "rng_tracker_states": {"model-parallel-rng": torch.arange(16, 32).byte()}}]},
        "num_floating_point_operations_so_far": 7}
    fsdp_dtensor_checkpoint.handle_fp8_extra_state_case(state["model"])
    if args.swiglu:
        state["model"], state["optimizer"] = fsdp_dtensor_checkpoint.handle_swiglu_in_state_dict(
            model, state["model"], state["optimizer"])
    preprocess_state_dict_for_uneven_dtensor(state)
    return state


def save_rank(folder, rank, args):
    start(folder, rank, args)
    model, optimizer = make(args)
    take_steps(optimizer, 2)
    path = os.path.join(folder, f"iter_{ITERATION:07d}")
    torch.distributed.checkpoint.save(
        state_of(args, model.module, optimizer),
        storage_writer=torch.distributed.checkpoint.FileSystemWriter(path))


def main(folder, tp, dp, fields):
    """A checkpoint in a new folder, by tp * dp processes. fields: of model_args()."""
    args = model_args(tp, 1, **({"bf16": True, "num_layers": 2} | fields), world_size=tp * dp, data_parallel_size=dp)
    run_ranks(folder, args.world_size, save_rank, args)
