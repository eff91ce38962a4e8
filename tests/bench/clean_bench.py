#!/usr/bin/env python3
"""clean_dataset beside datatrove's filters and MinHash, rensa's signatures and Megatron's filter_ngrams.py, on the same texts,
outputs compared first.

clean_bench.py PROGRAM --corpus FILE.jsonl [--documents N] [--runs N] [--tasks TASK...]
               [--openwebtext FOLDER --lambada FILE.jsonl]

Times are CPU seconds, of the user and the system, of one worker, medians of the runs, so that a machine that does other work can be
measured on; the start of the program is included. datatrove's filters and rensa do not read the file; datatrove's local executor does,
and writes one. --openwebtext: the folder of Megatron's script. Prints a Markdown table.
"""
import argparse
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile

import xxhash
from datatrove.data import Document
from datatrove.executor.local import LocalPipelineExecutor
from datatrove.pipeline import filters
from datatrove.pipeline.dedup import minhash
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
from rensa import RMinHash

RULES = {"gopher_repetition": filters.GopherRepetitionFilter, "gopher_quality": filters.GopherQualityFilter,
         "c4": filters.C4QualityFilter, "fineweb": filters.FineWebQualityFilter}


def cpu_seconds():
    """Of this process and those that it waited for."""
    return sum(os.times()[:4])


def timed(runs, work):
    times = []
    for _ in range(runs):
        begin = cpu_seconds()
        answer = work()
        times.append(cpu_seconds() - begin)
    return statistics.median(times), answer


def survivors(texts):
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        of = [Document(text=text, id=str(i)) for i, text in enumerate(texts)]
        minhash.MinhashDedupSignature(f"{folder}/1").run(of, 0, 1)
        for rank in range(14):
            minhash.MinhashDedupBuckets(f"{folder}/1", f"{folder}/2").run(None, rank, 14)
        minhash.MinhashDedupCluster(f"{folder}/2", f"{folder}/3").run(None, 0, 1)
        return [int(document.id) for document in minhash.MinhashDedupFilter(f"{folder}/3").run(of, 0, 1)]


def executed(source):
    """The survivors of datatrove's four stages on a file, each by its local executor."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        reader = JsonlReader(os.path.dirname(source), glob_pattern=os.path.basename(source))
        stages = [([reader, minhash.MinhashDedupSignature(f"{folder}/1")], 1),
                  ([minhash.MinhashDedupBuckets(f"{folder}/1", f"{folder}/2")], 14),
                  ([minhash.MinhashDedupCluster(f"{folder}/2", f"{folder}/3")], 1),
                  ([reader, minhash.MinhashDedupFilter(f"{folder}/3"),
                    JsonlWriter(f"{folder}/4", output_filename="${rank}.jsonl", compression=None)], 1)]
        for number, (pipeline, tasks) in enumerate(stages):
            LocalPipelineExecutor(pipeline, tasks=tasks, workers=1, logging_dir=f"{folder}/log{number}").run()
        with open(f"{folder}/4/00000.jsonl") as file:
            return [int(json.loads(line)["id"]) for line in file]


def kept_by(name, texts):
    judge = RULES[name]()
    return [i for i, text in enumerate(texts) if judge.filter(Document(text=text, id=str(i))) is True]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3)
    names = [*RULES, "exact_duplicates", "decontaminate", "near_duplicates", "executor", "rensa"]
    parser.add_argument("--tasks", nargs="+", choices=names, default=names)
    parser.add_argument("--openwebtext")
    parser.add_argument("--lambada")
    arguments = parser.parse_args()
    with open(arguments.corpus) as file:
        texts = [json.loads(line)["text"] for line, _ in zip(file, range(arguments.documents))]
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        source, output = f"{folder}/in.jsonl", f"{folder}/out.jsonl"
        with open(source, "w") as file:
            file.writelines(json.dumps({"id": str(i), "text": text}) + "\n" for i, text in enumerate(texts))

        def run(*flags):
            subprocess.run([arguments.program, "--input", source, "--output", output, "--workers", "1", "--json", *flags],
                           check=True, stdout=subprocess.DEVNULL)
            with open(output) as file:
                return [(int(one["id"]), one["text"]) for one in map(json.loads, file)]

        def compare(task, flags, peer, work):
            found = run(*flags)
            theirs, expected = timed(1, work)
            if expected and not isinstance(expected[0], tuple):
                found = [number for number, _ in found]
            assert found == expected, f"{task}: outputs differ"
            ours, _ = timed(arguments.runs, lambda: subprocess.run(
                [arguments.program, "--input", source, "--output", output, "--workers", "1", "--json", *flags], check=True,
                stdout=subprocess.DEVNULL))
            rows.append((task, ours, megabytes / ours, peer, theirs, megabytes / theirs, theirs / ours))

        for name in RULES:
            if name in arguments.tasks:
                compare(name, ["--quality", name], "datatrove", lambda name=name: kept_by(name, texts))

        def first_ones():
            seen = set()
            return [i for i, text in enumerate(texts) if not (xxhash.xxh128_digest(text.encode()) in seen
                                                              or seen.add(xxhash.xxh128_digest(text.encode())))]
        if "exact_duplicates" in arguments.tasks:
            compare("exact duplicates", ["--exact-duplicates"], "Python's set of xxhash's digests", first_ones)

        def script():  # One process: threads of Python's multiprocessing would count twice.
            subprocess.run([sys.executable, f"{arguments.openwebtext}/filter_ngrams.py", "--tasks", "lambada", "--lambada-path",
                            arguments.lambada, "--dedup-dataset", source, "text", "--output", f"{folder}/script.jsonl",
                            "--num-threads", "1"], check=True, capture_output=True)
            with open(f"{folder}/script.jsonl") as file:
                return [(int(one["id"]), one["text"]) for one in map(json.loads, file)]
        if "decontaminate" in arguments.tasks and arguments.openwebtext:
            compare("decontaminate", ["--decontaminate", arguments.lambada], "filter_ngrams.py", script)
        if "near_duplicates" in arguments.tasks:
            compare("near duplicates", ["--near-duplicates"], "datatrove", lambda: survivors(texts))
        if "executor" in arguments.tasks:
            compare("near duplicates", ["--near-duplicates"], "datatrove's local executor", lambda: executed(source))

        def signatures():  # of words, which rensa does not split, normalize or join into 5-grams
            for text in texts:
                words = text.split()
                signature = RMinHash(num_perm=112, seed=1)
                signature.update([" ".join(words[i:i + 5]) for i in range(len(words) - 4)])
                signature.digest()
        if "rensa" in arguments.tasks:
            ours, _ = timed(arguments.runs, lambda: run("--near-duplicates"))
            theirs, _ = timed(arguments.runs, signatures)
            rows.append(("signatures (ours: the whole run)", ours, megabytes / ours, "rensa", theirs, megabytes / theirs,
                         theirs / ours))
    print(f"{len(texts)} documents, {megabytes:.1f} MB, {os.cpu_count()} processors\n")
    print("| task | libmeg s | MB/s | peer | peer s | MB/s | ratio |\n|---|---:|---:|---|---:|---:|---:|")
    for task, ours, speed, peer, theirs, their_speed, ratio in rows:
        print(f"| {task} | {ours:.2f} | {speed:.1f} | {peer} | {theirs:.2f} | {their_speed:.2f} | {ratio:.1f}x |")


if __name__ == "__main__":
    main()
