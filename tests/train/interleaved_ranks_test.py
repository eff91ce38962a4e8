#!/usr/bin/env python3
"""pretrain_gpt with virtual pipeline stages: it trains as one rank does, saves model0, model1 ..., and a
run goes on from that at any shape.

interleaved_ranks_test.py PRETRAIN_GPT VERIFY CHECKPOINT_UTIL CHECKPOINT_INSPECT GENERATE
"""

import json
import os
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop"))

from launched_ranks import ORACLE, LaunchedRanks

try:
    from reference import files as reference_files
    from reference import reshape as reference
    import torch
    import tensorboard  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:6]]
PRETRAIN, VERIFY, CHECKPOINT_UTIL, INSPECT, GENERATE = PROGRAMS
WITHOUT_DROPOUT = "--attention-dropout 0 --hidden-dropout 0".split()
PP2 = "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1".split()
# Ranks and flags, those of the model that one rank trains, too, first.
SHAPES = ((2, "", "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1"),
          (2, "--num-layers 6 --global-batch-size 12 --calculate-per-token-loss",
           "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 3 "
           "--microbatch-group-size-per-virtual-pipeline-stage 4"),
          (4, "--num-layers 8",
           "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 1"),
          (4, "--untie-embeddings-and-output-weights",
           "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
           "--tensor-model-parallel-size 2 --sequence-parallel"),
          (4, "", "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
           "--use-distributed-optimizer --recompute-granularity full --recompute-method uniform"))


class InterleavedRanks(LaunchedRanks):
    program = PRETRAIN

    def test_virtual_stages_train_as_one_rank_does(self):
        steps = 10
        expected = {}
        for number, (ranks, of_model, shape) in enumerate(SHAPES):
            with self.subTest(of_model=of_model, shape=shape):
                flags = [*of_model.split(), *WITHOUT_DROPOUT, "--train-iters", steps,
                         "--eval-interval", 10]
                if of_model not in expected:
                    expected[of_model] = self.curves(f"alone{number}", 1, *flags)
                found = self.curves(f"ranks{number}", ranks, *flags, *shape.split())
                self.expect_near(found, expected[of_model], steps)

    def test_rank_files_hold_a_model_of_each_virtual_stage(self):
        saved = self.save("save", 2, *PP2, "--train-iters", 2)
        files = reference_files.load_ranks(str(saved))
        for stage, ends in ((0, ["word_embeddings", "position_embeddings"]), (1, [])):
            rank = files[0, stage]
            self.assertEqual([key for key in rank if key.startswith("model")], ["model0", "model1"])
            self.assertEqual(rank["args"].virtual_pipeline_model_parallel_size, 2)
            self.assertEqual(rank["args"].num_layers_per_virtual_pipeline_stage, 1)
            self.assertEqual([key.split(".")[1] for key in rank["model0"] if "embeddings" in key], ends)
            for chunk in ("model0", "model1"):
                layers = {key.split(".")[2] for key in rank[chunk] if ".layers." in key}
                self.assertEqual(layers, {"0"})
        merged = reference.merge(str(saved))
        # The same parameters and moments by libmeg's own reader, in a checkpoint of one rank.
        whole = self.folder / "whole"
        self.run_program(CHECKPOINT_UTIL, "--model-type", "GPT", "--load-dir", saved, "--save-dir", whole,
                         "--target-tensor-parallel-size", 1, "--target-pipeline-parallel-size", 1)
        again = reference.merge(str(whole))
        self.assertEqual(set(again.tensors), set(merged.tensors))
        for name, kinds in merged.tensors.items():
            self.assertEqual(set(kinds), {"weight", "exp_avg", "exp_avg_sq"})
            for kind, tensor in kinds.items():
                self.assertTrue(torch.equal(again.tensors[name][kind], tensor), (name, kind))
        self.run_program(VERIFY, "checkpoint", saved)
        self.run_program(VERIFY, "diff", saved, whole)
        summary = json.loads(self.run_program(INSPECT, saved, "--json"))
        self.assertEqual(summary["virtual_pipeline_model_parallel_size"], 2)
        self.expect_same_text(saved, whole)

    def expect_same_text(self, *checkpoints):
        texts = [self.run_program(GENERATE, "--load", checkpoint, "--vocab-file", "gpt2-vocab.json",
                                  "--merge-file", "gpt2-merges.txt", "--prompts", "a",
                                  "--tokens-to-generate", 8, "--device", "cpu")
                 for checkpoint in checkpoints]
        self.assertEqual(texts[0], texts[1])
        self.assertTrue(texts[0])

    def test_a_run_goes_on_at_any_shape(self):
        plain, dist = [], ["--ckpt-format", "torch_dist"]
        words = [*WITHOUT_DROPOUT, "--train-iters", 4]
        expected = self.curves("straight", 1, *words)
        last = {tag: values[2:] for tag, values in expected.items() if tag != "lm loss validation"}
        shapes = {"one": (1, []), "pp2": (2, ["--pipeline-model-parallel-size", 2]), "vpp2": (2, PP2),
                  "vpp2dp2": (4, [*PP2, "--use-distributed-optimizer"])}
        for first, form, ways in (("vpp2", plain, ("one", "vpp2dp2")), ("vpp2", dist, ("pp2",)),
                                  ("pp2", plain, ("vpp2",)), ("one", dist, ("vpp2",)),
                                  ("vpp2dp2", dist, ("vpp2",))):
            ranks, shape = shapes[first]
            name = f"{first}-{len(form)}"
            saved = self.save(name, ranks, *shape, *form, *words, "--exit-interval", 2)
            for then in ways:
                with self.subTest(first=first, form=form, then=then):
                    ranks, shape = shapes[then]
                    found = self.curves(f"{name}-{then}", ranks, *shape, *words, "--load", saved)
                    self.expect_near(found, last, 2)

    def test_a_resumed_run_is_the_straight_one_to_the_bit(self):
        """With dropout, whose states all virtual stages of a rank share."""
        for ranks, shape in ((2, [*PP2, "--bf16"]),
                             (4, [*PP2, "--use-distributed-optimizer", "--ckpt-format", "torch_dist"])):
            with self.subTest(shape=shape):
                self.run_program(VERIFY, "diff", *self.save_in_parts(ranks, ranks, *shape))

    def test_virtual_stages_draw_masks_of_their_own(self):
        """Were each virtual stage to begin with the rank's seed, its masks would be those of the first."""
        flags = ["--train-iters", 1, "--hidden-dropout", 0, "--attention-dropout", 0.5]
        losses = {tuple(self.losses(self.train(ranks, *flags, *shape)))
                  for ranks, shape in ((2, ["--pipeline-model-parallel-size", 2]), (2, PP2))}
        self.assertEqual(len(losses), 2)

    def test_what_megatron_refuses_is_refused_by_name(self):
        pp2 = "--pipeline-model-parallel-size 2 "
        layers, stages = ("--num-layers-per-virtual-pipeline-stage ",
                          "--num-virtual-stages-per-pipeline-rank ")
        self.expect_refused(1, stages + "2", "pipeline-model-parallel-size: 1 with 2 virtual stages each: "
                            "expected at least 2")
        self.expect_refused(2, pp2 + layers + "1 --global-batch-size 6", "--global-batch-size: expected a "
                            "number of micro-batches that is a multiple of the 2 pipeline stages")
        self.expect_refused(2, pp2 + layers + "3",
                            layers.strip() + ": expected a divisor of the 2 layers of a stage, found 3")
        self.expect_refused(2, pp2 + stages + "3",
                            stages.strip() + ": expected a divisor of the 2 layers of a stage, found 3")
        self.expect_refused(2, pp2 + layers + "1 " + stages + "2", "cannot be combined")

    def test_one_virtual_stage_is_none(self):
        flags = ["--train-iters", 1, "--pipeline-model-parallel-size", 2]
        saved = self.save("save", 2, *flags, "--num-virtual-stages-per-pipeline-rank", 1)
        self.assertIn("model", reference_files.load_ranks(str(saved))[0, 0])


if __name__ == "__main__":
    if not ORACLE.is_dir():
        print(f"skipped: {ORACLE} is missing")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[6:])
