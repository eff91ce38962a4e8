#!/usr/bin/env python3
"""The real megatron-core (PyPI) reads what checkpoint_util wrote.

megatron_core_reads_checkpoints.py PROGRAM [unittest arguments]
Its GPT model takes the converted weights with strict=True, and where the oracle has the logits of
Megatron-LM's own forward pass for a checkpoint, computes the same.
"""
import contextlib
import logging
import os
import sys
import tempfile
import unittest
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

try:
    import numpy
    import torch
    from megatron.core import parallel_state
    from megatron.core.fusions import fused_softmax
    from megatron.core.fusions.fused_bias_geglu import quick_gelu
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.tensor_parallel import random
    from megatron.core.transformer.transformer_config import TransformerConfig

    import checkpoint_cases as cases
    import reference_files
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM = ""


def lead_tensors_to_the_cpu():
    """megatron-core's optimizers make their scalars on "cuda"."""
    def led(make):
        return lambda *data, **options: make(*data, **(options | (
            {"device": "cpu"} if options.get("device") == "cuda" else {})))

    torch.tensor, torch.zeros = led(torch.tensor), led(torch.zeros)


def start_without_gpu(tp=1, pp=1, rank=0, store=None):
    """A rank over gloo; the calls of megatron-core that name CUDA are led elsewhere."""
    lead_tensors_to_the_cpu()
    torch.Tensor.cuda = lambda self, *arguments, **options: self
    torch.cuda.current_device = lambda: torch.device("cpu")
    random.CudaRNGStatesTracker.fork = lambda self, *a, **k: contextlib.nullcontext()
    fused_softmax.get_default_causal_mask = \
        lambda size: torch.ones(size, size, dtype=torch.bool).triu(1)
    torch.distributed.init_process_group("gloo", store=store or torch.distributed.HashStore(),
                                         rank=rank, world_size=tp * pp)
    parallel_state.initialize_model_parallel(tp, pp)


def gate_of(args):
    if args.swiglu:
        return {"gated_linear_unit": True, "activation_func": torch.nn.functional.silu}
    if getattr(args, "quick_geglu", False):
        return {"gated_linear_unit": True, "activation_func": quick_gelu}
    return {}


def make_model(args, pre_process=True, post_process=True, layout=None):
    """The model that training with these args would build, or a stage of it."""
    groups = args.num_query_groups if getattr(args, "group_query_attention", False) else None
    rotary = getattr(args, "use_rotary_position_embeddings", False) or \
        args.position_embedding_type == "rope"
    config = TransformerConfig(
        num_layers=args.num_layers, hidden_size=args.hidden_size,
        num_attention_heads=args.num_attention_heads, ffn_hidden_size=args.ffn_hidden_size,
        kv_channels=args.kv_channels, num_query_groups=groups, attention_dropout=0.0,
        hidden_dropout=0.0, use_cpu_initialization=True, add_bias_linear=args.add_bias_linear,
        normalization=getattr(args, "normalization", "LayerNorm"), bias_activation_fusion=False,
        bias_dropout_fusion=False, masked_softmax_fusion=False, apply_rope_fusion=False,
        qk_layernorm=getattr(args, "qk_layernorm", False),
        tensor_model_parallel_size=args.tensor_model_parallel_size,
        pipeline_model_parallel_size=args.pipeline_model_parallel_size,
        pipeline_model_parallel_layout=layout, pipeline_dtype=torch.float32, **gate_of(args))
    return GPTModel(
        config, get_gpt_layer_local_spec(normalization=config.normalization,
                                         qk_layernorm=config.qk_layernorm),
        pre_process=pre_process, post_process=post_process, parallel_output=False,
        vocab_size=args.padded_vocab_size, max_sequence_length=args.max_position_embeddings,
        position_embedding_type="rope" if rotary else "learned_absolute",
        share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights)


class MegatronCore(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def converted(self, case, *flags, tp=1, pp=1):
        """The state of the one rank of a case brought to mcore names, fp32."""
        save = os.path.join(self.folder, f"{case}-{len(os.listdir(self.folder))}")
        process = cases.reshape(PROGRAM, case if os.path.isabs(case) else cases.path(case), save,
                                tp, pp, "--target-names", "mcore", "--target-params-dtype", "fp32",
                                "--no-optim", *flags)
        self.assertEqual(process.returncode, 0, process.stderr)
        return save

    def loaded(self, save):
        state = reference_files.load_ranks(save)[0, 0]
        model = make_model(state["args"])
        model.load_state_dict(state["model"], strict=True)
        return model.eval()

    def test_takes_every_case_with_strict(self):
        for case in ("gpt_tp1pp1_fp32", "gpt_tp1pp3_vpp2_fp16", "gpt_tp2pp1_llamaish_bf16",
                     "gpt_tp2pp2_bf16_untied", "gpt_tp2pp2_fp16", "mcore_gpt_tp1pp1_fp32",
                     "mcore_gpt_tp2pp2_bf16", "mcore_llama_tp1pp1_bf16", "mcore_llama_tp2pp1_fp32",
                     "v050_legacy_llama_tp2pp1_bf16", "megatron_from_hf_llama_tp2"):
            with self.subTest(case=case):
                self.loaded(self.converted(case))

    def logits(self, model, tokens):
        positions = torch.arange(tokens.shape[1]).expand_as(tokens)
        with torch.no_grad():
            return model(tokens, positions, None)

    def test_computes_the_logits_of_megatron(self):
        """Converted from the trained checkpoint and its layout, not from the tool's output."""
        for case, folder in (("gpt_tp1pp1_fp32", "gpt_tp1pp1_fp32"),
                             ("gpt_tp2pp2_fp16", "gpt_tp2pp2_fp16__to_tp1pp1"),
                             ("gpt_tp2pp2_bf16_untied", "gpt_tp2pp2_bf16_untied__to_tp1pp1"),
                             ("gpt_tp2pp1_llamaish_bf16", "gpt_tp2pp1_llamaish_bf16__to_tp1pp1")):
            files = os.path.join(cases.path(folder), "reference")
            tokens = torch.from_numpy(numpy.load(os.path.join(files, "tokens.npy")))[:, :-1]
            wanted = torch.from_numpy(numpy.load(os.path.join(files, "logits.npy")))
            with self.subTest(case=case):
                found = self.logits(self.loaded(self.converted(case)), tokens)
                common = min(found.shape[-1], wanted.shape[-1])
                torch.testing.assert_close(found[..., :common], wanted[..., :common], atol=1e-5,
                                           rtol=0)

    def test_computes_the_same_after_every_detour(self):
        """GQA, SwiGLU and mcore's own names: over other layouts and legacy names to TP1."""
        tokens = torch.randint(0, 290, (2, 16), generator=torch.Generator().manual_seed(1))
        for case in ("mcore_llama_tp1pp1_bf16", "mcore_gpt_tp2pp2_bf16"):
            direct = self.logits(self.loaded(self.converted(case)), tokens)
            for tp, pp, names in ((2, 2, "legacy"), (1, 4, "mcore"), (2, 1, "legacy")):
                detour = os.path.join(self.folder, f"{case}-{tp}-{pp}-{names}")
                process = cases.reshape(PROGRAM, cases.path(case), detour, tp, pp,
                                        "--target-names", names)
                self.assertEqual(process.returncode, 0, process.stderr)
                with self.subTest(case=case, detour=(tp, pp, names)):
                    found = self.logits(self.loaded(self.converted(detour)), tokens)
                    self.assertTrue(torch.equal(found, direct))


if __name__ == "__main__":
    if len(sys.argv) < 2 or not os.path.isdir(cases.ORACLE):
        print("skipped: no shared folder with checkpoints of the real Megatron-LM")
        sys.exit(77)
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    start_without_gpu()
    unittest.main()
