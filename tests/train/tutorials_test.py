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
LLAMA_TOKENIZER = SHARED / "oracle" / "datasets" / "tok" / "sp_bpe_llama.model"
PRETRAIN = os.path.abspath(sys.argv[1])
PREPROCESS = os.path.join(os.path.dirname(PRETRAIN), "preprocess_data")
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
LLAMA3_8B = (
    "--use-mcore-models --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 "
    "--num-attention-heads 32 --group-query-attention --num-query-groups 8 --kv-channels 128 "
    "--seq-length 8192 --max-position-embeddings 8192 --position-embedding-type rope "
    "--rotary-base 1000000 --rotary-percent 1.0 --attention-dropout 0.0 --hidden-dropout 0.0 "
    "--swiglu --init-method-std 0.0134 --attention-backend fused --apply-layernorm-1p "
    "--untie-embeddings-and-output-weights --disable-bias-linear --micro-batch-size 1 "
    "--global-batch-size 128 --train-samples 1953125000 --lr-decay-samples 1949218748 "
    "--lr-warmup-samples 3906252 --lr 0.00015 --min-lr 0.00001 --decoupled-lr 5.0e-4 "
    "--decoupled-min-lr 4.5e-5 --lr-decay-style cosine --clip-grad 1.0 --weight-decay 0.1 "
    "--adam-beta1 0.9 --adam-beta2 0.95 --bf16 --grad-reduce-in-bf16 --cross-entropy-loss-fusion "
    "--calculate-per-token-loss --manual-gc --empty-unused-memory-level 1 "
    "--exit-duration-in-mins 235 --use-distributed-optimizer "
    "--overlap-grad-reduce --overlap-param-gather --tensor-model-parallel-size 1 "
    "--context-parallel-size 1 --sequence-parallel --mock-data --tokenizer-type NullTokenizer "
    "--vocab-size 128256 --tiktoken-pattern v2 --split 99,1,0 "
    "--no-create-attention-mask-in-dataloader --no-mmap-bin-files --num-workers 1 "
    "--log-interval 1 --eval-iters 32 --eval-interval 100 --save-interval 1000 "
    "--log-throughput --distributed-timeout-minutes 60 --tensorboard-dir SAVE/events ")
MIXTRAL_8X7B = (
    "--use-mcore-models --disable-bias-linear --seq-length 4096 --max-position-embeddings 32768 "
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
    "--init-method-std 0.01 --attention-dropout 0.0 --hidden-dropout 0.0 --normalization RMSNorm "
    "--position-embedding-type rope --swiglu --untie-embeddings-and-output-weights "
    "--group-query-attention --num-query-groups 8 --no-masked-softmax-fusion "
    "--no-position-embedding --rotary-base 1000000 --num-experts 8 --moe-router-topk 2 "
    "--moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-2 --moe-grouped-gemm "
    "--moe-token-dispatcher-type alltoall --overlap-param-gather --overlap-grad-reduce "
    "--tokenizer-type Llama2Tokenizer --tokenizer-model TOKENIZER --data-path LLAMA_DATA "
    "--split 99990,8,2 --micro-batch-size 1 --global-batch-size 256 --lr 1e-4 --train-iters 500000 "
    "--lr-decay-iters 320000 --lr-decay-style cosine --min-lr 1.0e-5 --weight-decay 0.1 "
    "--lr-warmup-iters 500 --clip-grad 1.0 --bf16 --tensor-model-parallel-size 1 "
    "--pipeline-model-parallel-size 4 --expert-model-parallel-size 8 --use-distributed-optimizer "
    "--sequence-parallel --log-interval 1 --save-interval 10000 --eval-interval 1000 --eval-iters 10 "
    "--tensorboard-dir SAVE/tensorboard --no-load-optim --no-load-rng ")
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
    "CodeParrot": (
        "--num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 "
        "--max-position-embeddings 1024 --micro-batch-size 12 --global-batch-size 192 --lr 0.0005 "
        "--train-iters 150000 --lr-decay-iters 150000 --lr-decay-style cosine "
        "--lr-warmup-iters 2000 --weight-decay .1 --adam-beta2 .999 --fp16 --log-interval 10 "
        "--save-interval 2000 --eval-interval 200 --eval-iters 10 --tensor-model-parallel-size 1 "
        "--pipeline-model-parallel-size 1 --tensorboard-dir SAVE/events " + FILES + SAVE),
    "examples/llama/train_llama3_8b of core 0.15, mock data, bf16": (
        LLAMA3_8B + "--profile --profile-step-start 4 --profile-step-end 6 " + SAVE),
    "examples/llama/train_llama3_8b of core 0.19, mock data, bf16": (
        LLAMA3_8B + "--normalization RMSNorm --profile --profile-step-start 4 --profile-step-end 6 "
        "--ckpt-format torch_dist " + SAVE),
    "examples/mixtral/train_mixtral_8x7b_distributed.sh of core 0.19, one rank": MIXTRAL_8X7B + SAVE,
}
FURTHER = {
    "examples/pretrain_gpt_distributed.sh": "--train-iters 5000",
    "CodeParrot": "--train-iters 1500",
    "examples/pretrain_gpt3_175B.sh of v2.6, one rank": "--train-samples 146484",
    "examples/llama/train_llama3_8b of core 0.15, mock data, bf16": (
        "--num-query-groups 2 --kv-channels 8 --ffn-hidden-size 64 --vocab-size 1000 "
        "--train-samples 1953125"),
}
FURTHER["examples/llama/train_llama3_8b of core 0.19, mock data, bf16"] = FURTHER[
    "examples/llama/train_llama3_8b of core 0.15, mock data, bf16"]
FURTHER["examples/mixtral/train_mixtral_8x7b_distributed.sh of core 0.19, one rank"] = (
    "--num-query-groups 2 --ffn-hidden-size 64 --train-iters 5000 --global-batch-size 8 "
    "--pipeline-model-parallel-size 1 --expert-model-parallel-size 1 --split 98,1,1")

# What libmeg does not do, whole as well, and the flags that the error names.
REFUSED = {
    "examples/llama/train_llama3_8b of core 0.15, fp8": (
        LLAMA3_8B + "--fp8-format hybrid --fp8-amax-history-len 1024 --fp8-amax-compute-algo max "
        "--fp8-param-gather " + SAVE,
        ["--fp8-format", "--fp8-amax-history-len", "--fp8-amax-compute-algo", "--fp8-param-gather"]),
    "examples/mixtral/train_mixtral_8x7b_distributed.sh of core 0.19": (
        MIXTRAL_8X7B + SAVE,
        ["expected a multiple of tensor x pipeline x context parallel size 1 x 4 x 1, found 1"]),
    # Megatron refuses this script of its own, too: --rampup-batch-size wants --train-samples.
    "examples/gpt3/train_gpt3_175b_distributed.sh of core 0.12": (
        GPT3_175B + FILES + "--rampup-batch-size 16 16 5859375 --attention-backend auto "
        "--train-iters 500000 --lr-warmup-fraction .001 --lr-decay-iters 430000 --split 949,50,1 "
        "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 16 " + OUTPUT + SAVE,
        ["expected a multiple of tensor x pipeline x context parallel size 8 x 16 x 1, found 1"]),
    "examples/pretrain_gpt_distributed_with_mp.sh of v2.6": (
        GPT_345M + FILES + "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
        "--micro-batch-size 4 --global-batch-size 16 --data-impl mmap --split 949,50,1 "
        "--distributed-backend nccl --min-lr 1.0e-5 --weight-decay 1e-2 --clip-grad 1.0 "
        "--lr-warmup-fraction .01 --activations-checkpoint-method uniform --fp16 " + OUTPUT + SAVE,
        ["expected a multiple of tensor x pipeline x context parallel size 2 x 2 x 1, found 1"]),
}


class Tutorials(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """As many documents as each part of a tutorial's split needs: 0.1 % of them are tests."""
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        corpus = pathlib.Path(cls.folder.name) / "corpus.jsonl"
        with open(corpus, "w", encoding="utf-8") as file:
            file.writelines(f'{{"text": "document number {i} is about {i % 97} things"}}\n' for i in range(3000))
        cls.values = {"TOKENIZER": str(LLAMA_TOKENIZER)}
        for name, tokenizer in {
                "DATA": "--tokenizer-type GPT2BPETokenizer --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt",
                "LLAMA_DATA": f"--tokenizer-type Llama2Tokenizer --tokenizer-model {LLAMA_TOKENIZER}"}.items():
            prefix = corpus.with_name(name.lower())
            done = subprocess.run([PREPROCESS, "--input", corpus, "--output-prefix", prefix, *tokenizer.split(),
                                   "--append-eod"], cwd=ORACLE, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            cls.values[name] = f"{prefix}_text_document"

    def words(self, flags, folder):
        return [self.values.get(word, word.replace("SAVE", f"{folder}/save")) for word in flags.split()]

    def test_each_trains_saves_and_goes_on(self):
        for name, flags in TUTORIALS.items():
            with self.subTest(tutorial=name):
                folder = pathlib.Path(tempfile.mkdtemp())
                self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
                words = self.words(flags + SMALL + " " + FURTHER.get(name, ""), folder)
                command = [PRETRAIN, *words, "--device", "cpu", "--data-cache-path", folder / "cache"]
                first = self.run_program(*command, "--exit-interval", 2)
                self.assertIn("will start from random", first)
                # Core 0.19 says "from".
                self.assertRegex(first, "successfully saved checkpoint (at|from) iteration       2")
                self.assertEqual(self.iterations(first), [1, 2])
                second = self.run_program(*command, "--exit-interval", 3)
                self.assertEqual(self.iterations(second), [3])
                shutil.rmtree(folder)

    def test_what_is_not_done_is_refused_by_name(self):
        for name, (flags, named) in REFUSED.items():
            with self.subTest(tutorial=name), tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([PRETRAIN, *self.words(flags, folder), "--device", "cpu"], cwd=ORACLE,
                                      text=True, capture_output=True, timeout=300)
                self.assertEqual(done.returncode, 1, done.stderr)
                error = done.stderr.splitlines()[-1]
                self.assertTrue(error.startswith("error: "), error)
                for text in named:
                    self.assertIn(text, error)
                self.assertFalse(os.path.exists(f"{folder}/save"))

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
