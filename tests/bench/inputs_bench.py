#!/usr/bin/env python3
"""Inputs of every kind, --resume and --provenance beside plain JSON lines, and merge_datasets beside cp.

inputs_bench.py --build BUILD_FOLDER [--corpus FILE] [--megabytes N] [--workers N] [--runs N] [--only NAME ...]

Writes the same texts, random words or those of a file of JSON lines, as JSON lines, one array, csv, gzip, xz, zstd (one
frame, and many), 2,000 gzip files and, where pyarrow is found, Parquet (row groups of 1,000 rows, of 10,000, one) and
Arrow; compares the outputs byte for byte, then alternates fresh processes, files in tmpfs. Reports wall-clock seconds and
CPU seconds, which depend less on the load of the machine; both also as medians of each turn's ratio to the row that the goals
compare with. With --workers 1 on two cores one is left for the thread that unpacks. merge_datasets joins four datasets; its .bin
is compared with what cat makes of theirs; the peer is cp of the joined pair, which is as many bytes.
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
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import pyarrow
    import pyarrow.ipc
    import pyarrow.parquet
except ImportError:
    pyarrow = None

PARTS = 2000
MERGED = 4
FRAME_BYTES = 4 << 20
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLAIN = "lines.jsonl"
PEERS = {"parts": "lines.gz"}  # what a row is compared with; PLAIN where nothing is said


def texts_of(corpus, megabytes):
    if corpus is None:
        source = random.Random(1)
        words = ["".join(source.choices("etaoinshrdlu", k=source.randrange(1, 9))) for _ in range(5000)]
        return [" ".join(source.choices(words, k=180)) for _ in range(megabytes * 1000)]
    texts, left = [], megabytes * 1_000_000
    with open(corpus, encoding="utf-8") as lines:
        for line in lines:
            texts.append(json.loads(line)["text"])
            left -= len(line)
            if left < 0:
                break
    return texts


def write_inputs(folder, texts):
    """name -> flags of preprocess_data, and the bytes of JSON lines."""
    path = lambda name: os.path.join(folder, name)
    lines = [json.dumps({"text": text}) + "\n" for text in texts]
    whole = "".join(lines).encode()
    with open(path(PLAIN), "wb") as out:
        out.write(whole)
    with open(path("array.json"), "w") as out:
        json.dump([{"text": text} for text in texts], out)
    with open(path("rows.csv"), "w", newline="", encoding="utf-8") as out:
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
    names = [PLAIN, "array.json", "rows.csv", "lines.gz", "parts", "lines.xz", "lines.zst", "frames.zst"]
    if pyarrow is not None:
        table = pyarrow.table({"text": texts})
        for name, rows in (("groups_of_1000.parquet", 1000), ("groups_of_10000.parquet", 10000), ("one_group.parquet", len(texts))):
            pyarrow.parquet.write_table(table, path(name), row_group_size=rows)
            names.append(name)
        with pyarrow.OSFile(path("batches_of_1000.arrow"), "wb") as out, pyarrow.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table, max_chunksize=1000)
        names.append("batches_of_1000.arrow")
    flags = {name: ["--input", path(name)] for name in names}
    for flag in ("--provenance", "--resume"):
        flags[flag] = ["--input", path(PLAIN), flag]
    return flags, len(whole)


def zstd(content):
    return subprocess.run(["zstd", "-q", "-c"], input=content, check=True, stdout=subprocess.PIPE).stdout


def seconds(command, prefix):
    """Wall-clock and CPU seconds; files that begin with `prefix` are removed first."""
    folder, name = os.path.split(prefix)
    for entry in os.listdir(folder):
        if entry.startswith(name):
            shutil.rmtree(os.path.join(folder, entry)) if entry.endswith(".resume") else os.remove(os.path.join(folder, entry))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return end - begin, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def in_turns(commands, runs):
    """name -> (clock, processor) of each turn."""
    times = {name: [] for name in commands}
    for _ in range(runs):
        for name, (command, prefix) in commands.items():
            times[name].append(seconds(command, prefix))
    return times


def median(values):
    return statistics.median(values)


def ratio(times, others, which):
    """Of the other's seconds to these: above 1 this is quicker."""
    return median([other[which] / one[which] for one, other in zip(times, others)])


def same(one, other):
    if not filecmp.cmp(one, other, shallow=False):
        sys.exit(f"{one} and {other} differ")


def inputs_table(options, folder, programs):
    """Prints it and returns the datasets' prefixes."""
    tokenizer = os.path.join(ROOT, "testdata", "tokenizer")
    inputs, size = write_inputs(folder, texts_of(options.corpus, options.megabytes))
    prefix = lambda name: os.path.join(folder, "out_" + name.replace(".", "_"))
    commands = {name: ([os.path.join(programs, "preprocess_data"), *flags, "--output-prefix", prefix(name),
                        "--tokenizer-type", "GPT2BPETokenizer", "--append-eod", "--workers", str(options.workers),
                        "--vocab-file", options.vocab_file or os.path.join(tokenizer, "vocab.json"),
                        "--merge-file", options.merge_file or os.path.join(tokenizer, "merges.txt")], prefix(name))
                for name, flags in inputs.items() if not options.only or name in (PLAIN, *PEERS.values(), *options.only)}
    for name in commands:
        seconds(*commands[name])
        for end in ("bin", "idx"):
            same(f"{prefix(PLAIN)}_text_document.{end}", f"{prefix(name)}_text_document.{end}")
    times = in_turns(commands, options.runs)
    print(f"{size / 1e6:.0f} MB of JSON lines, {options.workers} workers, medians of {options.runs}\n")
    print("| input | wall-clock s | MB/s of JSON lines | CPU s | beside | wall-clock ratio | CPU ratio |\n|---|---:|---:|---:|---|---:|---:|")
    for name, found in times.items():
        peer = PEERS.get(name, PLAIN)
        clock = median([one[0] for one in found])
        print(f"| {name} | {clock:.3f} | {size / 1e6 / clock:.0f} | {median([one[1] for one in found]):.3f} | {peer} | "
              f"{ratio(found, times[peer], 0):.2f} | {ratio(found, times[peer], 1):.2f} |")
    return [f"{prefix(name)}_text_document" for name in list(commands)[:MERGED]]


def merge_table(options, folder, programs, sets):
    while len(sets) < MERGED:
        sets.append(sets[0])
    joined, merged, copied = (os.path.join(folder, name) for name in ("joined", "merged", "copied"))
    merge = [os.path.join(programs, "merge_datasets"), *sets, "--output-prefix"]
    with open(joined + ".bin", "wb") as out:
        subprocess.run(["cat", *(one + ".bin" for one in sets)], check=True, stdout=out)
    seconds([*merge, merged], merged)
    same(joined + ".bin", merged + ".bin")
    shutil.copy(merged + ".idx", joined + ".idx")
    copy = f"cp {joined}.bin {copied}.bin && cp {joined}.idx {copied}.idx"
    cat = f"cat {' '.join(one + '.bin' for one in sets)} > {copied}.bin && cp {joined}.idx {copied}.idx"
    times = in_turns({"cp": (["sh", "-c", copy], copied), "cat": (["sh", "-c", cat], copied),
                      "merge_datasets": ([*merge, merged], merged)}, options.runs)
    gigabytes = sum(os.path.getsize(joined + end) for end in (".bin", ".idx")) / 1e9
    print(f"\n| {gigabytes:.2f} GB of .bin and .idx | seconds | GB/s | beside cp |\n|---|---:|---:|---:|")
    for name, found in times.items():
        clock = median([one[0] for one in found])
        print(f"| {name} | {clock:.3f} | {gigabytes / clock:.2f} | {ratio(found, times['cp'], 0):.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--corpus", help="JSON lines to take the texts of instead of random words")
    parser.add_argument("--vocab-file")
    parser.add_argument("--merge-file")
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[], help="rows of the first table beside those they are compared with")
    options = parser.parse_args()
    programs = os.path.join(os.path.abspath(options.build), "bin")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        sets = inputs_table(options, folder, programs)
        merge_table(options, folder, programs, sets)


if __name__ == "__main__":
    main()
