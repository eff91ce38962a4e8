#!/usr/bin/env python3
"""Torch and the real megatron-core (PyPI) take up what the trainer's writer saved.

megatron_core_resumes_training.py PROGRAM [unittest arguments]
PROGRAM (rewrite_training) reads the oracle's checkpoints as a trainer does and saves them again.
"""
import hashlib
import json
import logging
import os
import pickletools
import random
import subprocess
import sys
import tempfile
import unittest
import warnings
import zipfile

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

try:
    import numpy
    import torch
    from megatron.core.distributed import (DistributedDataParallel,
                                           DistributedDataParallelConfig)
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler

    from megatron.core.safe_globals import register_safe_globals

    from reference import cases
    from megatron_core import models as core
    from reference import files as reference_files
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM = ""
TRAINING = os.path.join(cases.SHARED, "oracle/training")


def tensors_of(value, path=""):
    """(path, tensor or array) in the order of the file."""
    if isinstance(value, (torch.Tensor, numpy.ndarray)):
        yield path, value
    elif isinstance(value, (dict, list, tuple)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in items:
            yield from tensors_of(child, f"{path}/{key}" if path else str(key))


def dtype_name(tensor):
    is_array = isinstance(tensor, numpy.ndarray)
    return f"numpy:{tensor.dtype}" if is_array else str(tensor.dtype).removeprefix("torch.")


def digest(tensor):
    if isinstance(tensor, torch.Tensor):
        tensor = tensor.detach().contiguous().view(torch.uint8).numpy()
    return hashlib.sha256(tensor.tobytes()).hexdigest()


def outline(value):
    """A value as structure.json has it."""
    if isinstance(value, torch.Tensor):
        return f"<tensor {str(value.dtype).removeprefix('torch.')} {list(value.shape)}>"
    if isinstance(value, numpy.ndarray):
        return f"<ndarray {value.dtype} {list(value.shape)}>"
    if isinstance(value, dict):
        return {str(key): outline(child) for key, child in value.items()}
    if isinstance(value, tuple) and len(value) > 100:
        return f"<tuple of {len(value)}>"
    if isinstance(value, (list, tuple)):
        return [outline(child) for child in value]
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    return value.value if isinstance(value.value, str) else f"<{value}: {value.value}>"


class Saved(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def rewritten(self, source, names, *flags):
        save = os.path.join(self.folder, f"save-{len(os.listdir(self.folder))}")
        subprocess.run([PROGRAM, source, save, names, *flags], check=True)
        return save

    def state(self, root):
        path = os.path.join(reference_files.iteration_folder(root), "mp_rank_00",
                            "model_optim_rng.pt")
        return torch.load(path, map_location="cpu", weights_only=False)

    def test_has_the_tensors_and_the_structure_of_golden_runs(self):
        for run, point, names, flags in (("gpt_fp32", "mid", "legacy", []),
                                         ("gpt_fp32", "final", "legacy", []),
                                         ("gpt_fp16", "final", "legacy", []),
                                         ("gpt_llamaish_fp32", "final", "legacy", ["no-optim"]),
                                         ("mcore_gpt_fp32", "final", "mcore", ["no-optim", "rerun"]),
                                         ("mcore_llama_fp32", "final", "mcore",
                                          ["no-optim", "rerun"])):
            with self.subTest(run=run, point=point):
                state = self.state(self.rewritten(os.path.join(TRAINING, run, point), names,
                                                  *flags))
                file = [f"{point}/{name}" for name in os.listdir(os.path.join(TRAINING, run, point))
                        if name.startswith("iter_")][0] + "/mp_rank_00/model_optim_rng.pt"
                with open(os.path.join(TRAINING, run, "tensors.json")) as listing:
                    expected = json.load(listing)[file]
                found = [{"name": name,
                          "dtype": dtype_name(tensor), "shape": list(tensor.shape),
                          "sha256": digest(tensor)}
                         for name, tensor in tensors_of(state)]
                self.assertEqual(found, expected)
                with open(os.path.join(TRAINING, run, "structure.json")) as listing:
                    expected = json.load(listing)[file]
                found = outline({key: value for key, value in state.items()
                                 if key not in ("args", "model")})
                self.assertEqual(json.dumps(found), json.dumps(expected))

    def optimizer_of(self, model, args):
        """megatron-core's own, as pretrain() would build it."""
        model = DistributedDataParallel(model.config, DistributedDataParallelConfig(), model)
        config = OptimizerConfig(optimizer="adam", lr=args.lr, min_lr=args.min_lr,
                                 weight_decay=args.weight_decay, adam_beta1=args.adam_beta1,
                                 adam_beta2=args.adam_beta2, adam_eps=args.adam_eps,
                                 fp16=False, bf16=False, params_dtype=torch.float32)
        return get_megatron_optimizer(config, [model])

    def test_is_resumed_by_megatron_core(self):
        """Model, optimizer, scheduler and generators take their parts of the file."""
        save = self.rewritten(cases.path("mcore_gpt_tp1pp1_fp32"), "mcore")
        state = self.state(save)
        args = state["args"]
        model = core.make_model(args)
        model.load_state_dict(state["model"], strict=True)
        optimizer = self.optimizer_of(model, args)
        saved = state["optimizer"]["state"]
        # The step stands in the groups, as apex and Transformer Engine have it; without them
        # megatron-core takes torch's AdamW, which keeps it with each parameter.
        for entry in saved.values():
            entry["step"] = torch.tensor(float(state["optimizer"]["param_groups"][0]["step"]))
        optimizer.load_state_dict(state["optimizer"])
        inner = optimizer.chained_optimizers[0].optimizer
        parameters = [p for group in inner.param_groups for p in group["params"]]
        self.assertEqual(len(parameters), len(saved))
        for number, parameter in enumerate(parameters):
            for kind in ("exp_avg", "exp_avg_sq"):
                self.assertTrue(torch.equal(inner.state[parameter][kind], saved[number][kind]))
        self.assertEqual([group["wd_mult"] for group in inner.param_groups], [1.0, 0.0])
        saved = state["opt_param_scheduler"]
        scheduler = OptimizerParamScheduler(
            optimizer, 0.0, saved["max_lr"], saved["min_lr"], saved["lr_warmup_steps"],
            saved["lr_decay_steps"], saved["lr_decay_style"], saved["start_wd"], saved["end_wd"],
            saved["wd_incr_steps"], saved["wd_incr_style"],
            use_checkpoint_opt_param_scheduler=False, override_opt_param_scheduler=False)
        scheduler.load_state_dict(saved)
        self.assertEqual(scheduler.num_steps, saved["num_steps"])
        generators = state["rng_state"][0]
        random.setstate(generators["random_rng_state"])
        numpy.random.set_state(generators["np_rng_state"])
        torch.set_rng_state(generators["torch_rng_state"])
        self.assertTrue(generators["rng_tracker_states"])

    def test_megatron_core_resumes_16_bit_weights(self):
        """Masters are the weights' own values before rounding, in the order of their groups."""
        save = self.rewritten(cases.path("mcore_gpt_tp2pp2_bf16"), "mcore")
        ranks = reference_files.load_ranks(save)
        for rank in ranks.values():
            optimizer = rank["optimizer"]
            masters = optimizer["fp32_from_fp16_params"]
            self.assertEqual([len(group) for group in masters],
                             [len(group["params"]) for group in
                              optimizer["optimizer"]["param_groups"]])
            rounded = sorted(digest(master.bfloat16()) for group in masters for master in group)
            weights = sorted(digest(tensor) for _, tensor in tensors_of(rank["model"]))
            self.assertEqual(rounded, weights)

    def test_passes_the_careful_mode_of_torch(self):
        """Since core_v0.14 Megatron loads with weights_only=True and lets its own classes through."""
        register_safe_globals()
        for run, names in (("mcore_gpt_fp32", "mcore"), ("mcore_llama_fp32", "legacy")):
            save = self.rewritten(os.path.join(TRAINING, run, "final"), names, "no-optim", "rerun")
            path = os.path.join(reference_files.iteration_folder(save), "mp_rank_00",
                                "model_optim_rng.pt")
            state = torch.load(path, map_location="cpu", weights_only=True)
            numpy.random.set_state(state["rng_state"][0]["np_rng_state"])

    def test_legacy_names_have_what_6ef5bdc_asks_for(self):
        state = self.state(self.rewritten(os.path.join(TRAINING, "gpt_fp32/final"), "legacy"))
        self.assertEqual(list(state), ["args", "checkpoint_version", "iteration", "model",
                                       "optimizer", "opt_param_scheduler", "rng_state"])
        for name in ("num_layers", "hidden_size", "num_attention_heads", "add_position_embedding",
                     "max_position_embeddings", "make_vocab_size_divisible_by",
                     "padded_vocab_size", "tokenizer_type", "tensor_model_parallel_size",
                     "pipeline_model_parallel_size", "consumed_train_samples",
                     "consumed_valid_samples"):
            self.assertTrue(hasattr(state["args"], name), name)

    def test_names_no_class_of_megatron_but_those_of_the_args(self):
        """Without rerun state a file can be unpickled where megatron.core cannot be imported."""
        save = self.rewritten(os.path.join(TRAINING, "mcore_gpt_fp32/final"), "mcore", "no-optim")
        path = os.path.join(reference_files.iteration_folder(save), "mp_rank_00",
                            "model_optim_rng.pt")
        with zipfile.ZipFile(path) as archive:
            pickled = archive.read("model_optim_rng/data.pkl")
        named = {argument for opcode, argument, _ in pickletools.genops(pickled)
                 if opcode.name == "GLOBAL" and argument.startswith("megatron")}
        self.assertEqual(named, {"megatron.core.enums ModelType",
                                 "megatron.core.transformer.enums AttnBackend"})


if __name__ == "__main__":
    if len(sys.argv) < 2 or not os.path.isdir(TRAINING):
        print("skipped: no shared folder with training runs of the real Megatron-LM")
        sys.exit(77)
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    core.start_without_gpu()
    unittest.main()
