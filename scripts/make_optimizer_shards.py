#!/usr/bin/env python3
"""Makes the checkpoints of testdata/optimizer_shards with the real Megatron-LM of May 2023.

usage: make_optimizer_shards.py MEGATRON [FOLDER]

MEGATRON is a checkout of Megatron-LM at eb6f1677, the last revision of main whose distributed
optimizer saved a file for each data-parallel rank. Every case is trained for two steps on the CPU
(gloo, a process a rank, gradients from a fixed seed), and saved twice: `shards` by Megatron's own
save_checkpoint, `plain` with each parameter's state put together by Megatron's own map of ranges.
"""
import argparse
import importlib.util
import os
import pathlib
import shutil
import sys
import tempfile
import types
import zlib

import torch

FOLDER = pathlib.Path(__file__).parents[1] / "testdata/optimizer_shards"
STEPS = 2
# tensor-, pipeline- and data-parallel size, flags
CASES = {"fp16_dp3": (1, 1, 3, ["--fp16"]),
         "bf16_tp2pp2_dp2": (2, 2, 2, ["--bf16"]),
         "fp32_dp2": (1, 1, 2, ["--num-layers", "2"])}
FLAGS = """--num-layers 4 --hidden-size 8 --num-attention-heads 4 --seq-length 16
    --max-position-embeddings 16 --micro-batch-size 1 --lr 0.01 --train-iters 10
    --lr-decay-style linear --weight-decay 0.1 --clip-grad 0 --use-distributed-optimizer
    --make-vocab-size-divisible-by 8 --no-gradient-accumulation-fusion --no-masked-softmax-fusion
    --no-async-tensor-model-parallel-allreduce --use-cpu-initialization""".split()
VOCABULARY = 48


class Adam(torch.optim.Optimizer):
    """In the place of apex's FusedAdam: the same settings, state and arithmetic."""

    def __init__(self, params, lr=1e-3, weight_decay=0.0, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, dict(lr=lr, bias_correction=True, betas=betas, eps=eps,
                                      weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            first, second = group["betas"]
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["exp_avg"] = torch.zeros_like(parameter)
                    state["exp_avg_sq"] = torch.zeros_like(parameter)
                gradient = parameter.grad
                state["exp_avg"].lerp_(gradient, 1 - first)
                state["exp_avg_sq"].mul_(second).addcmul_(gradient, gradient, value=1 - second)
                mean = state["exp_avg"] / (1 - first ** group["step"])
                square = state["exp_avg_sq"] / (1 - second ** group["step"])
                update = mean / (square.sqrt() + group["eps"]) + group["weight_decay"] * parameter
                parameter.sub_(update, alpha=group["lr"])


def stand_in(name, **members):
    module = types.ModuleType(name)
    module.__spec__ = importlib.util.spec_from_loader(name, None)
    vars(module).update(members)
    sys.modules[name] = module


def stand_in_for_what_needs_a_gpu():
    stand_in("apex")
    stand_in("apex.multi_tensor_apply", multi_tensor_applier=None)
    stand_in("apex.optimizers", FusedAdam=Adam, FusedSGD=None)
    stand_in("apex.normalization")
    stand_in("apex.normalization.fused_layer_norm", FusedLayerNormAffineFunction=None)
    stand_in("amp_C")
    stand_in("fused_layer_norm_cuda")
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.get_rng_state = lambda: torch.zeros(16, dtype=torch.uint8)
    torch.Tensor.cuda = lambda self, *arguments, **options: self
    type_of = torch.Tensor.type
    torch.Tensor.type = lambda self, *arguments, **options: (
        type_of(self, *arguments, **options) if arguments or options
        else type_of(self).replace("torch.", "torch.cuda.", 1))

    def reduce_scatter(output, data, group):
        whole = data.float()
        torch.distributed.all_reduce(whole, group=group)
        place = torch.distributed.get_rank(group) * output.numel()
        output.copy_(whole[place:place + output.numel()])

    def all_gather(output, data, group):
        parts = [torch.empty_like(data) for _ in range(torch.distributed.get_world_size(group))]
        torch.distributed.all_gather(parts, data.clone(), group=group)
        output.copy_(torch.cat(parts))

    torch.distributed._reduce_scatter_base = reduce_scatter
    torch.distributed._all_gather_base = all_gather


def start(flags, tp, pp, dp, rank, store):
    """Megatron's args and groups of this rank."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(tp * pp * dp), CUDA_DEVICE_MAX_CONNECTIONS="1")
    sys.argv = ["pretrain_gpt.py", *FLAGS, *flags, "--tensor-model-parallel-size", str(tp),
                "--pipeline-model-parallel-size", str(pp), "--global-batch-size", str(dp)]
    from megatron import arguments, core, global_vars
    from megatron.core.enums import ModelType
    for name in ("FloatTensor", "IntTensor", "LongTensor"):
        setattr(torch.cuda, name, getattr(torch, name))
    args = arguments.validate_args(arguments.parse_args())
    args.padded_vocab_size = VOCABULARY
    args.model_type = ModelType.encoder_or_decoder
    args.iteration = STEPS
    args.consumed_train_samples = STEPS * dp
    global_vars._GLOBAL_ARGS = args
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=tp * pp * dp)
    core.parallel_state.initialize_model_parallel(tp, pp)
    return args


class Timers:
    def __call__(self, *arguments, **options):
        return self

    def start(self, *arguments, **options):
        pass

    stop = start


def random_values(key, like):
    generator = torch.Generator().manual_seed(zlib.crc32(key.encode()))
    return torch.randn(like.shape, generator=generator).to(like.dtype)


def train(args, optimizer, scheduler, model):
    from megatron.core import mpu
    for step in range(STEPS):
        for name, parameter in model.named_parameters():
            is_cut = getattr(parameter, "tensor_model_parallel", False)
            rank = mpu.get_tensor_model_parallel_rank() if is_cut else 0
            stage = mpu.get_pipeline_model_parallel_rank()
            parameter.main_grad.copy_(random_values(f"{step} {stage} {rank} {name}",
                                                    parameter.main_grad))
        optimizer.reduce_model_grads(args, Timers())
        optimizer.step(args, Timers())
        optimizer.gather_model_params(args, Timers())
        scheduler.step(increment=args.global_batch_size)


def states_of_shard(optimizer):
    """id of a parameter -> first element and the parts of its state that this rank has."""
    found = {}
    shards = [[*wide, *main] for wide, main in zip(optimizer.shard_fp32_groups,
                                                   optimizer.shard_fp32_from_float16_groups)]
    for ranges, group in zip(optimizer.opt_group_ranges, shards):
        for parameter, shard in zip(ranges["params"], group):
            first = optimizer.get_model_param_range_map(parameter)["param"].start
            found[id(parameter)] = (first, {"master": shard.detach().clone(),
                                            **optimizer.optimizer.state[shard]})
    return found


def plain_optimizer(args, optimizer, groups, shards):
    """groups: of whole parameters; shards: of all data-parallel ranks, by a parameter's number."""
    state, masters, number = {}, [], 0
    settings = {bool(group["wd_mult"]): {key: value for key, value in group.items()
                                         if key != "params"}
                for group in shards[-1]["groups"] + shards[0]["groups"]}
    saved_groups = []
    for group in groups:
        masters.append([])
        numbers = []
        for index, shape in group["members"]:
            parts = sorted((shard["states"][index] for shard in shards
                            if index in shard["states"]), key=lambda part: part[0])
            whole = {kind: torch.cat([part[1][kind] for part in parts]).view(shape)
                     for kind in ("master", "exp_avg", "exp_avg_sq")}
            masters[-1].append(whole.pop("master"))
            state[number] = whole
            numbers.append(number)
            number += 1
        saved_groups.append({**settings[bool(group["wd_mult"])], "params": numbers})
    saved = {"state": state, "param_groups": saved_groups}
    if not (args.fp16 or args.bf16):
        return saved
    whole = {"optimizer": saved, "fp32_from_fp16_params": masters}
    if optimizer.grad_scaler:
        whole["grad_scaler"] = optimizer.grad_scaler.state_dict()
    return whole


def save_plain(args, optimizer, scheduler, model, groups):
    from megatron import checkpointing
    from megatron.core import mpu
    numbers = {id(parameter): i for i, parameter in enumerate(model.parameters())}
    own = {"states": {numbers[key]: value for key, value in states_of_shard(optimizer).items()},
           "groups": [{key: value for key, value in group.items() if key != "params"}
                      for group in optimizer.optimizer.param_groups]}
    shards = [None] * mpu.get_data_parallel_world_size()
    torch.distributed.all_gather_object(shards, own, group=mpu.get_data_parallel_group())
    if mpu.get_data_parallel_rank() != 0:
        return
    source, _ = checkpointing.get_checkpoint_names(args.save, STEPS, True, True)
    state = torch.load(source, weights_only=False)
    state["args"].use_distributed_optimizer = False
    groups = [{"wd_mult": group["wd_mult"],
               "members": [(numbers[id(parameter)], parameter.shape) for parameter in group["params"]]}
              for group in groups]
    state["optimizer"] = plain_optimizer(args, optimizer, groups, shards)
    state["opt_param_scheduler"] = scheduler.state_dict()
    path = pathlib.Path("plain") / pathlib.Path(source).relative_to(args.save).parent
    path.mkdir(parents=True)
    torch.save(state, path / "model_optim_rng.pt")


def run_rank(rank, folder, store, case):
    tp, pp, dp, flags = CASES[case]
    torch.set_num_threads(1)
    sys.stdout = open(os.devnull, "w")
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    stand_in_for_what_needs_a_gpu()
    args = start(flags, tp, pp, dp, rank, torch.distributed.FileStore(store, tp * pp * dp))
    from megatron import checkpointing
    from megatron.core import mpu
    from megatron.model import DistributedDataParallel, Float16Module, GPTModel
    from megatron.optimizer import get_megatron_optimizer, get_param_groups
    from megatron.optimizer_param_scheduler import OptimizerParamScheduler
    torch.manual_seed(1234 + mpu.get_pipeline_model_parallel_rank())
    model = GPTModel(pre_process=mpu.is_pipeline_first_stage(),
                     post_process=mpu.is_pipeline_last_stage())
    if args.fp16 or args.bf16:
        model = Float16Module(model, args)
    model = DistributedDataParallel(model, args.accumulate_allreduce_grads_in_fp32,
                                    args.use_contiguous_buffers_in_local_ddp)
    groups = [{**group, "params": list(group["params"])}
              for group in get_param_groups([model], None, None, 1.0)]
    optimizer = get_megatron_optimizer([model])
    scheduler = OptimizerParamScheduler(optimizer, args.lr, 0.0, 0, 100, "linear", 0.1, 0.1, 100,
                                        "constant")
    train(args, optimizer, scheduler, model)
    args.save = "shards"
    checkpointing.save_checkpoint(STEPS, [model], optimizer, scheduler)
    save_plain(args, optimizer, scheduler, model, groups)
    torch.distributed.barrier()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("megatron")
    parser.add_argument("folder", nargs="?", default=FOLDER, type=pathlib.Path)
    arguments = parser.parse_args()
    megatron = os.path.abspath(arguments.megatron)
    os.environ["PYTHONPATH"] = megatron
    sys.path.insert(0, megatron)
    for case, (tp, pp, dp, _) in CASES.items():
        shutil.rmtree(arguments.folder / case, ignore_errors=True)
        with tempfile.TemporaryDirectory() as temporary:
            torch.multiprocessing.spawn(
                run_rank,
                (arguments.folder.absolute() / case, os.path.join(temporary, "store"), case),
                nprocs=tp * pp * dp)


if __name__ == "__main__":
    main()
