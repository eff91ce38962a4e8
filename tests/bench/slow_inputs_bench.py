#!/usr/bin/env python3
"""Inputs that are hard for word caches and JSON readers: preprocess_data beside gigatoken.

slow_inputs_bench.py [--runs N] [--megabytes N] [--case NAME ...]

Makes JSON lines from fixed seeds, compares the outputs byte for byte, then times fresh processes in
turns, one worker each. Figures are medians of CPU seconds (user and system), without imports
and without the opening of the tokenizer. Prints a Markdown table.
"""
import argparse
import filecmp
import json
import os
import random
import re
import resource
import statistics
import string
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def words(letters, sizes, distinct=None):
    """A function that draws a document: one word with a blank before it, of one of `sizes`."""
    def draw(source):
        if distinct and len(known) == distinct:
            return " " + source.choice(known)
        word = "".join(source.choices(letters, k=source.choice(sizes)))
        if distinct:
            known.append(word)
        return " " + word
    known = []
    return draw


def nested(depth):
    """Lines whose other key holds lists and objects inside one another."""
    def draw(source):
        half = depth // 2
        value = '{"k": [' * half + str(source.randrange(1000)) + "]}" * half
        return f'{{"meta": {value}, "text": "a short text {source.randrange(10**6)}"}}\n'
    return draw


LETTERS = string.ascii_lowercase
GREEK = "".join(chr(c) for c in range(0x3b1, 0x3ca))
TEXTS = {
    "ordinary words": words(LETTERS, range(2, 9), 5000),
    "repeated, 500 letters": words(LETTERS, [500], 500),
    "repeated, 1,100 letters": words(LETTERS, [1100], 500),
    "repeated, 3,000 letters": words(LETTERS, [3000], 300),
    "repeated, 10,000 letters": words(LETTERS, [10000], 100),
    "repeated, 1,000 Greek letters": words(GREEK, [1000], 300),
    "unique, 30 to 99 letters": words(LETTERS, range(30, 100)),
    "unique, 300 letters": words(LETTERS, [300]),
    "unique, 1,000 letters": words(LETTERS, [1000]),
    "unique, 4,000 letters": words(LETTERS, [4000]),
    "unique, 50,000 letters": words(LETTERS, [50000]),
    "unique, 300 Greek letters": words(GREEK, [300]),
    "one letter, 50,000 times": words("a", range(49000, 50000)),
    "unique, 40 digits": words(string.digits, [40]),
    "unique, 300 digits": words(string.digits, [300]),
    "unique, 4,000 digits": words(string.digits, [4000]),
}
LINES = {
    "JSON nested 10 deep": nested(10),
    "JSON nested 90 deep": nested(90),
    "JSON nested 300 deep": nested(300),
    "JSON nested 900 deep": nested(900),
}


def parse_arguments():
    cache = os.environ.get("MEG_DEPS") or os.path.expanduser("~/.cache/libmeg")
    venv = os.path.join(cache, "venv", "bin", "python")
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=30)
    parser.add_argument("--case", nargs="+", default=[*TEXTS, *LINES])
    parser.add_argument("--shared", default=os.environ.get("MEG_SHARED")
                        or os.path.join(ROOT, "..", "shared"))
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "bin", "preprocess_data"))
    parser.add_argument("--python", default=venv if os.path.exists(venv) else sys.executable,
                        help="that has the peer's packages")
    return parser.parse_args()


def write_input(case, path, size):
    """Documents of about 100 KB (or one line a drawing) until the file has `size` bytes."""
    source = random.Random(case)
    with open(path, "w", encoding="utf8") as out:
        while out.tell() < size:
            if case in LINES:
                out.write(LINES[case](source))
                continue
            text = TEXTS[case](source)
            while len(text) < 100_000:
                text += TEXTS[case](source)
            out.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")


class Bench:
    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder
        self.bench = os.path.join(arguments.shared, "bench")
        gpt2 = os.path.join(arguments.shared, "data", "gpt2")
        self.files = ["--vocab-file", os.path.join(gpt2, "vocab.json"),
                      "--merge-file", os.path.join(gpt2, "merges.txt"), "--workers", "1"]
        self.core = {max(os.sched_getaffinity(0))}
        first = self.path("one_line.jsonl")
        with open(first, "w", encoding="utf8") as out:
            out.write('{"text": "a"}\n')
        self.opening = 0
        self.opening = statistics.median(self.ours(first) for _ in range(9))

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, command):
        return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL,
                              preexec_fn=lambda: os.sched_setaffinity(0, self.core)).stdout

    def ours(self, path):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.run([self.arguments.program, "--input", path, "--output-prefix", self.path("ours"),
                  "--tokenizer-type", "GPT2BPETokenizer", "--append-eod", *self.files])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                - self.opening)

    def peer(self, path):
        """What peer_preprocess.py prints, its clock exchanged for the processor's."""
        exchange = ("import sys, time; time.perf_counter = time.process_time; "
                    "sys.path.insert(0, sys.argv[1]); del sys.argv[1]; "
                    "import peer_preprocess; peer_preprocess.main()")
        output = self.run([self.arguments.python, "-c", exchange, self.bench, "gigatoken", path,
                           self.path("peer"), *self.files])
        return float(re.search(r"documents, ([\d.]+) s", output).group(1))

    def check_outputs(self, case):
        for ending in (".bin", ".idx"):
            ours = self.path("ours_text_document" + ending)
            if not filecmp.cmp(ours, self.path("peer" + ending), shallow=False):
                sys.exit(f"{case}: the outputs' {ending} differ")

    def row(self, case):
        path = self.path("input.jsonl")
        write_input(case, path, self.arguments.megabytes * 1_000_000)
        ours, peer = [], []
        for i in range(self.arguments.runs):
            peer.append(self.peer(path))
            ours.append(self.ours(path))
            if i == 0:
                self.check_outputs(case)
        ours, peer = statistics.median(ours), statistics.median(peer)
        return f"| {case} | {ours:.2f} | {peer:.2f} | {peer / ours:.2f}x |"


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="slow-inputs-", dir="/dev/shm") as folder:
        bench = Bench(arguments, folder)
        print(f"{arguments.megabytes} MB a case, medians of {arguments.runs} interleaved runs\n")
        print("| case | s | gigatoken s | ratio |\n|---|---:|---:|---:|")
        for case in arguments.case:
            print(bench.row(case), flush=True)


if __name__ == "__main__":
    main()
