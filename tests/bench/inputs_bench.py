#!/usr/bin/env python3
"""Inputs of every kind beside plain JSON lines, and merge_datasets beside cp.

inputs_bench.py --build BUILD_FOLDER [--megabytes N] [--runs N]

Writes the same texts as JSON lines, one array, csv, gzip, xz and 200 gzip files; compares the outputs byte for
byte, then runs fresh processes in turns, all of the machine's cores each, files in tmpfs. merge_datasets joins four
datasets; its .bin is compared with what cat makes of theirs, which is also the peer. Prints medians as a Markdown table.
"""
import argparse
import csv
import filecmp
import gzip
import json
import lzma
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def write_inputs(folder, megabytes):
    """name -> flags of preprocess_data."""
    source = random.Random(1)
    words = ["".join(source.choices("etaoinshrdlu", k=source.randrange(1, 9))) for _ in range(5000)]
    texts = []
    for _ in range(megabytes * 1000):
        texts.append(" ".join(source.choices(words, k=180)))
    path = lambda name: os.path.join(folder, name)
    lines = [json.dumps({"text": text}) + "\n" for text in texts]
    whole = "".join(lines).encode()
    with open(path("lines.jsonl"), "wb") as out:
        out.write(whole)
    with open(path("array.json"), "w") as out:
        json.dump([{"text": text} for text in texts], out)
    with open(path("rows.csv"), "w", newline="") as out:
        csv.writer(out).writerows([["text"], *([text] for text in texts)])
    for name, packed in (("lines.gz", gzip.compress(whole, 1)), ("lines.xz", lzma.compress(whole, preset=0))):
        with open(path(name), "wb") as out:
            out.write(packed)
    os.mkdir(path("parts"))
    for k in range(200):
        part = "".join(lines[k * len(lines) // 200:(k + 1) * len(lines) // 200])
        with open(path(f"parts/{k:03}.gz"), "wb") as out:
            out.write(gzip.compress(part.encode(), 1))
    names = ("lines.jsonl", "array.json", "rows.csv", "lines.gz", "lines.xz", "parts")
    return {name: ["--input", path(name)] for name in names}, len(whole)


def seconds(command):
    begin = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - begin


def in_turns(commands, runs):
    times = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            times[name].append(seconds(command))
    return {name: statistics.median(values) for name, values in times.items()}


def same(one, other):
    if not filecmp.cmp(one, other, shallow=False):
        sys.exit(f"{one} and {other} differ")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    programs = os.path.join(os.path.abspath(options.build), "bin")
    tokenizer = os.path.join(ROOT, "testdata", "tokenizer")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        inputs, size = write_inputs(folder, options.megabytes)
        prefix = lambda name: os.path.join(folder, "out_" + name.replace(".", "_"))
        commands = {name: [os.path.join(programs, "preprocess_data"), *flags, "--output-prefix", prefix(name),
                           "--tokenizer-type", "GPT2BPETokenizer", "--append-eod",
                           "--vocab-file", os.path.join(tokenizer, "vocab.json"),
                           "--merge-file", os.path.join(tokenizer, "merges.txt")]
                    for name, flags in inputs.items()}
        for name in commands:
            seconds(commands[name])
            for end in ("bin", "idx"):
                same(f"{prefix('lines.jsonl')}_text_document.{end}", f"{prefix(name)}_text_document.{end}")
        medians = in_turns(commands, options.runs)
        print("| input | seconds | MB/s of JSON lines | of plain lines |\n|---|---|---|---|")
        for name, median in medians.items():
            print(f"| {name} | {median:.2f} | {size / 1e6 / median:.0f} | {medians['lines.jsonl'] / median:.2f} |")

        sets = [f"{prefix(name)}_text_document" for name in list(inputs)[:4]]
        joined, merged = os.path.join(folder, "joined"), os.path.join(folder, "merged")
        commands = {"cat of the .bin": ["sh", "-c", f"rm -f {joined}; cat {' '.join(s + '.bin' for s in sets)} > {joined}"],
                    "merge_datasets": ["sh", "-c", f"rm -f {merged}.*; {programs}/merge_datasets --input "
                                                   f"{' '.join(sets)} --output-prefix {merged}"]}
        for command in commands.values():
            seconds(command)
        same(joined, merged + ".bin")
        gigabytes = os.path.getsize(joined) / 1e9
        print(f"\n| {gigabytes:.2f} GB | seconds | GB/s |\n|---|---|---|")
        for name, median in in_turns(commands, options.runs).items():
            print(f"| {name} | {median:.3f} | {gigabytes / median:.2f} |")


if __name__ == "__main__":
    main()
