#!/usr/bin/env python3
"""Tokenizer.encode_batch of the Python package beside gigatoken's, and beside preprocess_data, in one run.

encode_batch_bench.py [--quick] [--runs N] [--bytes] [--workers N] [--corpus KIND ...]

Reads each corpus of preprocess_bench.py into a list of str (--bytes: of bytes), compares all ids with GPT-2's vocabulary,
then times fresh processes interleaved: medians of the wall-clock and processor seconds of one call, word caches cold,
imports and opening left out. preprocess_data's are those of encode + write from JSON lines. Prints a Markdown table.
--package: the folder of the package to measure (build/python/package; empty: the installed one).
"""
import json
import os
import statistics
import sys
import tempfile
import time

import numpy
import preprocess_bench as bench

PEER = "--run"


def run(side, path, folder, ids, as_bytes, workers):
    """One measurement, in this process."""
    with open(path, encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    if as_bytes:
        texts = [text.encode() for text in texts]
    if side == "gigatoken":
        import awkward
        import gigatoken
        tokenizer = gigatoken.Tokenizer(os.path.join(folder, "tokenizer.json"))
        gigatoken.Tokenizer(os.path.join(folder, "tokenizer.json")).encode_batch(["imports"])
    else:
        import libmeg
        tokenizer = libmeg.Tokenizer.open(folder)
    begin, processor = time.perf_counter(), time.process_time()
    encoded = tokenizer.encode_batch(texts) if side == "gigatoken" else tokenizer.encode_batch(texts, threads=workers)
    print(f"seconds {time.perf_counter() - begin:.4f} s, processor {time.process_time() - processor:.4f} s")
    if ids:
        found = encoded[0] if side == "libmeg" else numpy.asarray(awkward.flatten(encoded))
        numpy.save(ids, found.astype(numpy.int32))


def main():
    if sys.argv[1] == PEER:
        side, path, folder, ids, as_bytes, workers = sys.argv[2:]
        return run(side, path, folder, ids, as_bytes == "True", int(workers))
    as_bytes = "--bytes" in sys.argv
    package = os.path.join(bench.ROOT, "build", "python", "package")
    sys.argv = [argument for argument in sys.argv if argument != "--bytes"]
    if "--package" in sys.argv:
        at = sys.argv.index("--package")
        package = sys.argv[at + 1]
        del sys.argv[at:at + 2]
    arguments = bench.parse_arguments()
    os.environ["PYTHONPATH"] = package
    os.environ["RAYON_NUM_THREADS"] = str(arguments.workers)
    folder = bench.gpt2_folder(arguments)
    print("| corpus | MB | encode_batch s | gigatoken s | ratio | processor s | gigatoken s | ratio | peak MiB | "
          "gigatoken MiB | preprocess_data s | processor s |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for kind in arguments.corpus:
        path = bench.corpus(arguments, kind)
        with tempfile.TemporaryDirectory() as scratch:
            programs = bench.Bench(arguments, scratch)
            runs = {"libmeg": [], "gigatoken": [], "program": []}
            for i in range(arguments.runs):
                for side in ["libmeg", "gigatoken"]:
                    ids = os.path.join(scratch, side + ".npy") if i == 0 else ""
                    runs[side].append(bench.Run(
                        [arguments.python, os.path.abspath(__file__), PEER, side, path, folder, ids, str(as_bytes),
                         str(arguments.workers)], programs.cores, r"seconds ([\d.]+) s"))
                if i == 0 and not numpy.array_equal(*(numpy.load(os.path.join(scratch, f"{side}.npy"), mmap_mode="r")
                                                      for side in ["libmeg", "gigatoken"])):
                    sys.exit(f"{kind}: the ids differ")
                runs["program"].append(programs.ours(path, arguments.workers))
        ours, peer, program = (
            [statistics.median(getattr(run, what) for run in runs[side]) for what in ["inner", "processor", "peak"]]
            for side in ["libmeg", "gigatoken", "program"])
        print(f"| {kind} | {os.path.getsize(path) / 1e6:.0f} | {ours[0]:.2f} | {peer[0]:.2f} | {peer[0] / ours[0]:.2f}x | "
              f"{ours[1]:.2f} | {peer[1]:.2f} | {peer[1] / ours[1]:.2f}x | {ours[2] / bench.MIB:.0f} | "
              f"{peer[2] / bench.MIB:.0f} | {program[0]:.2f} | {program[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
