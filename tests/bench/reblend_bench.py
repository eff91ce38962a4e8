#!/usr/bin/env python3
"""reblend of a run on many large datasets.

reblend_bench.py [--datasets N] [--tokens N] [--document N] [--length N] [--views] [--build DIR] [--folder DIR]

Writes real .idx files over one sparse .bin (indices of samples depend on lengths alone), builds the caches of a run on
half of the datasets by prepare_cache, reblends the run when half of its samples are consumed, with all datasets, and checks
that prepare_cache finds every cache by the flags that reblend prints. --views: the datasets of the run are two views of each
.bin. Prints wall-clock and processor seconds and the largest memory. There is no peer.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import numpy

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def parse_arguments():
    cache = os.environ.get("MEG_DEPS") or os.path.expanduser("~/.cache/libmeg")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=int, default=50)
    parser.add_argument("--tokens", type=int, default=1_000_000_000, help="of each dataset")
    parser.add_argument("--document", type=int, default=1000, help="mean tokens of a document")
    parser.add_argument("--length", type=int, default=4096, help="--seq-length")
    parser.add_argument("--views", action="store_true")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--folder", default=os.path.join(cache, "bench"))
    return parser.parse_args()


def write_dataset(prefix, tokens, mean, seed):
    """MMIDIDX of uint16, one sequence a document; the .bin is a hole."""
    count = tokens // mean
    lengths = numpy.random.default_rng(seed).integers(1, 2 * mean, count, dtype=numpy.int32)
    pointers = numpy.zeros(count, numpy.int64)
    pointers[1:] = 2 * numpy.cumsum(lengths[:-1], dtype=numpy.int64)
    with open(prefix + ".idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + numpy.array([1], "<u8").tobytes() + b"\x08" + numpy.array([count, count + 1], "<u8").tobytes())
        file.write(lengths.tobytes() + pointers.tobytes() + numpy.arange(count + 1, dtype=numpy.int64).tobytes())
    with open(prefix + ".bin", "wb") as file:
        file.truncate(2 * int(lengths.sum(dtype=numpy.int64)))
    return count


def measured(name, command):
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - started
        out.seek(0)
        errors.seek(0)
        text = out.read()
        if status != 0:
            sys.exit(f"{name}: {errors.read()}")
    cpu = usage.ru_utime + usage.ru_stime
    print(f"| {name} | {wall:.2f} | {cpu:.2f} | {usage.ru_maxrss // 1024} |", flush=True)
    return text


def main():
    arguments = parse_arguments()
    os.makedirs(arguments.folder, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="reblend-", dir=arguments.folder)
    program = lambda name: os.path.join(arguments.build, "bin", name)
    try:
        prefixes = [os.path.join(folder, f"set{i}") for i in range(arguments.datasets)]
        for seed, prefix in enumerate(prefixes):
            count = write_dataset(prefix, arguments.tokens, arguments.document, seed)
        if arguments.views:
            views = []
            for prefix in prefixes:
                for name, part in (("first", f":{count // 2}"), ("second", f"{count // 2}:")):
                    views.append(f"{prefix}_{name}")
                    subprocess.run([program("dataset_tool"), "keep", prefix, "--documents", part, "--output-prefix", views[-1]],
                                   check=True, capture_output=True)
            prefixes = views
        half = prefixes[: len(prefixes) // 2]
        samples = int(len(half) * arguments.tokens // arguments.length * (0.4 if arguments.views else 0.8))
        common = ["--split", "99,1,0", "--seq-length", arguments.length, "--samples", f"{samples},{samples // 200},0",
                  "--tokenizer-type", "NullTokenizer", "--vocab-size", 50000]
        blend = [word for i, prefix in enumerate(half) for word in (1 + i % 3, prefix)]
        print(f"{len(prefixes)} datasets, {samples} samples of {arguments.length} tokens\n")
        print("| | s | processor s | MiB |\n|---|---:|---:|---:|")
        cache, after = os.path.join(folder, "cache"), os.path.join(folder, "after")
        measured("prepare_cache", [program("prepare_cache"), "--data-path", *blend, "--data-cache-path", cache, *common])
        blend_after = [word for i, prefix in enumerate(prefixes) for word in (1 + i % 4, prefix)]
        command = [program("reblend"), "--new-blend", *blend_after, "--consumed-samples", samples // 2, "--data-path", *blend,
                   "--data-cache-path", cache, *common]
        measured("reblend --dry-run", [*command, "--dry-run"])
        said = json.loads(measured("reblend", [*command, "--json", "--new-data-cache-path", after]))
        found = json.loads(measured("prepare_cache, all found", [program("prepare_cache"), "--json", *said["flags"], *common]))
        assert {cache["outcome"] for cache in found["caches"]} == {"found"}, found
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
