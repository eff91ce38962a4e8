#!/usr/bin/env python3
"""Inputs of every kind beside plain JSON lines, and merge_datasets beside cp.

inputs_bench.py --build BUILD_FOLDER [--megabytes N] [--runs N]

Writes the same texts as JSON lines, one array, csv, gzip, xz, zstd (one frame, and many), 2,000 gzip files and, where
pyarrow is found, Parquet; compares the outputs byte for byte, then runs fresh processes in turns, all of the machine's
cores each, files in tmpfs. Seconds of the clock, and of the processor, which a busy machine does not stretch as much. merge_datasets joins four
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
import resource
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    pyarrow = None

PARTS = 2000
FRAME_BYTES = 4 << 20
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
    for k in range(PARTS):
        part = "".join(lines[k * len(lines) // PARTS:(k + 1) * len(lines) // PARTS])
        with open(path(f"parts/{k:04}.json.gz"), "wb") as out:
            out.write(gzip.compress(part.encode(), 1))
    with open(path("lines.zst"), "wb") as one, open(path("frames.zst"), "wb") as many:
        one.write(zstd(whole))
        for at in range(0, len(whole), FRAME_BYTES):
            many.write(zstd(whole[at:at + FRAME_BYTES]))
    names = ["lines.jsonl", "array.json", "rows.csv", "lines.gz", "lines.xz", "lines.zst", "frames.zst", "parts"]
    if pyarrow is not None:
        pyarrow.parquet.write_table(pyarrow.table({"text": texts}), path("rows.parquet"), row_group_size=10000)
        names.append("rows.parquet")
    return {name: ["--input", path(name)] for name in names}, len(whole)


def zstd(content):
    return subprocess.run(["zstd", "-q", "-c"], input=content, check=True, stdout=subprocess.PIPE).stdout


def seconds(command):
    """Of the clock and of the processor."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return end - begin, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def in_turns(commands, runs):
    times = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            times[name].append(seconds(command))
    return {name: tuple(map(statistics.median, zip(*values))) for name, values in times.items()}


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
        print("| input | seconds | MB/s of JSON lines | of plain lines | processor seconds |\n|---|---|---|---|---|")
        plain = medians["lines.jsonl"][0]
        for name, (clock, processor) in medians.items():
            print(f"| {name} | {clock:.2f} | {size / 1e6 / clock:.0f} | {plain / clock:.2f} | {processor:.2f} |")

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
        for name, (clock, _) in in_turns(commands, options.runs).items():
            print(f"| {name} | {clock:.3f} | {gigabytes / clock:.2f} |")


if __name__ == "__main__":
    main()
