#!/usr/bin/env python3
"""clean_dataset beside datatrove's filters and MinHash, and rensa's signatures, on the same texts, outputs compared first.

clean_bench.py PROGRAM --corpus FILE.jsonl [--documents N] [--runs N]

Times are wall-clock seconds of one worker (datatrove and rensa: without reading the file), medians of the runs; the start of
the program is included. Prints a Markdown table.
"""
import argparse
import contextlib
import io
import json
import os
import statistics
import subprocess
import tempfile
import time

from datatrove.data import Document
from datatrove.pipeline import filters
from datatrove.pipeline.dedup import minhash
from rensa import RMinHash

RULES = {"gopher_repetition": filters.GopherRepetitionFilter, "gopher_quality": filters.GopherQualityFilter,
         "c4": filters.C4QualityFilter, "fineweb": filters.FineWebQualityFilter}


def timed(runs, work):
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        answer = work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times), answer


def survivors(texts):
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        of = [Document(text=text, id=str(i)) for i, text in enumerate(texts)]
        minhash.MinhashDedupSignature(f"{folder}/1").run(of, 0, 1)
        for rank in range(14):
            minhash.MinhashDedupBuckets(f"{folder}/1", f"{folder}/2").run(None, rank, 14)
        minhash.MinhashDedupCluster(f"{folder}/2", f"{folder}/3").run(None, 0, 1)
        return [int(document.id) for document in minhash.MinhashDedupFilter(f"{folder}/3").run(of, 0, 1)]


def kept_by(name, texts):
    judge = RULES[name]()
    return [i for i, text in enumerate(texts) if judge.filter(Document(text=text, id=str(i))) is True]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    with open(arguments.corpus) as file:
        texts = [json.loads(line)["text"] for line, _ in zip(file, range(arguments.documents))]
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        source, output = f"{folder}/in.jsonl", f"{folder}/out.jsonl"
        with open(source, "w") as file:
            file.writelines(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(texts))

        def run(*flags):
            subprocess.run([arguments.program, "--input", source, "--output", output, "--workers", "1", "--json", *flags],
                           check=True, stdout=subprocess.DEVNULL)
            with open(output) as file:
                return [json.loads(line)["id"] for line in file]

        def compare(task, flags, peer, work):
            found, expected = run(*flags), work()
            assert found == expected, f"{task}: outputs differ"
            ours, _ = timed(arguments.runs, lambda: subprocess.run(
                [arguments.program, "--input", source, "--output", output, "--workers", "1", "--json", *flags], check=True,
                stdout=subprocess.DEVNULL))
            theirs, _ = timed(1, work)
            rows.append((task, ours, megabytes / ours, peer, theirs, megabytes / theirs, theirs / ours))

        for name in RULES:
            compare(name, ["--quality", name], "datatrove", lambda name=name: kept_by(name, texts))
        compare("near duplicates", ["--near-duplicates"], "datatrove", lambda: survivors(texts))
        ours = rows[-1][1]

        def signatures():  # of words, which rensa does not split, normalize or join into 5-grams
            for text in texts:
                words = text.split()
                signature = RMinHash(num_perm=112, seed=1)
                signature.update([" ".join(words[i:i + 5]) for i in range(len(words) - 4)])
                signature.digest()
        theirs, _ = timed(arguments.runs, signatures)
        rows.append(("signatures (ours: the whole run)", ours, megabytes / ours, "rensa", theirs, megabytes / theirs,
                     theirs / ours))
    print(f"{len(texts)} documents, {megabytes:.1f} MB, {os.cpu_count()} processors\n")
    print("| task | libmeg s | MB/s | peer | peer s | MB/s | ratio |\n|---|---:|---:|---|---:|---:|---:|")
    for task, ours, speed, peer, theirs, their_speed, ratio in rows:
        print(f"| {task} | {ours:.2f} | {speed:.1f} | {peer} | {theirs:.2f} | {their_speed:.2f} | {ratio:.1f}x |")


if __name__ == "__main__":
    main()
