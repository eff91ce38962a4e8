#!/usr/bin/env python3
"""pretrain_gpt on several ranks with --ckpt-format torch_dist: what they save together, read by torch and
by the real megatron-core, and where a run goes on from it.

torch_dist_ranks_test.py PRETRAIN_GPT VERIFY [unittest arguments]
"""

import json
import os
import re
import subprocess
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop"))

from launched_ranks import ORACLE, TIMEOUT, LaunchedRanks
from megatron_core.processes import run_package

try:
    from reference import files as reference_files
    from reference import reshape as reference
    import torch
    from reference import torch_dist as dist
    from torch_dist_checkpoints_test import MEGATRON_CORE, with_masters
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

VERIFY = ""
DIST = ["--ckpt-format", "torch_dist"]
LLAMA = ("--swiglu --disable-bias-linear --normalization RMSNorm "
         "--untie-embeddings-and-output-weights --position-embedding-type rope")
# Ranks and flags of runs whose parameters are cut in every way.
SHAPES = ((4, "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"),
          (4, "--tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer --bf16 "
              + LLAMA),
          (2, "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1"))


class TorchDistRanks(LaunchedRanks):
    def verify(self, *words):
        done = subprocess.run([VERIFY, *map(str, words)], capture_output=True, text=True,
                              timeout=TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_all_ranks_write_the_tensors_of_the_torch_format(self):
        folders = []
        for number, (ranks, flags) in enumerate(SHAPES):
            with self.subTest(flags=flags):
                words = [*flags.split(), "--train-iters", 2]
                plain = self.save(f"plain{number}", ranks, *words)
                saved = self.save(f"dist{number}", ranks, *words, *DIST)
                self.verify("checkpoint", saved)
                self.verify("diff", plain, saved)
                folder = reference_files.iteration_folder(str(saved))
                writers = [re.fullmatch(r"__(\d+)_([01])\.distcp", name) for name in os.listdir(folder)]
                self.assertEqual(sorted((int(found[1]), int(found[2])) for found in writers if found),
                                 [(rank, file) for rank in range(ranks) for file in range(2)])
                self.assertEqual({name for name, found in zip(os.listdir(folder), writers) if not found},
                                 {".metadata", "metadata.json", "common.pt", "tokenizer"})
                merged, found = reference.merge(str(plain)), dist.read(folder)
                is_distributed = "--use-distributed-optimizer" in words
                expected = with_masters(merged) if is_distributed else merged.tensors
                self.assertEqual({name: set(kinds) for name, kinds in found.items()},
                                 {name: set(kinds) for name, kinds in expected.items()})
                for name, kinds in expected.items():
                    for kind, tensor in kinds.items():
                        self.assertTrue(torch.equal(found[name][kind], tensor), (name, kind))
                folders.append(folder)
        self.expect_megatron_core_loads(folders)

    def expect_megatron_core_loads(self, folders):
        run = run_package([sys.executable, "-c", MEGATRON_CORE, *folders])
        if "ImportError" in run.stderr or "ModuleNotFoundError" in run.stderr:
            return
        self.assertEqual(run.returncode, 0, run.stderr[-3000:])
        for folder, line in zip(folders, run.stdout.splitlines()[-len(folders):], strict=True):
            self.assertEqual(json.loads(line)["tensors"], {
                name: [list(tensor.shape), float(tensor.double().sum())]
                for name, tensor in dist.read_tensors(folder).items()})

    def test_a_run_goes_on_at_any_shape_as_from_the_torch_format(self):
        saving = ["--tensor-model-parallel-size", 2, "--pipeline-model-parallel-size", 2,
                  "--train-iters", 2]
        plain, saved = self.save("plain", 4, *saving), self.save("dist", 4, *saving, *DIST)
        for ranks, shape in ((1, ""), (2, "--pipeline-model-parallel-size 2"),
                             (2, "--use-distributed-optimizer")):
            with self.subTest(shape=shape):
                words = [*shape.split(), "--train-iters", 4, "--override-opt_param-scheduler"]
                expected = self.losses(self.train(ranks, *words, "--load", plain))
                self.assertEqual(self.losses(self.train(ranks, *words, "--load", saved)), expected)
                self.assertEqual(len(expected), 2)

    def test_a_resumed_run_is_the_straight_one_to_the_bit(self):
        """With dropout, whose states differ between ranks."""
        self.verify("diff", *self.save_in_parts(
            "run", 4, "--tensor-model-parallel-size", 2, "--sequence-parallel",
            "--use-distributed-optimizer", "--bf16", *DIST))

    def test_a_tutorials_run_saves_at_its_interval(self):
        """On which a real run died: sequence-parallel, half precision, four tensor-parallel ranks."""
        flags = ["--tensor-model-parallel-size", 4, "--sequence-parallel", "--fp16", "--save-interval",
                 2, "--train-iters", 4, *DIST]
        out = self.train(4, *flags, "--save", self.folder / "save")
        for iteration in (2, 4):
            self.assertIn(f"successfully saved checkpoint from iteration {iteration:7} to "
                          f"{self.folder / 'save'} [ t 1/4, p 1/1 ]", out)
            self.verify("checkpoint", self.folder / "save" / f"iter_{iteration:07}")
        loaded = self.train(4, *flags, "--load", self.folder / "save")
        self.assertIn(f"successfully loaded checkpoint from {self.folder / 'save'} [ t 1/4, p 1/1 ] at "
                      "iteration 4", loaded)

    def test_saves_in_the_background_write_the_same(self):
        flags = ["--tensor-model-parallel-size", 2, "--use-distributed-optimizer", "--train-iters", 5,
                 "--save-interval", 2]
        for form in ([], DIST):
            with self.subTest(form=form):
                at_once, background = (self.folder / f"{name}-{len(form)}" for name in ("once", "async"))
                self.train(4, *flags, *form, "--save", at_once)
                out = self.train(4, *flags, *form, "--save", background, "--async-save")
                lines = re.findall(r"(scheduled|successfully saved) .*iteration +(\d+) to (\S+)", out)
                expected = [(word, str(iteration), str(background)) for iteration in (2, 4, 5)
                            for word in ("scheduled", "successfully saved")]
                self.assertEqual(lines, expected)
                self.assertEqual(sorted(path.name for path in at_once.iterdir()),
                                 sorted(path.name for path in background.iterdir()))
                for iteration in (2, 4, 5):
                    name = f"iter_{iteration:07}"
                    self.verify("diff", at_once / name, background / name)

    def test_the_last_checkpoint_is_whole_when_a_rank_is_killed(self):
        for flags in ([], ["--async-save"]):
            with self.subTest(flags=flags):
                save = self.folder / f"save-{len(flags)}"
                processes = self.start(2, "--train-iters", 1000000, "--save", save, "--save-interval", 1,
                                       "--tensor-model-parallel-size", 2, *DIST, *flags)
                for line in processes[1].stdout:
                    if " iteration        3/" in line:
                        break
                processes[0].kill()
                codes, out, err = self.end(processes)
                self.assertEqual(codes, [-9, 1], out + err)
                self.verify("checkpoint", save)


if __name__ == "__main__":
    if not ORACLE.is_dir():
        print(f"skipped: {ORACLE} is missing")
        sys.exit(77)
    TorchDistRanks.program, VERIFY = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
