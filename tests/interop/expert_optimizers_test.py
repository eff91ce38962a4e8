#!/usr/bin/env python3
"""Optimizers of expert-parallel ranks, as the real megatron-core saves them in several processes.

The same model takes the same steps over one expert-parallel rank and over several. What
checkpoint_util makes of the one checkpoint is the other: each tensor, number and group of every rank.

expert_optimizers_test.py CHECKPOINT_UTIL VERIFY [unittest arguments]
"""
import copy
import os
import re
import shutil
import sys
import tempfile
import unittest

try:
    import psutil  # noqa: F401
    import torch
    from megatron.core import parallel_state
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.transformer.module import Float16Module
    from megatron.core.transformer.transformer_config import TransformerConfig

    import checkpoint_cases as cases
    import megatron_core_models as core
    import reference_files
    from megatron_core_ranks import model_args, run_ranks, values
    from megatron_core_torch_dist_test import expect_same
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

UTIL = VERIFY = ""
EXPERTS = 4


def args_of(tp, pp, ep, bf16):
    return model_args(tp, pp, num_experts=EXPERTS, moe_ffn_hidden_size=48, moe_router_topk=2,
                      moe_grouped_gemm=False, expert_model_parallel_size=ep, bf16=bf16,
                      expert_tensor_parallel_size=tp, add_bias_linear=False, world_size=tp * pp * ep,
                      data_parallel_size=ep)


def make_model(args, stage):
    dtype = torch.bfloat16 if args.bf16 else torch.float32
    tp, pp = args.tensor_model_parallel_size, args.pipeline_model_parallel_size
    config = TransformerConfig(
        num_layers=args.num_layers, hidden_size=args.hidden_size,
        num_attention_heads=args.num_attention_heads, ffn_hidden_size=args.ffn_hidden_size,
        moe_ffn_hidden_size=args.moe_ffn_hidden_size, num_moe_experts=EXPERTS, moe_router_topk=2,
        expert_model_parallel_size=args.expert_model_parallel_size, expert_tensor_parallel_size=tp,
        tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp,
        use_cpu_initialization=True, bf16=args.bf16, params_dtype=dtype, pipeline_dtype=dtype,
        add_bias_linear=False, hidden_dropout=0.0, attention_dropout=0.0, bias_dropout_fusion=False,
        moe_token_dispatcher_type="alltoall")
    model = GPTModel(
        config, get_gpt_layer_local_spec(num_experts=EXPERTS, moe_grouped_gemm=False),
        vocab_size=args.padded_vocab_size, max_sequence_length=args.max_position_embeddings,
        pre_process=stage == 0, post_process=stage == pp - 1,
        share_embeddings_and_output_weights=True)
    return Float16Module(config, model) if args.bf16 else model


def whole_name(name, args, stage, expert_rank):
    """Of the whole model: the same however its layers and experts are shared out."""
    layers = args.num_layers // args.pipeline_model_parallel_size
    share = EXPERTS // args.expert_model_parallel_size
    name = re.sub(r"layers\.(\d+)\.", lambda m: f"layers.{int(m[1]) + stage * layers}.", name)
    name = re.sub(r"experts\.(\d+)\.", lambda m: f"experts.{int(m[1]) + expert_rank * share}.", name)
    return "word embeddings" if re.search(r"word_embeddings|output_layer", name) else name


def save_rank(folder, rank, args):
    tp, pp = args.tensor_model_parallel_size, args.pipeline_model_parallel_size
    ep = args.expert_model_parallel_size
    store = torch.distributed.FileStore(os.path.join(folder, "store"), args.world_size)
    core.start_without_gpu(tp, pp, rank, store, dp=ep, expert_model_parallel_size=ep,
                           expert_tensor_parallel_size=tp)
    core.call_types_cuda()
    torch.cuda.Stream = lambda *arguments, **options: None
    tensor_rank = parallel_state.get_tensor_model_parallel_rank()
    stage = parallel_state.get_pipeline_model_parallel_rank()
    expert_rank = parallel_state.get_expert_model_parallel_rank()
    model = make_model(args, stage)

    def of_whole(name, parameter, what, scale):
        is_cut = getattr(parameter, "tensor_model_parallel", False) or (
            "experts" in name and not name.endswith("linear_fc2.bias"))
        key = whole_name(name, args, stage, expert_rank)
        return values(f"{key} {what}", tensor_rank if is_cut else 0, parameter.shape, scale)

    for name, parameter in model.named_parameters():
        parameter.data.copy_(of_whole(name, parameter, "", 0.1))
    wrapped = DistributedDataParallel(
        model.config, DistributedDataParallelConfig(grad_reduce_in_fp32=True), model)
    optimizer = get_megatron_optimizer(OptimizerConfig(
        optimizer="adam", lr=1e-3, min_lr=1e-4, weight_decay=0.1, bf16=args.bf16, fp16=False,
        params_dtype=torch.bfloat16 if args.bf16 else torch.float32, clip_grad=0.0), [wrapped])
    for step in range(2):
        for name, parameter in model.named_parameters():
            parameter.main_grad.copy_(of_whole(name, parameter, step, 1.0))
        optimizer.step()
    folder_name = f"mp_rank_{tensor_rank:02d}" + (f"_{stage:03d}" if pp > 1 else "") + \
        (f"_{expert_rank:03d}" if ep > 1 else "")
    path = os.path.join(folder, "iter_0000001", folder_name)
    os.makedirs(path)
    torch.save({"args": args, "checkpoint_version": 3.0, "iteration": 1,
                "model": model.state_dict_for_save_checkpoint(),
                "optimizer": optimizer.state_dict()}, os.path.join(path, "model_optim_rng.pt"))


def save(folder, *layout):
    args = args_of(*layout)
    return run_ranks(folder, args.world_size, save_rank, args)


def ranks_of(root):
    folder = reference_files.iteration_folder(root)
    return {name: torch.load(os.path.join(folder, name, "model_optim_rng.pt"), weights_only=False)
            for name in sorted(os.listdir(folder)) if name.startswith("mp_rank")}


class ExpertOptimizers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_program(self, program, *flags, code=0):
        done = cases.run(program, *flags)
        self.assertEqual(done.returncode, code, (flags, done.stdout[-2000:], done.stderr))
        return done

    def convert(self, load, name, *flags):
        self.run_program(UTIL, "--load-dir", load, "--save-dir", self.path(name), *flags)
        return self.path(name)

    def expect_ranks(self, found, expected):
        ours, theirs = ranks_of(found), ranks_of(expected)
        self.assertEqual(sorted(ours), sorted(theirs))
        for name, rank in theirs.items():
            for part in ("model", "optimizer"):
                expect_same(ours[name][part], rank[part], f"{name} {part}")
        self.run_program(VERIFY, "checkpoint", found)

    def expect_layouts(self, tp, pp, ep, bf16):
        one, several = save(self.path("one"), tp, pp, 1, bf16), save(self.path("several"), tp, pp,
                                                                    ep, bf16)
        size = "--target-expert-parallel-size"
        self.assertIn("equal", self.run_program(VERIFY, "diff", one, several).stdout)
        self.expect_ranks(self.convert(one, "spread", size, str(ep)), several)
        self.expect_ranks(self.convert(several, "gathered", size, "1"), one)
        self.expect_ranks(self.convert(several, "kept"), several)
        other = self.convert(several, "other", size, "4", "--target-pipeline-parallel-size", "2")
        self.expect_ranks(self.convert(other, "back", size, str(ep), "--target-pipeline-parallel-size",
                                       str(pp)), several)
        dist = self.convert(several, "dist", "--target-format", "torch_dist",
                            "--target-optimizer", "plain")
        self.assertIn("equal", self.run_program(VERIFY, "diff", several, dist).stdout)

    def test_two_ranks_in_bf16(self):
        self.expect_layouts(1, 1, 2, True)

    def test_two_ranks_of_two_stages(self):
        self.expect_layouts(1, 2, 2, False)

    def test_two_ranks_cut_in_two(self):
        self.expect_layouts(2, 1, 2, True)

    def test_what_does_not_fit_is_refused(self):
        source = save(self.path("source"), 1, 1, 2, True)
        states = ranks_of(source)

        def refused(change, *words):
            root = self.path("spoilt")
            for name, state in states.items():
                folder = os.path.join(root, "iter_0000001", name)
                os.makedirs(folder, exist_ok=True)
                changed = copy.deepcopy(state)
                if name.endswith("1"):
                    change(changed)
                torch.save(changed, os.path.join(folder, "model_optim_rng.pt"))
            done = self.run_program(UTIL, "--load-dir", os.path.join(root, "iter_0000001"),
                                    "--save-dir", self.path("none"), code=1)
            error = done.stderr.splitlines()[-1]
            for word in ("mp_rank_00_001", "optimizer", *words):
                self.assertIn(word, error)
            self.assertFalse(os.path.exists(self.path("none")))
            self.convert(os.path.join(root, "iter_0000001"), "weights", "--no-optim")
            shutil.rmtree(self.path("weights"))

        refused(lambda state: state.pop("optimizer"), "expected a list of two", "none")
        refused(lambda state: state["optimizer"].pop(), "expected a list of two")
        refused(lambda state: state["optimizer"][1]["optimizer"]["state"].popitem(), "state")
        refused(lambda state: state["optimizer"][1]["optimizer"]["state"][0].update(
            exp_avg=torch.zeros(3, 3)), "exp_avg", "expected shape")
        refused(lambda state: state["optimizer"][1]["optimizer"]["param_groups"][0].update(lr=7.0),
                "lr")
        refused(lambda state: state["optimizer"][1]["optimizer"]["state"][0].update(
            step=torch.tensor(9.0)), "step")
        for state in ranks_of(source).values():
            self.assertEqual(len(state["optimizer"]), 2)


if __name__ == "__main__":
    UTIL, VERIFY = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    unittest.main()
