#!/usr/bin/env python3
"""What pretrain_gpt saves with --ckpt-format torch_dist, read by torch and by the real megatron-core,
beside what the same run saves in the torch format.

torch_dist_saves_test.py PRETRAIN_GPT CHECKPOINT_UTIL VERIFY [unittest arguments]
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop"))

try:
    import torch

    from megatron_core.processes import run_package
    from reference import cases
    from reference import files as reference_files
    from reference import reshape as reference
    from reference import torch_dist as dist
    from torch_dist_checkpoints_test import MEGATRON_CORE, with_masters
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PRETRAIN = CHECKPOINT_UTIL = VERIFY = ""
DATA = os.path.join(cases.SHARED, "oracle/training")
RUN = ("--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 "
       "--max-position-embeddings 40 --make-vocab-size-divisible-by 74 --micro-batch-size 2 "
       "--lr 0.005 --train-iters 3 --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt "
       "--split 90,8,2 --eval-iters 1 --data-path data/tiny --device cpu").split()
# The keys of a save in the torch format that torch_dist keeps elsewhere.
ELSEWHERE = {"model", "rng_state"}


class TorchDistSaves(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def path(self, name):
        return os.path.join(self.folder, name)

    def call(self, *command):
        done = subprocess.run(command, cwd=DATA, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr)
        return done.stdout

    def train(self, name, *flags):
        self.call(PRETRAIN, *RUN, "--data-cache-path", self.path("cache"), "--save",
                  self.path(name), *flags)
        return self.path(name)

    def both(self, *flags):
        return self.train("torch", *flags), self.train("dist", "--ckpt-format", "torch_dist", *flags)

    def test_torch_reads_the_tensors_of_the_torch_format(self):
        for flags in ([], ["--bf16"], ["--fp16", "--async-save"], ["--no-save-optim"],
                      ["--swiglu", "--disable-bias-linear", "--normalization", "RMSNorm",
                       "--untie-embeddings-and-output-weights"],
                      ["--use-distributed-optimizer"]):
            with self.subTest(flags=flags):
                plain, saved = self.both(*flags)
                expected = reference.merge(plain).tensors
                if "--use-distributed-optimizer" in flags:
                    expected = with_masters(reference.merge(plain))
                found = dist.read(reference_files.iteration_folder(saved))
                self.assertEqual({name: set(kinds) for name, kinds in found.items()},
                                 {name: set(kinds) for name, kinds in expected.items()})
                for name, kinds in expected.items():
                    for kind, tensor in kinds.items():
                        self.assertTrue(torch.equal(found[name][kind], tensor), (name, kind))

    def test_what_is_no_tensor_is_that_of_the_torch_format(self):
        plain, saved = self.both("--fp16")
        expected, = reference_files.load_ranks(plain).values()
        folder = reference_files.iteration_folder(saved)
        found = reference_files.load_file(os.path.join(folder, "common.pt"))
        self.assertEqual(set(found) - {"content_metadata"}, set(expected) - ELSEWHERE)
        for key in ("checkpoint_version", "iteration", "opt_param_scheduler",
                    "num_floating_point_operations_so_far"):
            self.assertEqual(found[key], expected[key])
        different = {key for key, value in vars(expected["args"]).items()
                     if vars(found["args"])[key] != value}
        self.assertEqual(different, {"ckpt_format", "save"})
        groups, beside = (state["optimizer"]["optimizer"]["param_groups"]
                          for state in (found, expected))
        self.assertEqual(groups, [{key: group[key] for key in group if key != "params"}
                                  for group in beside])
        self.assertEqual(found["optimizer"]["grad_scaler"], expected["optimizer"]["grad_scaler"])
        (states,), = (value for name, value in dist.read_objects(folder).items()
                      if name.startswith("rng_state/"))
        beside, = expected["rng_state"]
        self.assertEqual(set(states[0]), set(beside))
        self.assertTrue(torch.equal(states[0]["torch_rng_state"], beside["torch_rng_state"]))

    def test_it_converts_to_the_torch_format(self):
        plain, saved = self.both("--bf16")
        back = self.path("back")
        self.call(CHECKPOINT_UTIL, "--load-dir", saved, "--save-dir", back)
        for path in (saved, back):
            self.call(VERIFY, "checkpoint", path)
            self.assertIn("equal", self.call(VERIFY, "diff", plain, path))

    def test_megatron_core_loads_it(self):
        saved = self.train("dist", "--bf16", "--ckpt-format", "torch_dist")
        folder = reference_files.iteration_folder(saved)
        run = run_package([sys.executable, "-c", MEGATRON_CORE, folder])
        if "ImportError" in run.stderr or "ModuleNotFoundError" in run.stderr:
            self.skipTest("megatron-core is not there")
        self.assertEqual(run.returncode, 0, run.stderr[-3000:])
        answer = json.loads(run.stdout.splitlines()[-1])
        self.assertEqual((answer["iteration"], answer["groups"]), (3, 2))
        self.assertEqual(answer["tensors"], {
            name: [list(tensor.shape), float(tensor.double().sum())]
            for name, tensor in dist.read_tensors(folder).items()})


if __name__ == "__main__":
    if not os.path.isdir(DATA):
        print(f"skipped: not found: {DATA}")
        sys.exit(77)
    PRETRAIN, CHECKPOINT_UTIL, VERIFY = (os.path.abspath(path) for path in sys.argv[1:4])
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
