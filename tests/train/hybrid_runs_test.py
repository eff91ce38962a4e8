#!/usr/bin/env python3
"""pretrain_gpt with the layers of a HybridModel (--hybrid-layer-pattern): it trains as the GPT model that it is, saves
what megatron-core 0.19.2's HybridModel loads, and goes on from checkpoints of either model.

hybrid_runs_test.py PRETRAIN_GPT VERIFY [judge FILE]
"""

import os
import sys
import unittest

from launched_ranks import LaunchedRanks

INTEROP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop")
sys.path.append(INTEROP)
os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
NEWER = os.path.join(os.environ.get("MEG_DEPS", os.path.expanduser("~/.cache/libmeg")), "megatron-core-0.19.2")
PATTERN = "--num-layers 8 --hybrid-layer-pattern *-*-*-*-".split()
WITHOUT_DROPOUT = "--attention-dropout 0 --hidden-dropout 0".split()


def judge(hybrid_file, gpt_file):
    """HybridModel takes every name and shape, and computes what the GPT model of the other file does."""
    import torch

    from megatron_core import hybrid_models, models
    from megatron_core.ranks import logits_of
    models.start_without_gpu()
    found = {}
    for name, path in ("hybrid", hybrid_file), ("gpt", gpt_file):
        rank = torch.load(path, weights_only=False)
        args = rank["args"]
        if name == "hybrid":
            assert (args.num_layers, args.hybrid_layer_pattern) == (8, "*-*-*-*-"), args
            args.num_layers = 4
            model = hybrid_models.make_model(args)
        else:
            assert (args.num_layers, args.hybrid_layer_pattern) == (4, None), args
            model = models.make_model(args)
        model.load_state_dict(rank["model"], strict=True)
        found[name] = logits_of(model.eval())
    assert torch.allclose(found["hybrid"], found["gpt"], rtol=0, atol=1e-5), "logits"
    print("equal")


class HybridRuns(LaunchedRanks):
    program = os.path.abspath(sys.argv[1])

    def rank_file(self, folder, iteration):
        return folder / f"iter_{iteration:07}" / "mp_rank_00" / "model_optim_rng.pt"

    def expect_same_state(self, *folders):
        self.run_program(VERIFY, "diff", *folders)

    def test_trains_as_the_gpt_model_that_it_is(self):
        flags = "--train-iters 3".split()
        gpt = self.train(1, *flags, "--save", self.folder / "gpt")
        hybrid = self.train(1, *flags, *PATTERN, "--save", self.folder / "hybrid")
        self.assertEqual(len(self.losses(gpt)), 3)
        self.assertEqual(self.losses(hybrid), self.losses(gpt))
        self.expect_same_state(self.folder / "hybrid", self.folder / "gpt")
        if not os.path.isdir(NEWER):
            self.skipTest(f"{NEWER} is not there: scripts/setup.sh unpacks it")
        from megatron_core.processes import run_package
        done = run_package([sys.executable, "-W", "ignore", os.path.abspath(__file__), *sys.argv[1:3], "judge",
                            self.rank_file(self.folder / "hybrid", 3), self.rank_file(self.folder / "gpt", 3)],
                           env={**os.environ, "PYTHONPATH": os.pathsep.join([NEWER, INTEROP])})
        self.assertEqual((done.returncode, done.stdout.split()[-1:]), (0, ["equal"]), done.stderr[-3000:])

    def test_goes_on_from_checkpoints_of_either_model(self):
        flags = ["--train-iters", 4]
        gpt = self.save("gpt", 1, *flags, "--save-interval", 2)
        hybrid = self.save("hybrid", 1, *flags, *PATTERN, "--save-interval", 2)
        self.expect_same_state(hybrid, gpt)
        second = ["--ckpt-step", 2, "--load"]
        self.expect_same_state(self.save("from-gpt", 1, *flags, *PATTERN, *second, gpt), gpt)
        self.expect_same_state(self.save("to-gpt", 1, *flags, *second, hybrid), gpt)
        # A run that takes the model from a checkpoint saves such a model again.
        for source, names in (hybrid, "hybrid"), (gpt, "mcore"):
            same = self.save(f"same-{names}", 1, *flags, *second, source, "--use-checkpoint-args")
            self.expect_same_state(same, gpt)
            self.assertRegex(self.run_program(VERIFY, "checkpoint", same), rf"\b{names}\b")

    def test_segments_are_pipeline_stages(self):
        flags = [*WITHOUT_DROPOUT, "--train-iters", 2]
        alone = self.curves("alone", 1, *flags)
        for name, flag, ranks in (("uneven", "*-|*-*-*-", 2), ("chunks", "*-|*-|*-|*-", 2), ("even", "*-*-*-*-", 2)):
            with self.subTest(name):
                layers = ["--num-layers", "8", "--hybrid-layer-pattern", flag, "--pipeline-model-parallel-size", "2"]
                self.expect_near(self.curves(name, ranks, *flags, *layers, "--save", self.folder / f"save-{name}"),
                                 alone, 2)
                saved = str(self.folder / f"save-{name}")
                shown = self.run_program(VERIFY, "checkpoint", saved)
                self.assertIn("hybrid", shown)
                # It goes on in the same segments, and where there are none.
                more = ["--train-iters", 3, "--load", saved, "--override-opt_param-scheduler"]
                self.train(ranks, *flags, *layers, *more)
                self.train(1, *flags, *PATTERN, *more)

    def test_refuses_other_layers_by_name(self):
        for flags, error in (
                ("--hybrid-layer-pattern M*-", "--hybrid-layer-pattern: expected alternating attention and MLP"),
                ("--num-layers 8 --hybrid-layer-pattern *-*-*-*-/**", "--hybrid-layer-pattern: expected alternating"),
                ("--num-layers 6 --hybrid-layer-pattern *-*-", "--num-layers: expected 4, the layers of"),
                ("--num-layers 4 --hybrid-layer-pattern *E*E", "experts (E) need --num-experts"),
                ("--is-hybrid-model", "--is-hybrid-model: expected --hybrid-layer-pattern, found none"),
                ("--num-layers 4 --hybrid-layer-pattern *-*- --hybrid-override-pattern *-*-", "cannot be combined"),
                ("--num-layers 4 --hybrid-layer-pattern *-|*-", "expected 1 pipeline segment"),
                ("--num-layers 4 --hybrid-layer-pattern *-*- --pipeline-model-parallel-layout Ett|ttL",
                 "--pipeline-model-parallel-layout: cannot be combined with --hybrid-layer-pattern"),
                ("--num-layers 4 --hybrid-layer-pattern *-*- --use-legacy-models", "--use-legacy-models")):
            with self.subTest(flags):
                codes, out, err = self.end(self.start(1, "--train-iters", 1, *flags.split()))
                self.assertNotIn(0, codes, out)
                self.assertEqual(len(self.errors(err)), 1, err)
                self.assertIn(error, self.errors(err)[0])


if __name__ == "__main__":
    VERIFY = os.path.abspath(sys.argv[2])
    if sys.argv[3:4] == ["judge"]:
        judge(*sys.argv[4:6])
        sys.exit(0)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
