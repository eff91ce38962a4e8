#!/usr/bin/env python3
"""The real megatron-core (PyPI) reads what checkpoint_util wrote.

megatron_core_reads_checkpoints.py PROGRAM [unittest arguments]
Its GPT model takes the converted weights with strict=True, and where the oracle has the logits of
Megatron-LM's own forward pass for a checkpoint, computes the same.
"""
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

    from reference import cases
    from megatron_core import models as core
    from reference import files as reference_files
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM = ""


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
        # Compute in fp32 and with erf, as the reference was computed.
        model = core.make_model(state["args"], bf16=False, bias_gelu_fusion=False)
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
    core.start_without_gpu()
    unittest.main()
