#!/usr/bin/env python3
"""pretrain_gpt --softmax-type: runs on any ranks, their checkpoints in other layouts and formats, what is refused.

softmax_type_test.py PRETRAIN_GPT VERIFY CHECKPOINT_UTIL GENERATE
"""

import json
import os
import sys
import unittest

from launched_ranks import ORACLE, LaunchedRanks, RankProcesses

PRETRAIN, VERIFY, CHECKPOINT_UTIL, GENERATE = (os.path.abspath(path) for path in sys.argv[1:5])
WITHOUT_DROPOUT = "--attention-dropout 0 --hidden-dropout 0".split()
TWO_RANKS = "--tensor-model-parallel-size 2 --sequence-parallel".split()
LEARNABLE = "--softmax-type learnable".split()


class SoftmaxTypes(LaunchedRanks):
    program = PRETRAIN

    def reshape(self, load, name, *flags):
        self.run_program(CHECKPOINT_UTIL, "--load-dir", load, "--save-dir", self.folder / name, *flags)
        return self.folder / name

    def test_ranks_train_as_one(self):
        flags = [*WITHOUT_DROPOUT, "--train-iters", 3]
        found = [self.curves("vanilla", 1, *flags)["lm loss"]]
        for name in ("off-by-one", "learnable"):
            with self.subTest(name):
                of_type = [*flags, "--softmax-type", name]
                alone = self.curves(name, 1, *of_type)
                self.expect_near(self.curves(name, 2, *of_type, *TWO_RANKS), alone, 3)
                self.expect_near(self.curves(name, 2, *of_type, "--pipeline-model-parallel-size", 2), alone, 3)
                self.assertEqual(self.curves(name, 1, *of_type, "--recompute-activations"), alone)
                self.assertNotIn(alone["lm loss"], found)
                found.append(alone["lm loss"])

    def test_checkpoints_go_to_other_layouts_and_formats_and_back(self):
        for form in ("torch", "torch_dist"):
            with self.subTest(form):
                straight, parts = self.save_in_parts(form, 1, *LEARNABLE, "--ckpt-format", form)
                self.run_program(VERIFY, "diff", straight, parts)
                two = self.reshape(straight, f"{form}-two", "--target-tensor-parallel-size", 2,
                                   "--target-pipeline-parallel-size", 2, "--target-format", "torch")
                one = self.reshape(two, f"{form}-one", "--target-tensor-parallel-size", 1,
                                   "--target-pipeline-parallel-size", 1)
                dist = self.reshape(two, f"{form}-dist", "--target-format", "torch_dist")
                for other in (two, one, dist):
                    self.run_program(VERIFY, "diff", straight, other)
                flags = [*LEARNABLE, *WITHOUT_DROPOUT, "--train-iters", 6, "--override-opt_param-scheduler"]
                expected = self.curves("alone", 1, *flags, "--load", straight)
                self.expect_near(self.curves("two", 2, *flags, *TWO_RANKS, "--load", two), expected, 2)

    def test_ranks_generate_as_one(self):
        save = self.save("save", 1, *LEARNABLE, "--train-iters", 2, "--init-method-std", 0.5)
        command = [GENERATE, "--load", str(save), "--vocab-file", "gpt2-vocab.json", "--merge-file", "gpt2-merges.txt",
                   *"--device cpu --prompts Hello --tokens-to-generate 8 --greedy --logprobs --ignore-eod".split()]
        alone, both = (self.generated(ranks, [*command, "--tensor-model-parallel-size", str(ranks)]) for ranks in (1, 2))
        self.assertGreater(len(set(alone["ids"])), 1)
        self.assertEqual(both["ids"], alone["ids"])
        for one, other in zip(both["logprobs"], alone["logprobs"], strict=True):
            self.assertAlmostEqual(one, other, delta=2e-4)

    def generated(self, ranks, command):
        codes, written = RankProcesses.end(RankProcesses(self).start(ranks, command, cwd=ORACLE))
        self.assertEqual(set(codes), {0}, written)
        return json.loads(written[0][0])

    def test_each_head_has_a_parameter(self):
        """Of which four layers of four heads have 16."""
        counts = [self.parameters(self.train(1, "--train-iters", 1, *flags)) for flags in ([], LEARNABLE)]
        self.assertEqual(counts[1] - counts[0], 16)

    def parameters(self, out):
        return int(out.split("number of parameters on (tensor, pipeline) model parallel rank (0, 0): ")[1].split()[0])

    def test_another_softmax_than_the_checkpoints_is_refused(self):
        save = self.save("save", 1, *LEARNABLE, "--train-iters", 1)
        self.expect_refused(1, f"--load {save}", "args: softmax_type: expected \"vanilla\", found \"learnable\"")
        self.expect_refused(1, f"--load {save} --softmax-type off-by-one",
                            "softmax_type: expected \"off-by-one\", found \"learnable\"")
        self.expect_refused(1, "--softmax-type learnable --init-method-xavier-uniform",
                            "init_method_xavier_uniform: cannot be combined with softmax_type learnable")


if __name__ == "__main__":
    if not ORACLE.is_dir():
        print(f"skipped: {ORACLE} is missing")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
