#!/usr/bin/env python3
"""Greedy generation beside transformers: the same weights, prompts and threads, ids compared first.

generation_bench.py GENERATE SHARED [--prompts N] [--prompt-tokens N] [--tokens N] [--threads 2 1]
    [--rounds N] [--keep FOLDER]

GENERATE is the program; SHARED holds bench/make_hf_gpt2.py, bench/peer_generate.py, data/gpt2 and
data/lambada, whose first lines are the prompts. The model is a random GPT-2 small in fp32. Both
programs run in turn, each in a fresh process, and count from the first prompt to the last token,
without loading; the best round of each is printed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def make_model(shared, folder):
    """The model in both forms, made once."""
    theirs, ours = os.path.join(folder, "hf"), os.path.join(folder, "checkpoint")
    if not os.path.exists(ours):
        for command in ([os.path.join(shared, "bench/make_hf_gpt2.py"), theirs],
                        [os.path.join(HERE, "../inference/hf_gpt2_to_megatron.py"), theirs, ours]):
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
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as held:
        theirs, ours = make_model(given.shared, given.keep or held)
        prompts = os.path.join(held, "prompts.jsonl")
        with open(os.path.join(given.shared, "data/lambada/lambada_test.jsonl"),
                  encoding="utf8") as source, open(prompts, "w", encoding="utf8") as file:
            file.writelines(line for line, _ in zip(source, range(given.prompts)))
        gpt2 = os.path.join(given.shared, "data/gpt2")
        common = ["--prompts", prompts, "--prompt-tokens", str(given.prompt_tokens),
                  "--vocab-file", os.path.join(gpt2, "vocab.json"),
                  "--merge-file", os.path.join(gpt2, "merges.txt")]
        outputs = [os.path.join(held, name) for name in ("theirs.jsonl", "ours.jsonl")]
        peer = [sys.executable, os.path.join(given.shared, "bench/peer_generate.py"), theirs,
                "--tokens", str(given.tokens), "--output", outputs[0], *common]
        libmeg = [given.program, "--load", ours, "--tokens-to-generate", str(given.tokens),
                  "--greedy", "--ignore-eod", "--micro-batch-size", str(given.prompts),
                  "--device", "cpu", "--output", outputs[1], *common]
        for threads in given.threads:
            rates = [[run(peer, threads), run(libmeg, threads)] for _ in range(given.rounds)]
            if ids_of(outputs[0]) != ids_of(outputs[1]):
                sys.exit("the ids differ: no speed is worth that")
            best = [max(rate[i] for rate in rates) for i in (0, 1)]
            print(f"{threads} threads, {given.prompts} prompts of {given.prompt_tokens} tokens x "
                  f"{given.tokens}: libmeg {best[1]:.1f} tokens/s, transformers {best[0]:.1f}, "
                  f"{best[1] / best[0]:.2f} times as fast", flush=True)


if __name__ == "__main__":
    main()
