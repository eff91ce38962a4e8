#!/usr/bin/env python3
"""Document, sample and shuffle index: libmeg beside megatron-core, in one run.

index_bench.py [--quick] [--runs N] [--documents N] [--build DIR] [--folder DIR]

peer_index.py of the shared folder (numpy and core's compiled helper) makes a dataset of 50 million
documents (--quick: 5 million) and its three indices; write_gpt_index makes them from the same .idx.
The files are compared byte for byte, then fresh processes are timed interleaved; every figure is a
median. Prints two Markdown tables: the stages, each in memory and on one thread on both sides, and
the whole way. Ours ends when the three files are flushed to the device and renamed, from opening the
.idx on; the peer's has its lengths in memory and does not flush. --folder says where the files go.
"""
import argparse
import filecmp
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
INDICES = ["document", "sample", "shuffle"]
SEED, LENGTH = 1234, 1024
MIB = 1 << 20


def parse_arguments():
    cache = os.environ.get("MEG_DEPS") or os.path.expanduser("~/.cache/libmeg")
    venv = os.path.join(cache, "venv", "bin", "python")
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="5 million documents")
    parser.add_argument("--documents", type=lambda text: int(float(text)))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--folder", default=os.path.join(cache, "bench"))
    parser.add_argument("--shared", default=os.environ.get("MEG_SHARED")
                        or os.path.join(ROOT, "..", "shared"))
    parser.add_argument("--python", default=venv if os.path.exists(venv) else sys.executable,
                        help="that has megatron-core")
    arguments = parser.parse_args()
    arguments.documents = arguments.documents or (5_000_000 if arguments.quick else 50_000_000)
    return arguments


def output_of(command):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True,
                          text=True).stdout


class Bench:
    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.prefix = os.path.join(folder, "data")
        self.peer_folder = os.path.join(folder, "peer")
        self.our_folder = os.path.join(folder, "ours")

    def peer(self, *options):
        """Seconds of each stage."""
        script = os.path.join(self.arguments.shared, "bench", "peer_index.py")
        text = output_of([self.arguments.python, script, "--documents", self.arguments.documents,
                          "--seq-length", LENGTH, "--seed", SEED,
                          "--split-out", self.peer_folder, *options])
        return {name: float(seconds)
                for name, seconds in re.findall(r"(document|sample|shuffle|save) ([0-9.]+) s", text)}

    def our_stages(self):
        program = os.path.join(self.arguments.build, "bench", "gpt_index_stages")
        return dict(zip(INDICES, map(float, output_of([program, self.prefix, SEED,
                                                       LENGTH]).split())))

    def ours(self):
        """Seconds and peak bytes."""
        program = os.path.join(self.arguments.build, "tests", "write_gpt_index")
        for name in INDICES:  # a file replaced costs the freeing of its blocks
            path = os.path.join(self.our_folder, name + "_index.npy")
            if os.path.exists(path):
                os.remove(path)
        seconds, peak = output_of([program, self.prefix, self.our_folder, SEED, LENGTH]).split()
        return float(seconds), int(peak) * 1024

    def compare(self):
        """Bytes of the three files, equal on both sides."""
        size = 0
        for name in INDICES:
            paths = [os.path.join(folder, name + "_index.npy")
                     for folder in (self.our_folder, self.peer_folder)]
            if not filecmp.cmp(*paths, shallow=False):
                sys.exit(f"error: the {name} indices differ")
            size += os.path.getsize(paths[0])
        return size

    def run(self):
        os.makedirs(self.our_folder)
        self.peer("--dataset", self.prefix)
        self.ours()
        size = self.compare()
        peers, stages, wholes = [], [], []
        for _ in range(self.arguments.runs):
            peers.append(self.peer())
            stages.append(self.our_stages())
            wholes.append(self.ours())
        print_tables(peers, stages, wholes, size)


def print_tables(peers, stages, wholes, size):
    def median(runs, names):
        return statistics.median(sum(run[name] for name in names) for run in runs)

    print("| index, one thread, in memory | s | peer s | ratio |\n|---|---:|---:|---:|")
    for title, names in [*((name, [name]) for name in INDICES), ("all three", INDICES)]:
        ours, peer = median(stages, names), median(peers, names)
        print(f"| {title} | {ours:.2f} | {peer:.2f} | {peer / ours:.1f}x |")
    whole = statistics.median(seconds for seconds, _ in wholes)
    built, saved = median(peers, INDICES), median(peers, [*INDICES, "save"])
    peak = max(peak for _, peak in wholes)
    print("\n| with writing s | peer, without writing s | ratio | peer, with writing s | ratio "
          "| output MiB | peak MiB |\n" + "|---:" * 7 + "|")
    print(f"| {whole:.2f} | {built:.2f} | {built / whole:.1f}x | {saved:.2f} | "
          f"{saved / whole:.1f}x | {size / MIB:.0f} | {peak / MIB:.0f} |")
    if peak > size + 64 * MIB:
        sys.exit("error: more memory than the output's size and 64 MiB")


def machine():
    with open("/proc/cpuinfo") as file:
        model = re.search(r"model name\s*:\s*(.*)", file.read())
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"],
                            capture_output=True, text=True).stdout.strip()
    return f"{model.group(1) if model else 'unknown processor'}, commit {commit or 'unknown'}"


def main():
    arguments = parse_arguments()
    os.makedirs(arguments.folder, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=arguments.folder) as folder:
        print(f"{machine()}, {len(os.sched_getaffinity(0))} cores, {arguments.documents} "
              f"documents, median of {arguments.runs}\n", flush=True)
        Bench(arguments, folder).run()


if __name__ == "__main__":
    main()
