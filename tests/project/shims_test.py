#!/usr/bin/env python3
"""The scripts under Megatron-LM's names, as its tutorials start them.

shims_test.py SHIM_FOLDER PROGRAM_FOLDER
"""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SHIMS, PROGRAMS = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
RUN = ("--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 "
       "--max-position-embeddings 16 --micro-batch-size 2 --lr 1e-3 --train-iters 2 --log-interval 1 "
       "--eval-iters 0 --mock-data --tokenizer-type NullTokenizer --vocab-size 100 --device cpu").split()
OF_PROGRAM = {
    "pretrain_gpt.py": "pretrain_gpt",
    "tasks/main.py": "evaluate_gpt",
    "tools/checkpoint/convert.py": "checkpoint_util",
    "tools/checkpoint_util.py": "checkpoint_util",
    "tools/generate_samples_gpt.py": "generate",
    "tools/merge_datasets.py": "merge_datasets",
    "tools/prepare_cache.py": "prepare_cache",
    "tools/preprocess_data.py": "preprocess_data",
    "tools/report_theoretical_memory.py": "report_theoretical_memory",
    "tools/run_text_generation_server.py": "run_text_generation_server",
    "tools/text_generation_cli.py": "text_generation_cli",
}


def run(*command, **options):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, **options)


class Shims(unittest.TestCase):
    def test_each_runs_its_program(self):
        found = {str(path.relative_to(SHIMS)) for path in SHIMS.rglob("*.py")}
        self.assertEqual(found, set(OF_PROGRAM))
        for shim, program in OF_PROGRAM.items():
            with self.subTest(shim=shim):
                if not (PROGRAMS / program).exists():
                    done = run(sys.executable, SHIMS / shim)
                    self.assertEqual((done.returncode, done.stdout), (1, ""))
                    self.assertIn(f"{program}: not found", done.stderr)
                    continue
                expected = run(PROGRAMS / program, "--version").stdout
                self.assertEqual(run(sys.executable, SHIMS / shim, "--version").stdout, expected)
                self.assertEqual(run(SHIMS / shim, "--version").stdout, expected)

    def test_arguments_and_exit_codes_pass_through(self):
        shim = SHIMS / "tools/preprocess_data.py"
        with tempfile.TemporaryDirectory() as folder:
            command = ["--input", f"{folder}/no such file", "--output-prefix", f"{folder}/out",
                       "--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", "v", "--merge-file", "m"]
            expected = run(PROGRAMS / "preprocess_data", *command)
            done = run(shim, *command)
        self.assertEqual((done.returncode, done.stderr), (expected.returncode, expected.stderr))
        self.assertNotEqual(done.returncode, 0)

    @unittest.skipUnless((PROGRAMS / "pretrain_gpt").exists(), "built without LibTorch")
    @unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
    def test_launchers_of_torch_start_a_training(self):
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        for launcher in (["torch.distributed.run", "--standalone", "--nproc-per-node", "1"],
                         ["torch.distributed.launch", "--nproc_per_node", "1", "--master_port", "0"]):
            with self.subTest(launcher=launcher[0]):
                folder = tempfile.mkdtemp()
                self.addCleanup(shutil.rmtree, folder)
                done = run(sys.executable, "-m", *launcher, SHIMS / "pretrain_gpt.py", *RUN,
                           "--save", f"{folder}/save", env=environment)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("successfully saved checkpoint at iteration       2", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
