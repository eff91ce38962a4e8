#!/usr/bin/env python3
"""Samples read at random beside megatron-core's GPTDataset.__getitem__.

sample_bench.py [--documents N] [--samples K] [--seq-length L] [--runs R] [--folder DIR]

Makes a dataset of N documents of 50 to 1499 random tokens. The peer (peer_index.py --getitem of the
shared folder) and read_samples read the same K samples, in one process and thread each; the texts
are compared byte for byte first. Then fresh processes run interleaved; figures are medians over the
runs, of the peer's best pass and of libmeg's median pass. Everything is read once before it is
timed, so the data come from memory: DIR is best a tmpfs.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def parse_arguments():
    cache = os.environ.get("MEG_DEPS") or os.path.expanduser("~/.cache/libmeg")
    venv = os.path.join(cache, "venv", "bin", "python")
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=lambda text: int(float(text)), default=1_000_000)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--seq-length", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--shared", default=os.environ.get("MEG_SHARED")
                        or os.path.join(ROOT, "..", "shared"))
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "bench",
                                                          "read_samples"))
    parser.add_argument("--python", default=venv if os.path.exists(venv) else sys.executable,
                        help="that has torch and megatron-core")
    return parser.parse_args()


def make_dataset(prefix, documents):
    """uint16, one sequence a document."""
    dice = np.random.default_rng(1)
    lengths = dice.integers(50, 1500, documents, dtype=np.int32)
    pointers = 2 * (np.cumsum(lengths, dtype=np.int64) - lengths)
    with open(prefix + ".idx", "wb") as idx:
        idx.write(b"MMIDIDX\0\0" + np.array([1], "<u8").tobytes() + b"\x08"
                  + np.array([documents, documents + 1], "<u8").tobytes())
        for array in (lengths, pointers, np.arange(documents + 1, dtype=np.int64)):
            array.tofile(idx)
    with open(prefix + ".bin", "wb") as tokens:
        left = int(lengths.sum(dtype=np.int64))
        while left > 0:
            piece = dice.integers(0, 50257, min(left, 1 << 24), dtype=np.uint16)
            piece.tofile(tokens)
            left -= piece.size


def output_of(command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


class Bench:
    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder
        self.prefix = os.path.join(folder, "data")
        self.tokens = arguments.samples * arguments.seq_length

    def path(self, name):
        return os.path.join(self.folder, name)

    def peer(self, *more):
        """Million tokens a second of its best pass."""
        text = output_of([self.arguments.python,
                          os.path.join(self.arguments.shared, "bench", "peer_index.py"),
                          "--getitem", str(self.arguments.samples), "--dataset", self.prefix,
                          "--seq-length", str(self.arguments.seq_length), "--repeat", "3",
                          "--cache", self.path("peer-cache"), *more])
        return float(re.search(r"best ([0-9.]+) M tokens/s", text).group(1))

    def keep_peers_samples(self):
        self.peer("--split-out", self.folder)
        for name in ("numbers", "tokens"):
            np.load(self.path(name + ".npy")).astype("<i8").tofile(self.path(name))

    def libmeg(self):
        """Million tokens a second of each way's median pass; compares the texts first."""
        lines = output_of([self.arguments.program, self.prefix, self.path("cache"),
                           str(self.arguments.seq_length), self.path("numbers"),
                           self.path("tokens"), "5"]).splitlines()
        passes = {}
        for line in lines:
            way, seconds, _ = line.split()
            passes.setdefault(way, []).append(float(seconds))
        return {way: self.tokens / statistics.median(times) / 1e6
                for way, times in passes.items()}


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="sample_bench") as folder:
        bench = Bench(arguments, folder)
        make_dataset(bench.prefix, arguments.documents)
        bench.keep_peers_samples()
        bench.libmeg()
        print(f"{arguments.samples} samples x {arguments.seq_length}: texts are equal")
        peers, ours = [], []
        for _ in range(arguments.runs):
            peers.append(bench.peer())
            ours.append(bench.libmeg())
    peer = statistics.median(peers)
    print(f"{'':10} M tokens/s  ratio")
    print(f"{'peer':10} {peer:10.1f}")
    for way in ours[0]:
        rate = statistics.median(run[way] for run in ours)
        print(f"{way:10} {rate:10.1f} {rate / peer:5.1f}x")


if __name__ == "__main__":
    main()
