#!/usr/bin/env python3
"""pretrain_gpt on ranks that share experts: like one rank that has them all, resumed on others.

expert_ranks_test.py PRETRAIN_GPT VERIFY GENERATE CHECKPOINT_UTIL [unittest arguments]
MEG_EXPERT_SHAPES=all in the environment adds divisions whose parts others have.
"""

import json
import os
import re
import sys
import unittest

from launched_ranks import ORACLE, ROOT, LaunchedRanks, RankProcesses

sys.path.append(str(ROOT / "tests/interop"))

VERIFY = GENERATE = UTIL = ""
EXPERTS = ("--num-layers 2 --num-experts 4 --moe-ffn-hidden-size 24 --swiglu --disable-bias-linear "
           "--moe-shared-expert-intermediate-size 16 --moe-shared-expert-gate "
           "--moe-router-load-balancing-type aux_loss seq_aux_loss --moe-aux-loss-coeff 0.1 0.2 "
           "--moe-z-loss-coeff 0.01 --untie-embeddings-and-output-weights "
           "--attention-dropout 0 --hidden-dropout 0").split()
TAGS = ("lm loss", "grad-norm", "lm loss validation", "load_balancing_loss",
        "seq_load_balancing_loss", "z_loss", "params-norm")
# Ranks and flags.
EP2 = (2, "--expert-model-parallel-size 2")
TP2 = " --tensor-model-parallel-size 2 --sequence-parallel "
TP4 = TP2.replace("2", "4")
DISTRIBUTED = " --use-distributed-optimizer "
OVERLAPPED = DISTRIBUTED + "--overlap-grad-reduce --overlap-param-gather"
SHAPES = {
    "EP2 of 4 copies, distributed": (4, EP2[1] + OVERLAPPED),
    "EP2 x TP2": (4, EP2[1] + TP2),
    "EP2 over TP2": (2, EP2[1] + TP2 + "--expert-tensor-parallel-size 1"),
    "EP2 over TP4": (4, EP2[1] + TP4 + "--expert-tensor-parallel-size 2"),
    "EP2 x PP2": (4, EP2[1] + " --pipeline-model-parallel-size 2"),
}
MORE_SHAPES = {
    "EP2 in buckets": (2, EP2[1] + OVERLAPPED + " --ddp-bucket-size 500"),
    "EP2 of 4 copies": (4, EP2[1]),
    "TP2": (2, TP2),
    "TP2 with a copy of the experts each": (2, TP2 + "--expert-tensor-parallel-size 1" + DISTRIBUTED),
    "EP2 x PP2 x TP2": (8, EP2[1] + TP2 + " --pipeline-model-parallel-size 2" + DISTRIBUTED),
    "TP4 with two copies of experts split by 2": (4, TP4 + "--expert-tensor-parallel-size 2" + DISTRIBUTED),
    "EP4": (4, "--expert-model-parallel-size 4" + DISTRIBUTED),
}


class ExpertRanks(LaunchedRanks):
    tags = TAGS

    def experts(self, *flags):
        return [*EXPERTS, "--log-params-norm", *flags]

    def expect_near_one_rank(self, shapes, flags, steps=3):
        flags = [*flags, "--train-iters", steps]
        expected = self.curves("one", 1, *flags)
        for name, (ranks, shape) in shapes.items():
            with self.subTest(name):
                self.expect_near(self.curves(name, ranks, *flags, *shape.split()), expected, steps)

    def test_ranks_that_share_experts_are_like_one(self):
        more = MORE_SHAPES if os.environ.get("MEG_EXPERT_SHAPES") == "all" else {}
        self.expect_near_one_rank(SHAPES | more, self.experts())

    def test_biases_are_those_of_their_experts(self):
        # Megatron's shared experts have none.
        left_out = ("--disable-bias-linear", "--moe-shared-expert-gate", "--moe-shared-expert-intermediate-size", "16")
        flags = [flag for flag in self.experts() if flag not in left_out]
        self.expect_near_one_rank({"EP2": EP2}, flags, steps=2)

    def test_global_losses_are_those_of_all_tokens(self):
        self.tags = ("lm loss", "grad-norm", "global_load_balancing_loss", "z_loss", "params-norm")
        flags = self.experts("--moe-router-load-balancing-type", "global_aux_loss", "--moe-aux-loss-coeff")
        self.expect_near_one_rank({"TP2": (2, TP2), "EP2 over TP2": SHAPES["EP2 over TP2"]}, [*flags, 0.1])
        # Copies balance each micro-batch of all of them; the gradients of their parts are averaged.
        ranks, shape = SHAPES["EP2 x TP2"]
        steps = ("--train-iters", 3)
        expected = self.curves("one", 1, *flags, 0.1, *steps, "--micro-batch-size", 8)
        found = self.curves("copies", ranks, *flags, 0.2, *steps, "--micro-batch-size", 4, *shape.split())
        self.expect_near(found, expected, 3)

    def test_biases_of_routers_follow_the_tokens_of_all_ranks(self):
        self.tags = ("lm loss", "grad-norm", "params-norm")
        flags = self.experts("--moe-aux-loss-coeff", 0, 0, "--moe-router-score-function", "sigmoid",
                             "--moe-router-enable-expert-bias", "--moe-router-bias-update-rate", 0.3)
        self.expect_near_one_rank({"TP2": (2, TP2)} | {name: SHAPES[name] for name in ("EP2 over TP2", "EP2 x TP2")}, flags)

    def test_virtual_stages_share_experts(self):
        shape = EP2[1] + " --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2"
        self.expect_near_one_rank({"EP2 x PP2 x VPP2": (4, shape)}, self.experts("--num-layers", 4), steps=2)

    def test_half_precision_recomputation_and_losses_of_tokens(self):
        flags = self.experts("--train-iters", 2, "--calculate-per-token-loss", "--bf16",
                             "--recompute-granularity", "full", "--recompute-method", "uniform",
                             "--recompute-num-layers", 1)
        expected = self.curves("one", 1, *flags)
        ranks, shape = SHAPES["EP2 over TP2"]
        found = self.curves("shared", ranks, *flags, *shape.split())
        for tag in TAGS:
            for one, other in zip(found[tag], expected[tag], strict=True):
                self.assertAlmostEqual(one / other, 1, delta=2e-2, msg=tag)

    def test_what_ranks_saved_goes_on_anywhere(self):
        ranks, shape = EP2
        straight = self.curves("straight", 1, *self.experts("--train-iters", 4))
        saving = self.experts("--train-iters", 4, "--exit-interval", 2, *shape.split())
        saved = {form: self.save(form, ranks, *saving, "--ckpt-format", form)
                 for form in ("torch", "torch_dist")}
        self.run_program(VERIFY, "diff", saved["torch"], saved["torch_dist"])
        names = sorted(path.name for path in (saved["torch"] / "iter_0000002").iterdir())
        self.assertEqual(names[:2], ["mp_rank_00_000", "mp_rank_00_001"])
        for number, (of, (ranks, shape)) in enumerate((
                ("torch", (1, "")), ("torch_dist", (2, TP2)), ("torch_dist", SHAPES["EP2 over TP2"]))):
            with self.subTest(of=of, shape=shape):
                found = self.curves(f"further{number}", ranks, *self.experts(
                    "--train-iters", 4, "--load", saved[of],
                    *shape.split()))
                self.expect_near(found, {tag: values[-len(found[tag]):]
                                         for tag, values in straight.items()}, 2)

    def test_texts_are_those_of_one_rank(self):
        ranks, shape = EP2
        saved = self.save("saved", ranks, *self.experts("--train-iters", 2, *shape.split()))
        prompts = self.folder / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"text": text}) + "\n" for text in ("Hello", "one two three")))
        command = [GENERATE, "--load", saved, "--prompt-file", prompts, "--tokens-to-generate", 8,
                   "--greedy", "--logprobs", "--ignore-eod", "--device", "cpu"]
        # Flags of the training: each copy of the model has all experts.
        shapes = {"one": (1, shape), "two": (2, shape + " --tensor-model-parallel-size 2 --expert-tensor-parallel-size 1")}
        found = {}
        for name, (ranks, shape) in shapes.items():
            codes, written = RankProcesses.end(RankProcesses(self).start(
                ranks, [*command, *shape.split()], cwd=ORACLE))
            self.assertEqual(set(codes), {0}, written)
            found[name] = [json.loads(line) for line in written[0][0].splitlines()]
        for two, one in zip(found["two"], found["one"], strict=True):
            for here, there in zip(two["logprobs"], one["logprobs"], strict=True):
                self.assertAlmostEqual(here, there, delta=2e-5)

    def test_every_division_is_saved_whole(self):
        for number, name in enumerate(("EP2 over TP2", "EP2 over TP4", "EP2 x PP2")):
            with self.subTest(name):
                ranks, shape = SHAPES[name]
                saved = {form: self.save(f"{form}{number}", ranks, *self.experts(
                    "--train-iters", 1, "--ckpt-format", form, *shape.split()))
                    for form in ("torch", "torch_dist")}
                verified = {form: self.run_program(VERIFY, "checkpoint", folder) for form, folder in saved.items()}
                self.assertIn(", EP 2, ", verified["torch"])
                self.run_program(VERIFY, "diff", saved["torch"], saved["torch_dist"])
                self.expect_files_of_megatron(saved["torch"], number)

    def expect_files_of_megatron(self, saved, number):
        """As checkpoint_util makes them for the same ranks, which tests compare with megatron-core's."""
        import torch
        from reference.same import expect_same
        made = self.folder / f"made{number}"
        self.run_program(UTIL, "--load-dir", saved, "--save-dir", made)
        folders = [root / "iter_0000001" for root in (saved, made)]
        names = [sorted(path.name for path in folder.iterdir() if path.name.startswith("mp_rank"))
                 for folder in folders]
        self.assertEqual(*names)
        for name in names[0]:
            ours, theirs = (torch.load(folder / name / "model_optim_rng.pt", weights_only=False)
                            for folder in folders)
            for part in ("model", "optimizer"):
                expect_same(ours[part], theirs[part], f"{name} {part}")

    def test_a_resumed_run_is_the_straight_one_to_the_bit(self):
        shape = (*EXPERTS, "--expert-model-parallel-size", 2, "--use-distributed-optimizer", "--bf16",
                 "--hidden-dropout", 0.1)
        self.run_program(VERIFY, "diff", *self.save_in_parts("run", 2, *shape))

    def test_sizes_that_cannot_be_are_named_in_one_line(self):
        for ranks, flags, error in (
                (2, "--num-experts 3 --expert-model-parallel-size 2",
                 "expert_model_parallel_size: expected a divisor of the 3 experts (num_experts), found 2"),
                (2, "--expert-model-parallel-size 2", "--expert-model-parallel-size 2: requires --num-experts"),
                (2, "--num-experts 4 --tensor-model-parallel-size 2 --disable-bias-linear",
                 "--num-experts on 2 tensor-parallel ranks: requires --sequence-parallel"),
                (2, "--num-experts 4 --tensor-model-parallel-size 2 --sequence-parallel",
                 "add_bias_linear: expected expert_tensor_parallel_size 1"),
                (2, "--num-experts 4 --tensor-model-parallel-size 2 --sequence-parallel "
                 "--disable-bias-linear --moe-ffn-hidden-size 25", "moe_ffn_hidden_size 25"),
                (2, "--num-experts 4 --tensor-model-parallel-size 2 --sequence-parallel --save save "
                 "--expert-tensor-parallel-size 1", "--ckpt-format torch: expert_tensor_parallel_size 1 times")):
            with self.subTest(flags):
                codes, out, err = self.end(self.start(ranks, "--train-iters", 1, *flags.split()))
                self.assertEqual(set(codes), {1}, out + err)
                self.assertIn(error, err)
                self.assertLessEqual(len(self.errors(err)), ranks, err)

    def test_a_rank_that_is_killed_ends_the_others(self):
        processes = self.start(2, "--train-iters", 1000000, *EXPERTS, *EP2[1].split())
        for line in processes[1].stdout:  # the last rank prints them
            if re.search(" iteration +3/", line):
                break
        processes[0].kill()
        codes, out, err = self.end(processes)
        self.assertEqual(codes, [-9, 1], out + err)
        self.assertEqual(len(self.errors(err)), 1, err)


if __name__ == "__main__":
    if not ORACLE.is_dir():
        print(f"skipped: {ORACLE} is missing")
        sys.exit(77)
    ExpertRanks.program, VERIFY, GENERATE, UTIL = (os.path.abspath(path) for path in sys.argv[1:5])
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
