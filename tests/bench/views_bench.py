#!/usr/bin/env python3
"""dataset_tool beside numpy, cp and Megatron's IndexedDatasetBuilder in Python, in one run.

views_bench.py [--quick] [--runs N] [--documents N] [--tokens N] [--build DIR] [--folder DIR]

Makes a dataset of 100 million documents (--quick: 5 million) whose .bin is a hole, and one of 2 billion
uint16 tokens (--quick: 0.2 billion) in documents of 1 to 1200 tokens. Each of ours is compared with what numpy
makes of the same arrays before anything is timed: the .idx of views, byte for byte, the .idx that repair finds, the
counts of stat, and the copy of a shuffle, token for token. Then fresh processes take turns; each figure is a median.
Bandwidth is that of numpy adding up the same mapped bytes as uint64 on one thread. Files lie in --folder, and are in
the page cache.
"""
import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SEED, EOD = 7, 49999
MEGABYTE = 1e6


def write_index(path, lengths, pointers, documents, dtype_code):
    with open(path, "wb") as file:
        file.write(b"MMIDIDX\0\0" + (1).to_bytes(8, "little") + bytes([dtype_code]) + len(lengths).to_bytes(8, "little")
                   + len(documents).to_bytes(8, "little"))
        for array, dtype in ((lengths, numpy.int32), (pointers, numpy.int64), (documents, numpy.int64)):
            array.astype(dtype, copy=False).tofile(file)


def read_index(path):
    with open(path, "rb") as file:
        head = file.read(34)
    sequences, documents = (int.from_bytes(head[at:at + 8], "little") for at in (18, 26))
    return (numpy.memmap(path, numpy.int32, "r", 34, (sequences,)),
            numpy.memmap(path, numpy.int64, "r", 34 + 4 * sequences, (sequences,)),
            numpy.memmap(path, numpy.int64, "r", 34 + 12 * sequences, (documents,)))


# What the peers do, each in a process of its own: `views_bench.py --peer NAME SOURCE OUTPUT`.

def peer_view(source, output, chosen):
    """One sequence a document."""
    lengths, pointers, _ = read_index(source + ".idx")
    chosen = chosen(len(lengths))
    write_index(output + ".idx", lengths[chosen], pointers[chosen], numpy.arange(len(lengths[chosen]) + 1), 8)


def peer_copy(source, output):
    lengths, pointers, _ = read_index(source + ".idx")
    order = numpy.random.RandomState(SEED).permutation(len(lengths))
    tokens = numpy.memmap(source + ".bin", numpy.uint16, "r")
    with open(output + ".bin", "wb") as file:
        for document in order:
            begin = pointers[document] // 2
            tokens[begin:begin + lengths[document]].tofile(file)
    lengths = lengths[order]
    write_index(output + ".idx", lengths, numpy.concatenate([[0], numpy.cumsum(lengths[:-1], dtype=numpy.int64)]) * 2,
                numpy.arange(len(lengths) + 1), 8)


def peer_builder(source, output):
    import torch
    from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder
    data = IndexedDataset(source)
    builder = IndexedDatasetBuilder(output + ".bin", dtype=numpy.uint16)
    for document in numpy.random.RandomState(SEED).permutation(len(data.document_indices) - 1):
        for sequence in range(data.document_indices[document], data.document_indices[document + 1]):
            builder.add_item(torch.from_numpy(data[sequence].astype(numpy.int32)))
        builder.end_document()
    builder.finalize(output + ".idx")


def peer_repair(source, output):
    tokens = numpy.memmap(source + ".bin", numpy.uint16, "r")
    ends = numpy.flatnonzero(tokens == EOD) + 1
    lengths = numpy.diff(ends, prepend=0)
    write_index(output + ".idx", lengths, (ends - lengths) * 2, numpy.arange(len(lengths) + 1), 8)


def peer_stat(source, output):
    tokens = numpy.memmap(source + ".bin", numpy.uint16, "r")
    counts = sum(numpy.bincount(tokens[at:at + (1 << 24)], minlength=1 << 16) for at in range(0, len(tokens), 1 << 24))
    numpy.save(output + ".npy", counts)


def peer_read(source, output):
    print(int(numpy.memmap(source + ".bin", numpy.uint64, "r").sum()))


PEERS = {
    "slice": lambda s, o: peer_view(s, o, lambda count: slice(1000, count * 99 // 100)),
    "exclude": lambda s, o: peer_view(s, o, lambda count: numpy.delete(numpy.arange(count), [5, 77, *range(1000, 2000)])),
    "shuffle": lambda s, o: peer_view(s, o, lambda count: numpy.random.RandomState(SEED).permutation(count)),
    "copy": peer_copy, "builder": peer_builder, "repair": peer_repair, "stat": peer_stat, "read": peer_read,
}


class Bench:
    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder
        self.tool = os.path.join(arguments.build, "bin", "dataset_tool")
        self.many, self.large = (os.path.join(folder, name) for name in ("many", "large"))

    def make(self):
        generator = numpy.random.RandomState(1)
        lengths = generator.randint(1, 40, self.arguments.documents).astype(numpy.int32)
        ends = numpy.cumsum(lengths, dtype=numpy.int64)
        write_index(self.many + ".idx", lengths, (ends - lengths) * 2, numpy.arange(len(lengths) + 1), 8)
        with open(self.many + ".bin", "wb") as file:
            file.truncate(int(ends[-1]) * 2)
        with open(self.large + ".bin", "wb") as file:
            left = self.arguments.tokens
            while left > 0:
                part = generator.randint(0, EOD, min(left, 1 << 24)).astype(numpy.uint16)
                part[numpy.cumsum(generator.randint(1, 1200, len(part) // 300)) % len(part)] = EOD
                part[-1] = EOD
                part.tofile(file)
                left -= len(part)
        peer_repair(self.large, self.large)

    def run(self, command):
        """Seconds, seconds of processors and the peak of memory in MB."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begin = time.monotonic()
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"error: {command} ended with {process.returncode}")
        return (seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / MEGABYTE), output

    def ours(self, name, *arguments):
        for end in (".bin", ".idx", ".libmeg"):
            if os.path.lexists(self.path("ours-" + name + end)):
                os.remove(self.path("ours-" + name + end))
        return self.run([self.tool, *arguments, "--json"])

    def peer(self, name, source):
        for end in (".bin", ".idx"):
            if os.path.exists(self.path("peer-" + name + end)):
                os.remove(self.path("peer-" + name + end))
        return self.run([self.arguments.python, os.path.abspath(__file__), "--peer", name, source, self.path("peer-" + name)])

    def path(self, name):
        return os.path.join(self.folder, name)

    def assert_equal(self, name, ends):
        for end in ends:
            ours, peer = (self.path(side + name + end) for side in ("ours-", "peer-"))
            if subprocess.run(["cmp", "-s", ours, peer]).returncode:
                sys.exit(f"error: {ours} and {peer} differ")

    def compare(self, title, name, source, arguments, ends, peers):
        """Compares, then times ours and the peers in turn."""
        _, answer = self.ours(name, *arguments)
        for peer in peers:
            if peer == "cp":
                continue
            self.peer(peer, source)
            if peer == name:
                self.assert_equal(name, ends)
        if name == "stat":
            found = {token["id"]: token["count"] for token in json.loads(answer)["most_frequent_tokens"]}
            counts = numpy.load(self.path("peer-stat.npy"))
            if found != {i: count for i, count in enumerate(counts.tolist()) if count}:
                sys.exit("error: the counts of tokens differ")
        runs = {"ours": [], **{peer: [] for peer in peers}}
        for _ in range(self.arguments.runs):
            runs["ours"].append(self.ours(name, *arguments)[0])
            for peer in peers:
                if peer == "cp":
                    shutil.rmtree(self.path("cp"), ignore_errors=True)
                    os.mkdir(self.path("cp"))
                    runs[peer].append(self.run(["cp", source + ".bin", source + ".idx", self.path("cp")])[0])
                else:
                    runs[peer].append(self.peer(peer, source)[0])
        medians = {who: [statistics.median(run[i] for run in of) for i in range(3)] for who, of in runs.items()}
        for who, (seconds, processor, peak) in medians.items():
            ratio = seconds / medians["ours"][0]
            print(f"| {title} | {'dataset_tool' if who == 'ours' else who} | {seconds:.2f} | {processor:.2f} | {peak:.0f} | "
                  f"{ratio:.2f} |", flush=True)

    def run_all(self):
        # In a process of its own, so that this one stays small: a child begins with its size.
        self.run([self.arguments.python, os.path.abspath(__file__), *sys.argv[1:], "--make", self.folder])
        out = lambda name: ("--output-prefix", self.path("ours-" + name))
        print("| | by | s | CPU s | peak MB | times ours |\n|---|---|---:|---:|---:|---:|")
        last = self.arguments.documents * 99 // 100
        self.compare("slice", "slice", self.many, ["slice", self.many, "--documents", f"1000:{last}", *out("slice")],
                     [".idx"], ["slice"])
        self.compare("exclude", "exclude", self.many, ["exclude", self.many, "--documents", "5,77,1000:2000", *out("exclude")],
                     [".idx"], ["exclude"])
        self.compare("shuffle", "shuffle", self.many, ["shuffle", self.many, "--seed", SEED, *out("shuffle")], [".idx"],
                     ["shuffle"])
        self.compare("shuffle --copy", "copy", self.large, ["shuffle", self.large, "--seed", SEED, "--copy", *out("copy")],
                     [".bin", ".idx"], ["copy", "cp", *(["builder"] if self.arguments.builder else [])])
        self.compare("repair --eod", "repair", self.large,
                     ["repair", self.large, "--eod", EOD, "--dtype", "uint16", *out("repair")], [".idx"], ["repair", "read"])
        self.compare("stat", "stat", self.large, ["stat", self.large, "--top", 1 << 20], [], ["stat", "read"])


def machine():
    with open("/proc/cpuinfo") as file:
        model = re.search(r"model name\s*:\s*(.*)", file.read())
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"],
                            capture_output=True, text=True).stdout.strip()
    return f"{model.group(1) if model else 'unknown processor'}, commit {commit or 'unknown'}"


def main():
    if sys.argv[1:2] == ["--peer"]:
        PEERS[sys.argv[2]](*sys.argv[3:5])
        return
    cache = os.environ.get("MEG_DEPS") or os.path.expanduser("~/.cache/libmeg")
    venv = os.path.join(cache, "venv", "bin", "python")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="5 million documents, 0.2 billion tokens")
    parser.add_argument("--documents", type=lambda text: int(float(text)))
    parser.add_argument("--tokens", type=lambda text: int(float(text)))
    parser.add_argument("--builder", action="store_true", help="also time Megatron's IndexedDatasetBuilder")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--make", help=argparse.SUPPRESS)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--folder", default=os.path.join(cache, "bench"))
    parser.add_argument("--python", default=venv if os.path.exists(venv) else sys.executable, help="that has megatron-core")
    arguments = parser.parse_args()
    arguments.documents = arguments.documents or (5_000_000 if arguments.quick else 100_000_000)
    arguments.tokens = (arguments.tokens or (200_000_000 if arguments.quick else 2_000_000_000)) // 4 * 4
    if arguments.make:
        Bench(arguments, arguments.make).make()
        return
    os.makedirs(arguments.folder, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=arguments.folder) as folder:
        print(f"{machine()}, {len(os.sched_getaffinity(0))} cores, {arguments.documents} documents, {arguments.tokens} "
              f"tokens, median of {arguments.runs}\n", flush=True)
        Bench(arguments, folder).run_all()


if __name__ == "__main__":
    main()
