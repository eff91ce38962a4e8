"""The optimizers of the real megatron-core (PyPI), in both of their forms, and what they take of checkpoints.

main("judge", CHECKPOINT_UTIL, FOLDER)      from each form through rank files into each form
main("judge_same", FORM, FOLDER, FOLDER)    two checkpoints are the same to one model and its optimizer
"""
import itertools
import os
import subprocess

import torch
from megatron.core import dist_checkpointing
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

from megatron_core import models as core
from megatron_core.ranks import model_args, values
from reference import files as reference_files
from reference.same import expect_same


def make(args, form, make_model=None):
    """A model, and its optimizer before the first step. make_model: another than GPT's."""
    model = (make_model or core.make_model)(args)
    for name, parameter in model.named_parameters():
        parameter.data.copy_(values(name, 0, parameter.shape, 0.1))
    distributed = form == "distributed"
    wrapped = DistributedDataParallel(
        model.config, DistributedDataParallelConfig(use_distributed_optimizer=distributed,
                                                    grad_reduce_in_fp32=True), model)
    optimizer = get_megatron_optimizer(OptimizerConfig(
        optimizer="adam", lr=1e-3, min_lr=1e-4, weight_decay=0.1, bf16=True, fp16=False,
        params_dtype=torch.bfloat16, clip_grad=0.0, use_distributed_optimizer=distributed), [wrapped])
    return wrapped, optimizer


def take_steps(model, optimizer, steps):
    for step in steps:
        for name, parameter in model.module.named_parameters():
            parameter.main_grad.copy_(values(f"{name} {step}", 0, parameter.shape, 1.0))
        optimizer.step()


def sharded_state(model, optimizer, args, form, is_loading):
    """What Megatron-LM's trainer hands to dist_checkpointing, and what it says of it."""
    metadata = {"singleton_local_shards": False, "chained_optim_avoid_prefix": True}
    if form == "distributed":
        metadata["distrib_optim_sharding_type"] = "fully_reshardable"
    of_model = model.module.sharded_state_dict(metadata=metadata)
    state = {"model": of_model, "iteration": 3, "checkpoint_version": 3.0, "args": args,
             "optimizer": optimizer.sharded_state_dict(of_model, is_loading=is_loading,
                                                       metadata=metadata)}
    return state, metadata


def state_of(model, optimizer):
    """Weights, masters, moments and steps, by where they stand."""
    found = {name: parameter.detach().clone() for name, parameter in model.module.named_parameters()}
    inner, = getattr(optimizer, "chained_optimizers", [optimizer])
    for g, group in enumerate(inner.optimizer.param_groups):
        found[f"group {g} step"] = group.get("step")
        for i, master in enumerate(group["params"]):
            found[f"master {g} {i}"] = master.detach().clone()
            for kind, value in inner.optimizer.state[master].items():
                found[f"{kind} {g} {i}"] = value.clone() if hasattr(value, "clone") else value
    return found


def convert(util, load, save, *flags):
    subprocess.run([util, "--load-dir", load, "--save-dir", save, *flags], check=True,
                   stdout=subprocess.DEVNULL)


def start():
    torch.cuda.synchronize = lambda *device: None
    core.start_without_gpu()
    core.call_types_cuda()


FORMS = ("distributed", "plain")


def save_after_steps(args, form, folder):
    """A model and its optimizer after two steps, as saved into `folder`."""
    model, optimizer = make(args, form)
    take_steps(model, optimizer, range(2))
    state, metadata = sharded_state(model, optimizer, args, form, False)
    os.makedirs(folder)
    dist_checkpointing.save(state, folder, content_metadata=metadata)
    return state_of(model, optimizer)


def judge(util, folder):
    """An assertion fails where the way from one form into one changes something."""
    start()
    args, saved, expected = {}, {}, {}
    for form in FORMS:
        args[form] = model_args(bf16=True, num_layers=1, use_distributed_optimizer=form == "distributed",
                                softmax_type="learnable")
        saved[form] = os.path.join(folder, form, "iter_0000003")
        # All take the same steps, so that core's own file of a form is what ours has to be.
        expected[form] = save_after_steps(args[form], form, saved[form])
    # The rank files between two forms have either of the two.
    for source, between in itertools.product(FORMS, FORMS):
        ranks = os.path.join(folder, f"{source} {between}")
        convert(util, saved[source], ranks, "--target-optimizer", between)
        for target in FORMS:
            where = f"{source}, {between}, {target}"
            again = os.path.join(folder, where)
            convert(util, ranks, again, "--target-format", "torch_dist", "--target-optimizer", target)
            model, optimizer = make(args[target], target)
            take_steps(model, optimizer, [7])
            theirs, ours = (
                dist_checkpointing.load(sharded_state(model, optimizer, args[target], target, True)[0], checkpoint)
                for checkpoint in (saved[target], reference_files.iteration_folder(again)))
            for part in ("model", "optimizer"):
                expect_same(ours[part], theirs[part], f"{where}: {part}")
            # Without Apex, core's distributed optimizer cannot take what it loaded: it asks for a "step".
            if target == "plain":
                model.module.load_state_dict(ours["model"])
                optimizer.load_state_dict(ours["optimizer"])
                expect_same(state_of(model, optimizer), expected[target], f"{where}: state")


def judge_same(form, *folders):
    """What one model and its optimizer take of two checkpoints is the same."""
    start()
    folders = [reference_files.iteration_folder(folder) for folder in folders]
    args = dist_checkpointing.load_common_state_dict(folders[0])["args"]
    model, optimizer = make(args, form, lambda args: core.make_model(
        args, pipeline_model_parallel_size=1, pipeline_model_parallel_layout=None))
    take_steps(model, optimizer, [7])
    found, expected = (dist_checkpointing.load(sharded_state(model, optimizer, args, form, True)[0], folder)
                       for folder in folders)
    for part in ("model", "optimizer"):
        expect_same(found[part], expected[part], part)
    if form == "plain":
        # The step stands in the groups, as Apex has it; torch's Adam, taken without Apex, keeps it beside moments.
        inner = found["optimizer"]["optimizer"]
        for moments in inner["state"].values():
            moments["step"] = torch.tensor(float(inner["param_groups"][0]["step"]))
        optimizer.load_state_dict(found["optimizer"])


def main(command, *words):
    {"judge": judge, "judge_same": judge_same}[command](*words)
