#!/usr/bin/env python3
"""Training speed of pretrain_gpt beside its peers: same shape, same machine, one after the other.

training_bench.py PRETRAIN_GPT --peers FOLDER [--device cpu|cuda] [--dtype fp32|bf16]
    [--shape LAYERS HIDDEN HEADS VOCAB SEQ] [--micro-batch-sizes B ...] [--iterations N] [--threads T]
    [--rounds R] [--peak-tflops P]

FOLDER holds peer_train.py (plain PyTorch; with --compile on a GPU) and peer_megatron_core.py (PyPI's
megatron-core). Where $LLMC_BIN names llm.c's train_gpt2cu, it runs too (24 layers, hidden 1024 on a
GPU only). Random weights and tokens, no dropout, AdamW, gradients clipped; one micro-batch a step.
Each runs in a process of its own. Prints tokens a second, medians over the last half of the
steps and of the rounds, each contestant's best micro-batch, and the ratios. Exits 1 where a loss is
not what random weights give. That the numbers are right is device_parity.py's to say.
"""

import argparse
import math
import os
import pathlib
import random
import re
import statistics
import struct
import subprocess
import sys
import tempfile


class Failed(Exception):
    pass


def run(command, threads):
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)} if threads else os.environ
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        lines = (done.stderr + done.stdout).strip().splitlines()
        raise Failed(next((line for line in reversed(lines) if "rror" in line), lines[-1]))
    return done.stdout


def measured(text, pattern):
    """(loss, tokens/s) of every step; the first half warms up."""
    steps = [(float(loss), float(rate)) for loss, rate in re.findall(pattern, text)]
    if not steps:
        raise Failed("no step was printed")
    return steps[0][0], statistics.median(rate for _, rate in steps[len(steps) // 2:])


def ours(a, size, extra=()):
    layers, hidden, heads, vocab, seq = a.shape
    text = run([a.program, "--num-layers", layers, "--hidden-size", hidden, "--num-attention-heads", heads,
                "--seq-length", seq, "--max-position-embeddings", seq, "--mock-data", "--tokenizer-type",
                "NullTokenizer", "--vocab-size", vocab, "--make-vocab-size-divisible-by", 1,
                "--micro-batch-size", size, "--train-iters", a.iterations, "--lr", "1e-4", "--eval-iters", 0,
                "--log-interval", 1, "--hidden-dropout", 0, "--attention-dropout", 0, "--device", a.device,
                "--split", "1,0,0", "--data-cache-path", a.folder / "cache",
                *(["--bf16"] if a.dtype == "bf16" else []), *extra], a.threads)
    return measured(text, r"lm loss: ([\d.E+-]+)[^\n]*\n throughput: ([\d.]+) tokens/s")


def with_dropout(a, size):
    return ours(a, size, ["--hidden-dropout", 0.1, "--attention-dropout", 0.1])


def plain_pytorch(a, size):
    text = run([a.python, a.peers / "peer_train.py", "--random", *a.shape, "--seq-length", a.shape[4],
                "--micro-batch-size", size, "--train-iters", a.iterations, "--dtype", a.dtype, "--device",
                a.device, *(["--compile"] if a.device == "cuda" else []),
                *(["--threads", a.threads] if a.threads else [])], a.threads)
    return measured(text, r"lm_loss ([\d.]+) .*tokens_per_second ([\d.]+)")


def megatron_core(a, size):
    layers, hidden, heads, vocab, seq = a.shape
    text = run([a.python, a.peers / "peer_megatron_core.py", "--layers", layers, "--hidden", hidden, "--heads",
                heads, "--vocab", vocab, "--seq-length", seq, "--micro-batch-size", size, "--train-iters",
                a.iterations, "--dtype", a.dtype, "--attention", "sdpa",
                *(["--threads", a.threads] if a.threads else [])], a.threads)
    return measured(text, r"lm_loss ([\d.]+) tokens_per_second ([\d.]+)")


def llm_c(a, size):
    """llm.c reads uint16 tokens after 256 int32: magic, version, count."""
    layers, hidden, heads, vocab, seq = a.shape
    tokens = a.folder / "random.bin"
    if not tokens.exists():
        count = 4 * max(a.micro_batch_sizes) * seq + 1
        ids = random.Random(1234).choices(range(50257), k=count)
        tokens.write_bytes(struct.pack("<256i", 20240520, 1, count, *[0] * 253) + struct.pack(f"<{count}H", *ids))
    text = run([os.environ["LLMC_BIN"], "-i", tokens, "-j", tokens, "-e", f"d{layers}", "-b", size, "-t", seq,
                "-d", size * seq, "-l", "1e-4", "-v", 1000, "-m", 1, "-s", 0, "-x", a.iterations], a.threads)
    return measured(text, r"\| loss ([\d.]+) .*?([\d.]+) tok/s")


def contestants(a):
    yield "libmeg", ours
    yield "libmeg, dropout 0.1", with_dropout
    yield "PyTorch" + (", compiled" if a.device == "cuda" else ""), plain_pytorch
    yield "megatron-core 0.16.1", megatron_core
    if a.device == "cuda" and os.environ.get("LLMC_BIN") and a.shape[:3] == [24, 1024, 16]:
        yield "llm.c", llm_c


def flops_a_token(a):
    """Forward and backward of Megatron's formula; attention counts its whole square."""
    layers, hidden, _, vocab, seq = a.shape
    return 72 * layers * hidden**2 * (1 + seq / (6 * hidden) + vocab / (12 * layers * hidden))


def measure(a):
    """name -> micro-batch -> rates, in turn so that a slow minute meets all."""
    rates, expected = {}, math.log(a.shape[3])
    for _ in range(a.rounds):
        for size in a.micro_batch_sizes:
            for name, contestant in contestants(a):
                try:
                    loss, rate = contestant(a, size)
                except Failed as failure:
                    print(f"{name}, micro-batch {size}: {failure}", file=sys.stderr)
                    continue
                if abs(loss - expected) > 0.1 * expected:
                    sys.exit(f"error: {name}: first loss {loss}, expected about {expected:.3f}")
                rates.setdefault(name, {}).setdefault(size, []).append(rate)
                print(f"{name}, micro-batch {size}: {rate:.0f} tokens/s", file=sys.stderr, flush=True)
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=os.path.abspath)
    parser.add_argument("--peers", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable, help="has torch and megatron-core")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--shape", type=int, nargs=5, default=[6, 384, 6, 50304, 256])
    parser.add_argument("--micro-batch-sizes", type=int, nargs="+", default=[4])
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--peak-tflops", type=float, help="of the device, for MFU")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        a.folder = pathlib.Path(folder)
        rates = measure(a)
    if "libmeg" not in rates:
        sys.exit("error: pretrain_gpt did not run")
    best = {name: max((statistics.median(found), size) for size, found in sizes.items())
            for name, sizes in rates.items()}
    print("| | micro-batch | tokens/s | MFU | libmeg is |\n|---|---:|---:|---:|---:|")
    for name, (rate, size) in best.items():
        mfu = f"{rate * flops_a_token(a) / (a.peak_tflops * 1e12):.1%}" if a.peak_tflops else ""
        print(f"| {name} | {size} | {rate:.0f} | {mfu} | {best['libmeg'][0] / rate:.2f}x |")


if __name__ == "__main__":
    main()
