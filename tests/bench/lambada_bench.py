#!/usr/bin/env python3
"""LAMBADA scoring beside transformers: the same weights, examples and cores, in turn.

lambada_bench.py EVALUATE_GPT PEER_LAMBADA.PY LAMBADA.jsonl --vocab-file V --merge-file M
    [--lines N] [--threads T ...] [--runs R] [--strict] [--device cpu|cuda] [--dtype fp32|fp16|bf16]
    [--shape LAYERS HIDDEN HEADS] [--peer-batch-tokens B]

Creates a random GPT-2 (the small one unless --shape says otherwise) with make_hf_gpt2.py beside the
peer, maps it into a Megatron checkpoint, and compares every example's target, prediction and log
probability (fp32: to 1e-5) before it prints a time. Rates are tokens a second of scoring, loading
and tokenizing left out, the best of the runs; CPU seconds are of the whole processes. On few
lines the peer's batches of 4096 tokens are padded by a tenth and more; --peer-batch-tokens 512 takes that
from it.
"""
import argparse
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RATE = re.compile(r"([0-9]+) tokens/s")


def run(command, threads):
    """(tokens/s, CPU seconds)"""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(part) for part in command], env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return int(RATE.search(done.stdout + done.stderr).group(1)), used


def results(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def compare(ours, theirs, exact):
    """The largest difference of two log probabilities; stops where anything else differs."""
    most = 0.0
    for our, their in zip(ours, theirs, strict=True):
        for field in ("index", "context", "target", "predicted", "correct") if exact else ("index", "target"):
            if our[field] != their[field]:
                sys.exit(f"example {our['index']}: {field}: {our[field]} and {their[field]}")
        most = max(most, abs(our["logprob"] - their["logprob"]) / len(our["target"]))
    if exact and most > 1e-5:
        sys.exit(f"log probabilities differ by {most}")
    return most


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("peer", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--vocab-file", required=True)
    parser.add_argument("--merge-file", required=True)
    parser.add_argument("--lines", type=int, default=300)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="fp32", choices=["fp32", "fp16", "bf16"])
    parser.add_argument("--peer-batch-tokens", type=int, default=4096)
    parser.add_argument("--shape", type=int, nargs=3, default=[12, 768, 12])
    given = parser.parse_args()
    tokenizer = ["--vocab-file", given.vocab_file, "--merge-file", given.merge_file]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        layers, hidden, heads = given.shape
        make = [sys.executable, given.peer.parent / "make_hf_gpt2.py", folder / "hf", "--layers", layers, "--hidden", hidden, "--heads", heads]
        subprocess.run([str(part) for part in make], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([sys.executable, str(ROOT / "tests/generation/hf_gpt2_to_megatron.py"), str(folder / "hf"), str(folder / "megatron")], check=True)
        lines = given.data.read_text().splitlines(keepends=True)[:given.lines]
        data = folder / "lines.jsonl"
        data.write_text("".join(lines))
        ours = [given.program, "--task", "LAMBADA", "--valid-data", data, "--load", folder / "megatron", "--output", folder / "ours",
                "--device", given.device, *tokenizer]
        if given.dtype != "fp32":
            ours.append("--" + given.dtype)
        theirs = [sys.executable, given.peer, folder / "hf", data, "--output", folder / "theirs", "--device", given.device,
                  "--dtype", given.dtype, "--batch-tokens", given.peer_batch_tokens, *tokenizer]
        if given.strict:
            ours.append("--strict-lambada")
            theirs.append("--strict")
        print(f"{len(lines)} lines, {layers} layers x {hidden}, {given.dtype}, {given.device}")
        for threads in given.threads:
            rates = []
            for _ in range(given.runs):
                rates.append((run(ours, threads), run(theirs, threads)))
                difference = compare(results(folder / "ours"), results(folder / "theirs"), given.dtype == "fp32")
            our_rate, their_rate = (max(pair[side][0] for pair in rates) for side in (0, 1))
            our_used, their_used = (min(pair[side][1] for pair in rates) for side in (0, 1))
            print(f"{threads} threads: libmeg {our_rate} tokens/s, transformers {their_rate}: {our_rate / their_rate:.2f}x; processor "
                  f"seconds {our_used:.1f} and {their_used:.1f}: {their_used / our_used:.2f}x; log probabilities within {difference:.1e}",
                  flush=True)


if __name__ == "__main__":
    main()
