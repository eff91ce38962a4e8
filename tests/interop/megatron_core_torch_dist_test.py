#!/usr/bin/env python3
"""The optimizer of the real megatron-core through torch_dist and back, in both of its forms.

megatron-core saves a model with its optimizer, checkpoint_util converts that to rank files and these to
torch_dist again, in the same form or in the other one, and megatron-core loads what it then finds into
another model: everything is what it was. This is done with 0.16.1, which is installed, and with 0.19.2,
which scripts/setup.sh unpacks for this test.

megatron_core_torch_dist_test.py CHECKPOINT_UTIL [unittest arguments]
"""
import itertools
import os
import subprocess
import sys
import tempfile
import unittest

from megatron_core.processes import run_package

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
HERE = os.path.dirname(os.path.abspath(__file__))
NEWER = os.path.join(os.environ.get("MEG_DEPS", os.path.expanduser("~/.cache/libmeg")),
                     "megatron-core-0.19.2")
UTIL = ""


def make(args, form, make_model=None):
    """A model, and its optimizer before the first step. make_model: another than GPT's."""
    import torch
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

    from megatron_core import models as core
    from megatron_core.ranks import values
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
    from megatron_core.ranks import values
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


def convert(load, save, *flags):
    subprocess.run([UTIL, "--load-dir", load, "--save-dir", save, *flags], check=True,
                   stdout=subprocess.DEVNULL)


def expect_same(found, expected, where):
    import torch
    if isinstance(expected, dict):
        assert set(found) == set(expected), (where, set(found) ^ set(expected))
        for key, value in expected.items():
            expect_same(found[key], value, f"{where} {key}")
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected), where
        for i, value in enumerate(expected):
            expect_same(found[i], value, f"{where} {i}")
    elif isinstance(expected, torch.Tensor):
        # torch's own Adam takes a step that is a number as well.
        assert torch.equal(torch.tensor(found) if isinstance(found, float) else found, expected), where
    else:
        assert found == expected, (where, found, expected)


def start_megatron_core():
    import torch

    from megatron_core import models as core
    torch.cuda.synchronize = lambda *device: None
    core.start_without_gpu()
    core.call_types_cuda()


FORMS = ("distributed", "plain")


def save_after_steps(args, form, folder):
    """A model and its optimizer after two steps, as saved into `folder`."""
    from megatron.core import dist_checkpointing
    model, optimizer = make(args, form)
    take_steps(model, optimizer, range(2))
    state, metadata = sharded_state(model, optimizer, args, form, False)
    os.makedirs(folder)
    dist_checkpointing.save(state, folder, content_metadata=metadata)
    return state_of(model, optimizer)


def judge(source, target, folder):
    """In a process of its own: from one form into one; an assertion fails where that changes something."""
    from megatron.core import dist_checkpointing

    from megatron_core.ranks import model_args
    from reference import files as reference_files
    start_megatron_core()
    saved = {}
    for form in {source, target}:
        args = model_args(bf16=True, num_layers=1, use_distributed_optimizer=form == "distributed")
        saved[form] = os.path.join(folder, form, "iter_0000003")
        # Both forms take the same steps, so that core's own file of the target is what ours has to be.
        expected_of = save_after_steps(args, form, saved[form])
        if form == target:
            target_args, expected = args, expected_of
    # The rank files between them have either of the two.
    for form in {source, target}:
        ranks, again = (os.path.join(folder, f"{name} {form}") for name in ("ranks", "again"))
        convert(saved[source], ranks, "--target-optimizer", form)
        convert(ranks, again, "--target-format", "torch_dist", "--target-optimizer", target)
        model, optimizer = make(target_args, target)
        take_steps(model, optimizer, [7])
        theirs, ours = (
            dist_checkpointing.load(sharded_state(model, optimizer, target_args, target, True)[0], where)
            for where in (saved[target], reference_files.iteration_folder(again)))
        for part in ("model", "optimizer"):
            expect_same(ours[part], theirs[part], f"{form} {part}")
        # Without Apex, core's distributed optimizer cannot take what it loaded: it asks for a "step".
        if target == "plain":
            model.module.load_state_dict(ours["model"])
            optimizer.load_state_dict(ours["optimizer"])
            expect_same(state_of(model, optimizer), expected, f"{form} state")
    print("equal")


def judge_same(form, *folders):
    """In a process of its own: what one model and its optimizer take of two checkpoints is the same."""
    import torch
    from megatron.core import dist_checkpointing

    from megatron_core import models as core
    from reference import files as reference_files
    start_megatron_core()
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
    print("same")


class MegatronCore(unittest.TestCase):
    def expect_round_trip(self, *python_path):
        for forms in itertools.product(FORMS, FORMS):
            with self.subTest(forms=forms), tempfile.TemporaryDirectory() as folder:
                path = os.pathsep.join([*python_path, HERE, os.environ.get("PYTHONPATH", "")])
                run = run_package([sys.executable, "-W", "ignore", os.path.abspath(__file__), UTIL, "judge",
                                   *forms, folder], env={**os.environ, "PYTHONPATH": path})
                self.assertEqual(run.returncode, 0, run.stderr[-3000:])
                self.assertIn("equal", run.stdout)

    def test_0_16_1_finds_its_optimizer_again(self):
        self.expect_round_trip()

    def test_0_19_2_finds_its_optimizer_again(self):
        if not os.path.isdir(NEWER):
            self.skipTest(f"{NEWER} is not there: scripts/setup.sh unpacks it")
        self.expect_round_trip(NEWER)


if __name__ == "__main__":
    UTIL = os.path.abspath(sys.argv[1])
    if sys.argv[2:3] in (["judge"], ["judge_same"]):
        globals()[sys.argv[2]](*sys.argv[3:])
        sys.exit(0)
    try:
        import megatron.core  # noqa: F401
        import psutil  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
