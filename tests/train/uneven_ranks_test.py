#!/usr/bin/env python3
"""pretrain_gpt with pipeline stages of different numbers of layers: it trains as one rank does, the real
megatron-core computes with each stage that is saved, and a run goes on from that at any shape.

uneven_ranks_test.py PRETRAIN_GPT VERIFY CHECKPOINT_UTIL
"""

import os
import shutil
import sys
import unittest

INTEROP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop")
sys.path.append(INTEROP)

from launched_ranks import ORACLE, LaunchedRanks

try:
    import tensorboard  # noqa: F401
    import torch
    from megatron.core import parallel_state
    from megatron.core.transformer import transformer_block, transformer_layer
    from megatron_core import models as core
    from megatron_core.processes import imported
    from reference import files as reference_files
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PRETRAIN, VERIFY, CHECKPOINT_UTIL = (os.path.abspath(path) for path in sys.argv[1:4])
WITHOUT_DROPOUT = "--attention-dropout 0 --hidden-dropout 0".split()
DIST = "--ckpt-format torch_dist --use-distributed-optimizer".split()
LAYOUT = "--pipeline-model-parallel-layout "
# Ranks, flags of the stages, and how many layers of four these hold, chunk by chunk.
FIRST = (2, "--pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 1", [[1], [3]])
PLACES = (3, "--pipeline-model-parallel-size 3 --account-for-embedding-in-pipeline-split "
             "--account-for-loss-in-pipeline-split", [[1], [2], [1]])
ALONE = (3, "--pipeline-model-parallel-size 3 " + LAYOUT + "E|t*4|L", [[0], [4], [0]])
NOTHING = (3, "--pipeline-model-parallel-size 3 " + LAYOUT + "E||t*4L", [[0], [0], [4]])
EMPTY_CHUNK = (2, "--pipeline-model-parallel-size 2 " + LAYOUT + "Ett||t|tL", [[2, 1], [0, 1]])
LAST = (4, "--pipeline-model-parallel-size 2 --decoder-last-pipeline-num-layers 2 "
           "--num-virtual-stages-per-pipeline-rank 2 --use-distributed-optimizer "
           "--overlap-grad-reduce --ddp-bucket-size 5000", [[1, 1], [1, 1]])


def tokens():
    return torch.randint(0, 250, (2, 16), generator=torch.Generator().manual_seed(1))


class Pipeline:
    """Stages of megatron-core in one process."""

    def __init__(self, files):
        self.stages = max(stage for _, stage in files) + 1
        self.args = files[0, 0]["args"]
        self.virtual = self.args.virtual_pipeline_model_parallel_size
        self.models = {}
        for chunk in range(self.virtual or 1):
            for stage in range(self.stages):
                self.models[chunk, stage] = self.made(files[0, stage], chunk, stage)

    def made(self, state, chunk, stage):
        """megatron-core's own model of this chunk, which takes the file's names and shapes as they are."""
        self.enter(stage)
        last = (self.stages - 1, (self.virtual or 1) - 1)
        model = core.make_model(self.args, (stage, chunk) == (0, 0), (stage, chunk) == last,
                                parallel_output=False, vp_stage=chunk if self.virtual else None)
        model.load_state_dict(state[f"model{chunk}" if self.virtual else "model"], strict=True)
        return model.eval()

    def enter(self, stage):
        parallel_state.set_pipeline_model_parallel_world_size(self.stages)
        parallel_state.set_pipeline_model_parallel_rank(stage)
        # What both ask groups for is the rank in that of the pipeline.
        for module in (transformer_block, transformer_layer):
            module.get_pg_rank = lambda group: stage
        parallel_state.set_virtual_pipeline_model_parallel_world_size(self.virtual)

    def layers(self):
        return [[len(self.models[chunk, stage].decoder.layers) for chunk in range(self.virtual or 1)]
                for stage in range(self.stages)]

    def logits(self):
        positions = torch.arange(tokens().shape[1]).expand_as(tokens())
        states = None
        with torch.no_grad():
            for (_, stage), model in self.models.items():
                self.enter(stage)
                if states is not None:
                    model.set_input_tensor(states)
                states = model(tokens(), positions, None)
        return states


class UnevenRanks(LaunchedRanks):
    program = PRETRAIN

    def test_uneven_stages_train_as_one_rank_does(self):
        steps = 5
        flags = [*WITHOUT_DROPOUT, "--train-iters", steps, "--eval-interval", steps]
        expected = self.curves("alone", 1, *flags)
        for number, (ranks, shape, _) in enumerate((FIRST, PLACES, ALONE, EMPTY_CHUNK, LAST)):
            with self.subTest(shape=shape):
                found = self.curves(f"ranks{number}", ranks, *flags, *shape.split())
                self.expect_near(found, expected, steps)

    def test_megatron_core_computes_with_the_saved_stages(self):
        """Untied: a tied output layer asks groups of ranks for its stage."""
        core.start_without_gpu()
        for number, (ranks, shape, layers) in enumerate((FIRST, PLACES, ALONE, EMPTY_CHUNK)):
            with self.subTest(shape=shape):
                saved = self.save(f"saved{number}", ranks, "--train-iters", 1, *shape.split(),
                                  "--untie-embeddings-and-output-weights")
                whole = self.folder / f"whole{number}"
                self.run_program(CHECKPOINT_UTIL, "--model-type", "GPT", "--load-dir", saved, "--save-dir",
                                 whole, "--target-tensor-parallel-size", 1,
                                 "--target-pipeline-parallel-size", 1)
                self.run_program(VERIFY, "checkpoint", saved)
                self.run_program(VERIFY, "diff", saved, whole)
                found = Pipeline(reference_files.load_ranks(str(saved)))
                self.assertEqual(found.layers(), layers)
                expected = Pipeline(reference_files.load_ranks(str(whole)))
                self.assertEqual(expected.layers(), [[4]])
                torch.testing.assert_close(found.logits(), expected.logits(), atol=1e-6, rtol=0)

    def test_megatron_core_takes_all_of_stages_without_layers(self):
        """The first one's param groups are those of all ranks; the second one has no parameter at all."""
        ranks, shape, _ = NOTHING
        for form, flags in (("plain", []), ("distributed", ["--use-distributed-optimizer"])):
            with self.subTest(form=form):
                words = [*shape.split(), "--bf16", "--train-iters", 2]
                plain = self.save(f"plain-{form}", ranks, *words)
                saved = self.save(f"saved-{form}", ranks, *words, *flags, "--ckpt-format", "torch_dist")
                whole = self.folder / f"whole-{form}"
                self.run_program(CHECKPOINT_UTIL, "--load-dir", plain, "--save-dir", whole,
                                 "--target-format", "torch_dist", "--target-optimizer", form)
                self.run_program(VERIFY, "checkpoint", saved)
                self.run_program(VERIFY, "diff", plain, saved)
                path = os.pathsep.join([INTEROP, os.environ.get("PYTHONPATH", "")])
                imported("megatron_core.optimizers", path).run_main("judge_same", form, str(saved), str(whole))

    def test_a_run_goes_on_at_any_shape(self):
        words = [*WITHOUT_DROPOUT, "--train-iters", 4]
        expected = self.curves("straight", 1, *words)
        last = {tag: values[2:] for tag, values in expected.items() if tag != "lm loss validation"}
        one = (1, "", [])
        for number, (first, form, then) in enumerate((
                (FIRST, DIST, one), (one, DIST, ALONE), (EMPTY_CHUNK, [], FIRST),
                (ALONE, [], EMPTY_CHUNK), (NOTHING, DIST, FIRST))):
            with self.subTest(first=first, form=form, then=then):
                saved = self.save(f"saved{number}", first[0], *first[1].split(), *form, *words,
                                  "--exit-interval", 2)
                self.run_program(VERIFY, "checkpoint", saved)
                found = self.curves(f"resumed{number}", then[0], *then[1].split(), *words, "--load", saved)
                self.expect_near(found, last, 2)

    def test_a_resumed_run_is_the_straight_one_to_the_bit(self):
        """With dropout. Both formats say the same."""
        ranks, shape, _ = EMPTY_CHUNK
        flags = [*shape.split(), "--bf16", "--train-iters", 4]
        straight = self.save("straight", ranks, *flags)
        self.save("parts", ranks, *flags, *DIST, "--exit-interval", 2)
        parts = self.save("parts", ranks, *flags, *DIST, "--load", self.folder / "parts")
        self.run_program(VERIFY, "diff", straight, parts)
        shutil.rmtree(parts)

    def test_what_megatron_refuses_is_refused_by_name(self):
        two = "--pipeline-model-parallel-size 2 "
        self.expect_refused(1, LAYOUT + "Ettt|tL", "expected 1 pipeline stages with 2 virtual stages each, "
                            "found 2 in all")
        self.expect_refused(2, two + LAYOUT + "Ettt|ttL",
                            "pipeline-model-parallel-layout: expected as many t as num_layers 4, found 5")
        self.expect_refused(2, two + LAYOUT + "Ett|ttmL", "multi-token prediction is not supported yet")
        self.expect_refused(2, two + "--decoder-first-pipeline-num-layers 4",
                            "decoder-first-pipeline-num-layers 4, ")
        self.expect_refused(2, two + "--account-for-loss-in-pipeline-split",
                            "2 does not divide num_layers 4 and the loss")
        self.expect_refused(2, two + LAYOUT + "Ett|ttL --decoder-last-pipeline-num-layers 2", "cannot be combined")


if __name__ == "__main__":
    if not ORACLE.is_dir():
        print(f"skipped: {ORACLE} is missing")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
