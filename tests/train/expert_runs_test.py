#!/usr/bin/env python3
"""pretrain_gpt with mixtures of experts: layers that differ, expert biases and full experts, saved, gone on with and
shared among ranks; megatron-core computes what it saves.

expert_runs_test.py PRETRAIN_GPT VERIFY CHECKPOINT_UTIL
"""

import os
import re
import sys
import unittest

from launched_ranks import ORACLE, LaunchedRanks

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop"))
os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
EXPERTS = ("--num-experts 4 --moe-ffn-hidden-size 24 --moe-router-topk 2 --disable-bias-linear --no-bias-gelu-fusion "
           "--moe-layer-freq [0,1]*2 --moe-router-score-function sigmoid --moe-router-enable-expert-bias "
           "--moe-router-bias-update-rate 0.01 --attention-dropout 0 --hidden-dropout 0").split()
LOSSES = "--moe-aux-loss-coeff 0.1 --moe-z-loss-coeff 0.001 --moe-router-load-balancing-type".split()


class ExpertRuns(LaunchedRanks):
    program = os.path.abspath(sys.argv[1])

    def expect_same_state(self, *folders):
        self.run_program(VERIFY, "diff", *folders)

    def rank_file(self, folder, iteration):
        import torch
        return torch.load(folder / f"iter_{iteration:07}" / "mp_rank_00" / "model_optim_rng.pt", weights_only=False)

    def test_goes_on_where_it_stopped(self):
        for form in "torch", "torch_dist":
            self.expect_same_state(*self.save_in_parts(form, 1, *EXPERTS, "--ckpt-format", form))
        self.expect_same_state(self.folder / "torch-parts", self.folder / "torch_dist-parts")
        saved = self.rank_file(self.folder / "torch-straight", 4)
        self.assertEqual(saved["args"].moe_layer_freq, [0, 1, 0, 1])
        biases = {name: tensor for name, tensor in saved["model"].items() if name.endswith("expert_bias")}
        self.assertEqual(list(biases), [f"decoder.layers.{layer}.mlp.router.expert_bias" for layer in (1, 3)])
        for bias in biases.values():
            self.assertEqual(str(bias.dtype), "torch.float32")
            self.assertTrue(((bias / 0.01) - (bias / 0.01).round()).abs().max() < 1e-4, bias)
            self.assertGreater(bias.abs().max().item(), 0.005)

    def test_megatron_core_computes_what_is_saved(self):
        import torch

        from megatron_core import models as core
        from megatron_core.ranks import logits_of
        core.start_without_gpu()
        saved = self.rank_file(self.save("core", 1, *EXPERTS, "--train-iters", 2), 2)
        model = core.make_model(saved["args"])
        model.load_state_dict(saved["model"], strict=True)
        self.assertTrue(torch.isfinite(logits_of(model.eval())).all())
        # In the names of Transformer Engine the norm before experts is no part of a matrix.
        named = self.rank_file(self.save("named", 1, *EXPERTS, "--train-iters", 1, "--transformer-impl",
                                         "transformer_engine"), 1)["model"]
        for layer, name in (0, "mlp.linear_fc1.layer_norm_weight"), (1, "pre_mlp_layernorm.weight"):
            norms = [key for key in named if key.startswith(f"decoder.layers.{layer}.") and "norm_weight" in key
                     or key == f"decoder.layers.{layer}.pre_mlp_layernorm.weight"]
            self.assertIn(f"decoder.layers.{layer}.{name}", norms)
            self.assertEqual(len(norms), 2, norms)

    def test_ranks_compute_what_one_computes(self):
        flags = [*EXPERTS, *LOSSES, "global_aux_loss", "--train-iters", 3]
        alone = self.curves("alone", 1, *flags, "--save", self.folder / "save-alone")
        for name, layout in (("stages", "--pipeline-model-parallel-size 2"), ("copies", ""),
                             ("shares", "--use-distributed-optimizer")):
            with self.subTest(name):
                saved = self.folder / f"save-{name}"
                losses = flags if name == "stages" else [*EXPERTS, "--train-iters", 3]
                if name == "copies":
                    alone = self.curves("without", 1, *losses, "--save", self.folder / "save-without")
                self.expect_near(self.curves(name, 2, *losses, *layout.split(), "--save", saved), alone, 3)
                # The counts of all ranks' tokens move the biases.
                merged = self.folder / f"merged-{name}"
                self.run_program(UTIL, "--load-dir", saved, "--save-dir", merged,
                                 "--target-pipeline-parallel-size", 1)
                found = self.rank_file(merged, 3)["model"]
                wanted = self.rank_file(self.folder / ("save-alone" if name == "stages" else "save-without"), 3)["model"]
                for key in wanted:
                    if key.endswith("expert_bias"):
                        self.assertEqual(found[key].tolist(), wanted[key].tolist())

    def test_patterns_name_the_layers_with_experts(self):
        flags = [*EXPERTS, "--train-iters", 2]
        gpt = self.save("gpt", 1, *flags)
        layers = ["--num-layers", 8, "--hybrid-layer-pattern", "*-*E*-*E", "--moe-layer-freq", 1]
        hybrid = self.save("hybrid", 1, *flags, *layers)
        self.expect_same_state(hybrid, gpt)
        self.assertEqual(self.rank_file(hybrid, 2)["args"].hybrid_layer_pattern, "*-*E*-*E")
        back = self.folder / "back"
        self.run_program(UTIL, "--load-dir", hybrid, "--save-dir", back, "--target-names", "mcore")
        self.expect_same_state(back, gpt)
        self.assertEqual(self.rank_file(back, 2)["args"].moe_layer_freq, [0, 1, 0, 1])
        more = ["--train-iters", 3, "--override-opt_param-scheduler", "--load"]
        self.expect_same_state(self.save("more", 1, *EXPERTS, *more, hybrid),
                               self.save("more-of-gpt", 1, *EXPERTS, *more, gpt))

    def test_logs_the_losses_that_balance(self):
        for kind, name in (("aux_loss", "load_balancing_loss"), ("seq_aux_loss", "seq_load_balancing_loss"),
                           ("global_aux_loss", "global_load_balancing_loss")):
            out = self.train(1, *EXPERTS, *LOSSES, kind, "--train-iters", 1)
            losses = dict(re.findall(r" (\w+_loss): ([\d.E+-]+) \|", out))
            self.assertEqual(set(losses), {name, "z_loss"})
            # Of equally loaded experts it is 1.
            self.assertGreater(float(losses[name]), 0.9)
            self.assertLess(float(losses[name]), 2.0)

    def test_drops_what_does_not_fit(self):
        kept = self.losses(self.train(1, *EXPERTS, "--train-iters", 2))
        dropped = self.losses(self.train(1, *EXPERTS, "--train-iters", 2, "--moe-expert-capacity-factor", 0.5))
        padded = self.losses(self.train(1, *EXPERTS, "--train-iters", 2, "--moe-expert-capacity-factor", 0.5,
                                        "--moe-pad-expert-input-to-capacity"))
        none = self.losses(self.train(1, *EXPERTS, "--train-iters", 2, "--moe-expert-capacity-factor", -1))
        self.assertEqual(kept, none)
        self.assertEqual(dropped[0], padded[0])
        self.assertNotEqual(kept, dropped)

    def test_refuses_by_name(self):
        for flags, error in (
                ("--moe-layer-freq [1]*3", "moe_layer_freq: expected a number or a list of 0 or 1 for each of 4 layers"),
                ("--moe-router-score-function softmax", "moe_router_enable_expert_bias: expected "
                                                        "moe_router_score_function sigmoid with it"),
                ("--moe-router-topk 5", "moe_router_topk: expected at most the 4 experts"),
                ("--moe-pad-expert-input-to-capacity", "moe_pad_expert_input_to_capacity: expected "
                                                       "moe_expert_capacity_factor with it"),
                ("--moe-router-load-balancing-type sinkhorn", "moe_router_load_balancing_type sinkhorn: not supported"),
                ("--moe-input-jitter-eps 0.1", "--moe-input-jitter-eps"),
                ("--moe-token-drop-policy random", "--moe-token-drop-policy")):
            with self.subTest(flags):
                codes, out, err = self.end(self.start(1, "--train-iters", 1, *EXPERTS, *flags.split()))
                self.assertNotIn(0, codes, out)
                self.assertEqual(len(self.errors(err)), 1, err)
                self.assertIn(error, self.errors(err)[0])


if __name__ == "__main__":
    VERIFY, UTIL = (os.path.abspath(word) for word in sys.argv[2:4])
    if not ORACLE.exists():
        print(f"skipped: not found: {ORACLE}", file=sys.stderr)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
