#!/usr/bin/env python3
"""The oracle's checkpoints under hybrid names and back: nothing but the names changes.

hybrid_golden_test.py CHECKPOINT_UTIL VERIFY [unittest arguments]
"""
import os
import shutil
import sys
import tempfile
import unittest

from reference import cases as oracle
from reference import files as reference_files
import torch

UTIL, VERIFY = (os.path.abspath(path) for path in sys.argv[1:3])
DISTRIBUTED = ("dist_gpt_tp2pp1_bf16_distopt_dp2", "dist_gpt_tp1pp1_bf16_distopt_zero_dp2",
               "v0161_dist_gpt_tp2pp1_bf16_distopt_dp2", "dist_llama_tp2pp2_bf16_model")
EXPERTS = "mcore_moe_tp1pp1_ep2_bf16"


class HybridNames(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def run_program(self, program, *flags, code=0):
        done = oracle.run(program, *flags)
        self.assertEqual(done.returncode, code, (flags, done.stdout[-2000:], done.stderr))
        return done

    def convert(self, load, name, *flags):
        save = os.path.join(self.folder, name)
        self.run_program(UTIL, "--load-dir", load, "--save-dir", save, *flags)
        return save

    def expect_one_state(self, case, *flags):
        """Both formats, other sizes and the way back, all with the source's manifest."""
        source, shape = oracle.path(case), oracle.shape_flags(case)
        manifest = os.path.join(self.folder, case + ".json")
        only = [flag for flag in flags if flag == "--no-optim"]
        self.run_program(VERIFY, "manifest", source, "--write", "--manifest", manifest, *only, *shape)
        for form in ("torch", "torch_dist"):
            hybrid = self.convert(source, f"{case}.{form}", "--target-names", "hybrid",
                                  "--target-format", form, *flags, *shape)
            self.run_program(VERIFY, "manifest", hybrid, "--manifest", manifest, *only)
            self.assertIn("hybrid", self.run_program(VERIFY, "checkpoint", hybrid).stdout)
            back = self.convert(hybrid, f"{case}.{form}.back", "--target-names", "mcore", *flags)
            self.run_program(VERIFY, "manifest", back, "--manifest", manifest, *only)
            self.assertNotIn("hybrid", self.run_program(VERIFY, "checkpoint", back).stdout)

    def test_rank_files_keep_their_state(self):
        for case in oracle.cases():
            if "__to_" in case:
                continue
            with self.subTest(case):
                self.expect_one_state(case)

    def test_torch_dist_keeps_its_state(self):
        for case in DISTRIBUTED:
            with self.subTest(case):
                self.expect_one_state(case)

    def test_experts_keep_their_state(self):
        self.expect_one_state(EXPERTS, "--no-optim")

    def test_stages_are_segments_of_the_pattern(self):
        for flags, pattern in ((("2", "1"), "*-*-|*-*-"), (("2", "2"), "*-|*-|*-|*-"),
                               (("4", "1"), "*-|*-|*-|*-"), (("1", "1"), "*-*-*-*-")):
            source = oracle.path("gpt_tp1pp1_fp32")
            hybrid = self.convert(source, "-".join(flags), "--target-names", "hybrid",
                                  "--target-pipeline-parallel-size", flags[0],
                                  "--target-virtual-pipeline-parallel-size", flags[1])
            self.assertIn("equal", self.run_program(VERIFY, "diff", source, hybrid).stdout)
            _, rank = self.rank_file(hybrid)
            self.assertEqual(rank["args"].hybrid_layer_pattern, pattern)
            self.assertEqual(rank["args"].num_layers, 8)
        # And on to another layout, still with the names that it has.
        again = self.convert(os.path.join(self.folder, "2-2"), "again",
                             "--target-tensor-parallel-size", "2")
        self.assertIn("equal", self.run_program(VERIFY, "diff", source, again).stdout)
        self.assertIn("decoder.final_norm.weight", self.rank_file(again, -1)[1]["model"])

    def rank_file(self, checkpoint, place=0):
        folder = reference_files.iteration_folder(checkpoint)
        ranks = sorted(name for name in os.listdir(folder) if name.startswith("mp_rank"))
        path = os.path.join(folder, ranks[place], "model_optim_rng.pt")
        return path, torch.load(path, weights_only=False)

    def test_models_that_are_no_gpt_are_refused(self):
        hybrid = self.convert(oracle.path("mcore_gpt_tp1pp1_fp32"), "hybrid", "--target-names",
                              "hybrid", "--no-optim")
        path, rank = self.rank_file(hybrid)

        def refused(change, *words):
            changed = torch.load(path, weights_only=False)
            change(changed)
            spoilt = os.path.join(self.folder, "spoilt", "iter_0000200", "mp_rank_00")
            os.makedirs(spoilt, exist_ok=True)
            torch.save(changed, os.path.join(spoilt, "model_optim_rng.pt"))
            for flags in ([], ["--target-format", "torch_dist"]):
                save = os.path.join(self.folder, "none")
                done = self.run_program(UTIL, "--load-dir", os.path.dirname(spoilt), "--save-dir",
                                        save, *flags, code=1)
                error = done.stderr.splitlines()[-1]
                for word in words:
                    self.assertIn(word, error)
                self.assertFalse(os.path.exists(save))
            self.run_program(VERIFY, "checkpoint", os.path.dirname(spoilt), code=1)

        def pattern(text):
            return lambda changed: setattr(changed["args"], "hybrid_layer_pattern", text)

        def move(name, other):
            return lambda changed: changed["model"].update({other: changed["model"].pop(name)})

        self.assertEqual(rank["args"].hybrid_layer_pattern, "*-*-*-*-")
        refused(pattern("M*-M*-M*-M*-"), "args: hybrid_layer_pattern: ", "M*-M*-")
        refused(pattern("*-*-*-*E"), "args: hybrid_layer_pattern: ")
        refused(pattern("*-*-*-*-/*-"), "args: hybrid_layer_pattern: ")
        refused(pattern("*-*-*-"), "expected 3 layers", "found 4")
        refused(pattern(None), "decoder.final_norm.weight")
        attention = "self_attention.linear_proj.weight"
        refused(move(f"decoder.layers.0.{attention}", f"decoder.layers.1.{attention}"),
                f"decoder.layers.1.{attention}: no rule knows this parameter")
        refused(move("decoder.final_norm.weight", "decoder.final_layernorm.weight"),
                "decoder.final_layernorm.weight")

    def test_local_layers_are_refused_beside_hybrid_names(self):
        done = self.run_program(UTIL, "--load-dir", oracle.path("mcore_gpt_tp1pp1_fp32"),
                                "--save-dir", os.path.join(self.folder, "none"), "--target-names",
                                "hybrid", "--saver-transformer-impl", "local", code=1)
        self.assertIn("--saver-transformer-impl local: expected transformer_engine", done.stderr)


if __name__ == "__main__":
    try:
        import megatron.core  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    if not os.path.isdir(oracle.ORACLE):
        print("skipped: no shared folder with checkpoints of the real Megatron-LM")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
