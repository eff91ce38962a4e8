#!/usr/bin/env python3
"""Scores and continues the same texts on the CPU, on a device, and with transformers, in fp32: are they the same?

device_parity.py PROGRAMS [--shared FOLDER] [--device cpu|cuda] [--python PYTHON]

PROGRAMS is a folder with evaluate_gpt and generate; FOLDER holds bench/make_hf_gpt2.py, bench/peer_lambada.py,
bench/peer_generate.py, data/gpt2 and data/lambada. A small GPT-2 with random weights scores LAMBADA's first
lines and continues some of them greedily. Prints a table of the largest differences of a token's log
probability and of the shares of equal tokens; exits 1 where one is beyond its bound, 77 where PYTHON has no
transformers or FOLDER is not there.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MODEL = "--layers 4 --hidden 256 --heads 4 --std 0.1".split()
LINES, PROMPTS, TOKENS = 80, 4, 48
SHARED = pathlib.Path(os.environ.get("MEG_SHARED", HERE.parents[2] / "shared"))


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {command[0]}: " + (done.stderr or done.stdout).strip()[-1500:])


class Parity:
    def __init__(self, given, folder):
        self.programs, self.bench, self.folder = given.programs, given.shared / "bench", folder
        self.device, self.python = given.device, given.python
        self.failed = False
        self.words = ["--vocab-file", given.shared / "data/gpt2/vocab.json", "--merge-file",
                      given.shared / "data/gpt2/merges.txt"]
        lines = (given.shared / "data/lambada/lambada_test.jsonl").read_text().splitlines(keepends=True)
        self.texts, self.prompts = folder / "texts.jsonl", folder / "prompts.jsonl"
        self.texts.write_text("".join(lines[:LINES]))
        self.prompts.write_text("".join(lines[:PROMPTS]))
        run(self.python, self.bench / "make_hf_gpt2.py", folder / "hf", *MODEL)
        run(self.python, HERE / "hf_gpt2_to_megatron.py", folder / "hf", folder / "megatron")

    def results(self, name, command):
        output = self.folder / name
        run(*command, "--output", output, *self.words)
        return [json.loads(line) for line in output.read_text().splitlines()]

    def our_scores(self, device):
        return self.results(f"scores-{device}", [
            self.programs / "evaluate_gpt", "--task", "LAMBADA", "--valid-data", self.texts, "--load",
            self.folder / "megatron", "--device", device])

    def our_texts(self, device):
        return self.results(f"texts-{device}", [
            self.programs / "generate", "--load", self.folder / "megatron", "--tokens-to-generate", TOKENS,
            "--greedy", "--ignore-eod", "--micro-batch-size", PROMPTS, "--device", device,
            "--prompt-file", self.prompts, "--prompt-tokens", 24])

    def their_scores(self):
        return self.results("scores", [self.python, self.bench / "peer_lambada.py", self.folder / "hf",
                                       self.texts, "--device", self.device])

    def their_texts(self):
        return self.results("texts", [
            self.python, self.bench / "peer_generate.py", self.folder / "hf", "--tokens", TOKENS,
            "--device", self.device, "--prompts", self.prompts, "--prompt-tokens", 24])

    def compare(self, name, scores, texts):
        """What the device found beside what another did."""
        for one, other in zip(self.scores, scores, strict=True):
            if one["target"] != other["target"]:
                sys.exit(f"error: {name}: example {one['index']}: targets {one['target']} and {other['target']}")
        for one, other in zip(self.texts_found, texts, strict=True):
            if one["prompt"] != other["prompt"]:
                sys.exit(f"error: {name}: prompts {one['prompt']} and {other['prompt']}")
        most = max(abs(one["logprob"] - other["logprob"]) / len(one["target"])
                   for one, other in zip(self.scores, scores))
        equal = [a == b for one, other in zip(self.texts_found, texts)
                 for a, b in zip(one["ids"], other["ids"], strict=True)]
        equal += [one["predicted"] == other["predicted"] for one, other in zip(self.scores, scores)]
        bound = 1e-4
        good = most <= bound and all(equal)
        self.failed |= not good
        print(f"| {name} | {most:.1e} | {bound:.0e} | {sum(equal)} of {len(equal)} | {'yes' if good else 'NO'} |",
              flush=True)

    def check(self):
        print(f"| fp32, {self.device}, beside | log probability | bound | equal tokens | within |\n"
              "|---|---:|---:|---:|---|")
        self.scores, self.texts_found = self.our_scores(self.device), self.our_texts(self.device)
        if self.device != "cpu":
            self.compare("the CPU", self.our_scores("cpu"), self.our_texts("cpu"))
        self.compare(f"transformers, {self.device}", self.their_scores(), self.their_texts())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--shared", type=pathlib.Path, default=SHARED)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--python", default=sys.executable, help="has torch and transformers")
    given = parser.parse_args()
    if not (given.shared / "bench").exists():
        print(f"skipped: no shared folder at {given.shared}")
        sys.exit(77)
    if subprocess.run([given.python, "-c", "import transformers, safetensors"], capture_output=True).returncode != 0:
        print(f"skipped: {given.python} has no transformers")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        parity = Parity(given, pathlib.Path(folder))
        parity.check()
    sys.exit(1 if parity.failed else 0)


if __name__ == "__main__":
    main()
