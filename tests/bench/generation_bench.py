#!/usr/bin/env python3
"""Greedy generation beside transformers: the same weights, prompts and threads, ids compared first.

generation_bench.py GENERATE SHARED [--prompts N] [--prompt-tokens N] [--tokens N] [--threads 2 1]
    [--rounds N] [--keep FOLDER] [--device cpu|cuda] [--dtype fp32|fp16|bf16] [--shape LAYERS HIDDEN HEADS]

GENERATE is the program; SHARED holds bench/make_hf_gpt2.py, bench/peer_generate.py, data/gpt2 and
data/lambada, whose first lines are the prompts. The model is a random GPT-2, the small one unless --shape
says otherwise. Both programs run in turn, each in a fresh process, and count from the first prompt to
the last token, without loading; the best round of each is printed. In 16 bits near ties fall either
way, so that there only the share of equal tokens is said.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def make_model(shared, folder, shape):
    """The model in both forms, made once."""
    theirs, ours = os.path.join(folder, "hf"), os.path.join(folder, "checkpoint")
    if not os.path.exists(ours):
        sizes = [word for name, size in zip(("--layers", "--hidden", "--heads"), shape)
                 for word in (name, str(size))]
        for command in ([os.path.join(shared, "bench/make_hf_gpt2.py"), theirs, *sizes],
                        [os.path.join(HERE, "../generation/hf_gpt2_to_megatron.py"), theirs, ours]):
            subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
    return theirs, ours


def run(command, threads):
    """Tokens a second, as the program itself says."""
    done = subprocess.run(command, check=True, capture_output=True, encoding="utf8",
                          env=dict(os.environ, OMP_NUM_THREADS=str(threads)))
    return float(re.search(r"([\d.]+) tokens/s", done.stdout + done.stderr).group(1))


def ids_of(path):
    with open(path, encoding="utf8") as file:
        return [(line["prompt"], line["ids"]) for line in map(json.loads, file)]


def equal_share(one, other):
    """Of the tokens made, those in front of the first difference of each text."""
    equal = made = 0
    for (prompt, ids), (same_prompt, others) in zip(one, other, strict=True):
        if prompt != same_prompt:
            sys.exit("the prompts differ")
        made += len(ids)
        equal += next((i for i, pair in enumerate(zip(ids, others)) if pair[0] != pair[1]), len(ids))
    return equal / made


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("shared")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--prompt-tokens", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 1])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", help="where the model stays for the next run")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--dtype", default="fp32", choices=["fp32", "fp16", "bf16"])
    parser.add_argument("--shape", type=int, nargs=3, default=[12, 768, 12])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as held:
        theirs, ours = make_model(given.shared, given.keep or held, given.shape)
        prompts = os.path.join(held, "prompts.jsonl")
        with open(os.path.join(given.shared, "data/lambada/lambada_test.jsonl"),
                  encoding="utf8") as source, open(prompts, "w", encoding="utf8") as file:
            file.writelines(line for line, _ in zip(source, range(given.prompts)))
        gpt2 = os.path.join(given.shared, "data/gpt2")
        common = ["--prompt-tokens", str(given.prompt_tokens),
                  "--vocab-file", os.path.join(gpt2, "vocab.json"),
                  "--merge-file", os.path.join(gpt2, "merges.txt")]
        outputs = [os.path.join(held, name) for name in ("theirs.jsonl", "ours.jsonl")]
        peer = [sys.executable, os.path.join(given.shared, "bench/peer_generate.py"), theirs,
                "--tokens", str(given.tokens), "--output", outputs[0], "--device",
                given.device, "--dtype", given.dtype, "--prompts", prompts, *common]
        libmeg = [given.program, "--load", ours, "--tokens-to-generate", str(given.tokens),
                  "--greedy", "--ignore-eod", "--micro-batch-size", str(given.prompts),
                  "--device", given.device, "--output", outputs[1], "--prompt-file", prompts,
                  *common]
        if given.dtype != "fp32":
            libmeg.append("--" + given.dtype)
        for threads in given.threads:
            rates = [[run(peer, threads), run(libmeg, threads)] for _ in range(given.rounds)]
            share = equal_share(*map(ids_of, outputs))
            if given.dtype == "fp32" and share < 1:
                sys.exit(f"the ids differ ({share:.1%} are equal): no speed is worth that")
            best = [max(rate[i] for rate in rates) for i in (0, 1)]
            print(f"{threads} threads, {given.prompts} prompts of {given.prompt_tokens} tokens x "
                  f"{given.tokens}: libmeg {best[1]:.1f} tokens/s, transformers {best[0]:.1f}, "
                  f"{best[1] / best[0]:.2f} times as fast; {share:.1%} of the tokens equal", flush=True)


if __name__ == "__main__":
    main()
