#!/usr/bin/env python3
"""Command lines of Megatron-LM's tutorials, as they stand, on a smaller model for a few steps.

tutorials_test.py PRETRAIN_GPT
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("MEG_SHARED", ROOT.parent / "shared"))
ORACLE = SHARED / "oracle" / "training"
PRETRAIN = os.path.abspath(sys.argv[1])
FILES = "--data-path DATA --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt "
GPT_345M = ("--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
            "--max-position-embeddings 1024 --lr 0.00015 --train-iters 500000 --lr-decay-iters 320000 "
            "--lr-decay-style cosine ")
GPT3_175B = ("--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 "
             "--max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 1536 "
             "--lr 6.0e-5 --min-lr 6.0e-6 --lr-decay-style cosine "
             "--clip-grad 1.0 --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 "
             "--init-method-std 0.006 --tensorboard-dir SAVE/events --fp16 ")
OUTPUT = "--log-interval 100 --save-interval 10000 --eval-interval 1000 --eval-iters 10 "
SAVE = "--save SAVE --load SAVE "
# Where the run is smaller than written: the model, and samples by the billion, whose indices take
# minutes. The last of two equal flags counts.
SMALL = ("--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 "
         "--max-position-embeddings 32 --log-interval 1 --eval-iters 1")

TUTORIALS = {
    "README of 2020": (
        GPT_345M + FILES + "--batch-size 4 --warmup .01 --fp16 --DDP-impl local "
        "--model-parallel-size 1 --checkpoint-activations --distributed-backend nccl "
        "--data-impl mmap --split 949,50,1 --weight-decay 1e-2 --clip-grad 1.0 " + OUTPUT + SAVE),
    "examples/pretrain_gpt.sh, 345M": (
        GPT_345M + FILES + "--micro-batch-size 4 --global-batch-size 8 --min-lr 1.0e-5 "
        "--weight-decay 1e-2 --lr-warmup-fraction .01 --clip-grad 1.0 --fp16 --data-impl mmap "
        "--split 949,50,1 " + OUTPUT + SAVE),
    "examples/pretrain_gpt_distributed.sh": (
        GPT_345M + FILES + "--micro-batch-size 8 --global-batch-size 64 --min-lr 1.0e-5 "
        "--weight-decay 1e-2 --lr-warmup-fraction .01 --clip-grad 1.0 --fp16 --data-impl mmap "
        "--split 949,50,1 --distributed-backend nccl " + OUTPUT + SAVE),
    "examples/pretrain_gpt3_175B.sh of v2.6, one rank": (
        GPT3_175B + "--rampup-batch-size 16 16 5859375 --train-samples 146484375 --lr-decay-samples 126953125 "
        "--lr-warmup-samples 183105 --log-interval 10 --eval-iters 40 --eval-interval 1000 "
        "--data-path 0.2 DATA 0.3 DATA 0.5 DATA --vocab-file gpt2-vocab.json "
        "--merge-file gpt2-merges.txt --save-interval 1000 --split 98,2,0 "
        "--activations-checkpoint-method uniform --tensor-model-parallel-size 1 "
        "--pipeline-model-parallel-size 1 " + SAVE),
    # Less its --rampup-batch-size, which Megatron refuses beside --train-iters.
    "examples/gpt3/train_gpt3_175b_distributed.sh of core 0.12, one rank": (
        GPT3_175B + FILES + "--attention-backend auto --train-iters 500000 "
        "--lr-warmup-fraction .001 --lr-decay-iters 430000 --split 949,50,1 "
        "--tensor-model-parallel-size 1 --pipeline-model-parallel-size 1 " + OUTPUT + SAVE),
    "CodeParrot": (
        "--num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 "
        "--max-position-embeddings 1024 --micro-batch-size 12 --global-batch-size 192 --lr 0.0005 "
        "--train-iters 150000 --lr-decay-iters 150000 --lr-decay-style cosine "
        "--lr-warmup-iters 2000 --weight-decay .1 --adam-beta2 .999 --fp16 --log-interval 10 "
        "--save-interval 2000 --eval-interval 200 --eval-iters 10 --tensor-model-parallel-size 1 "
        "--pipeline-model-parallel-size 1 --tensorboard-dir SAVE/events " + FILES + SAVE),
    "examples/llama/train_llama3_8b of core 0.15, mock data, bf16": (
        "--use-mcore-models --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 "
        "--num-attention-heads 32 --group-query-attention --num-query-groups 8 --kv-channels 128 "
        "--seq-length 8192 --max-position-embeddings 8192 --position-embedding-type rope "
        "--rotary-base 1000000 --rotary-percent 1.0 --attention-dropout 0.0 --hidden-dropout 0.0 "
        "--swiglu --init-method-std 0.0134 --attention-backend fused "
        "--untie-embeddings-and-output-weights --disable-bias-linear --micro-batch-size 1 "
        "--global-batch-size 128 --train-samples 1953125000 --lr-decay-samples 1949218748 "
        "--lr-warmup-samples 3906252 --lr 0.00015 --min-lr 0.00001 --lr-decay-style cosine "
        "--clip-grad 1.0 --weight-decay 0.1 --adam-beta1 0.9 --adam-beta2 0.95 --bf16 "
        "--grad-reduce-in-bf16 --cross-entropy-loss-fusion --manual-gc "
        "--empty-unused-memory-level 1 --exit-duration-in-mins 235 --use-distributed-optimizer "
        "--overlap-grad-reduce --overlap-param-gather --tensor-model-parallel-size 1 "
        "--context-parallel-size 1 --sequence-parallel --mock-data --tokenizer-type NullTokenizer "
        "--vocab-size 128256 --tiktoken-pattern v2 --split 99,1,0 "
        "--no-create-attention-mask-in-dataloader --no-mmap-bin-files --num-workers 1 "
        "--log-interval 1 --eval-iters 32 --eval-interval 100 --save-interval 1000 "
        "--log-throughput --distributed-timeout-minutes 60 --tensorboard-dir SAVE/events " + SAVE),
}
FURTHER = {
    "examples/pretrain_gpt_distributed.sh": "--train-iters 5000",
    "examples/gpt3/train_gpt3_175b_distributed.sh of core 0.12, one rank": "--train-iters 500",
    "CodeParrot": "--train-iters 1500",
    "examples/pretrain_gpt3_175B.sh of v2.6, one rank": "--train-samples 146484",
    "examples/llama/train_llama3_8b of core 0.15, mock data, bf16": (
        "--num-query-groups 2 --kv-channels 8 --ffn-hidden-size 64 --vocab-size 1000 "
        "--train-samples 1953125"),
}


class Tutorials(unittest.TestCase):
    def test_each_trains_saves_and_goes_on(self):
        for name, flags in TUTORIALS.items():
            with self.subTest(tutorial=name):
                folder = pathlib.Path(tempfile.mkdtemp())
                self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
                words = [word.replace("SAVE", str(folder / "save")).replace("DATA", "data/tiny")
                         for word in (flags + SMALL + " " + FURTHER.get(name, "")).split()]
                command = [PRETRAIN, *words, "--device", "cpu", "--data-cache-path", folder / "cache"]
                first = self.run_program(*command, "--exit-interval", 2)
                self.assertIn("will start from random", first)
                self.assertIn("successfully saved checkpoint at iteration       2", first)
                self.assertEqual(self.iterations(first), [1, 2])
                second = self.run_program(*command, "--exit-interval", 3)
                self.assertEqual(self.iterations(second), [3])
                shutil.rmtree(folder)

    def iterations(self, log):
        return [int(number) for number in re.findall(r" iteration +(\d+)/", log)]

    def run_program(self, *command):
        done = subprocess.run(list(map(str, command)), cwd=ORACLE, capture_output=True, text=True,
                              timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr)
        return done.stdout


if __name__ == "__main__":
    if not ORACLE.exists():
        print(f"skipped: not found: {ORACLE}", file=sys.stderr)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
