#!/usr/bin/env python3
"""A training checkpoint to other layouts: checkpoint_util beside `cp -r` and PyTorch by hand.

checkpoint_reshape_bench.py [--quick] [--disk] [--runs N] [--folder DIR]

Makes the 345M checkpoint with its optimizer, TP2 PP2, about 5 GB (--quick: 4 layers, about 1.4 GB),
with make_checkpoint.py of the shared folder. For each target layout the outputs of checkpoint_util
and peer_reshard.py are compared tensor for tensor; then fresh processes run interleaved, figures are
medians. DIR is best a tmpfs (needs twice the checkpoint). cp copies the source's bytes. Times are
whole processes, except for the peer, without its imports.
--disk: DIR is a disk; no peer, and flushing is reported separately (cp: by `sync -f`).
"""
import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LAYOUTS = [(1, 1), (4, 1), (1, 4)]
MIB = 1 << 20


def parse_arguments():
    cache = os.environ.get("MEG_DEPS") or os.path.expanduser("~/.cache/libmeg")
    venv = os.path.join(cache, "venv", "bin", "python")
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--disk", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--shared", default=os.environ.get("MEG_SHARED")
                        or os.path.join(ROOT, "..", "shared"))
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "bin",
                                                          "checkpoint_util"))
    parser.add_argument("--python", default=venv if os.path.exists(venv) else sys.executable,
                        help="that has torch")
    return parser.parse_args()


class Run:
    """A fresh process: its output, wall time, time of processors and peak memory in bytes."""

    def __init__(self, command):
        with tempfile.TemporaryFile("w+") as output:
            start = time.monotonic()
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
            _, status, usage = os.wait4(process.pid, 0)
            self.seconds = time.monotonic() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            self.text = output.read()
        if process.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{self.text}")
        self.peak = usage.ru_maxrss * 1024
        self.processors = usage.ru_utime + usage.ru_stime

    def number(self, pattern):
        return float(re.search(pattern, self.text).group(1))


class Medians:
    """Of several runs of one command: seconds, seconds of processors and peak memory in MiB."""

    def __init__(self, runs):
        self.seconds = statistics.median(run.seconds for run in runs)
        self.processors = statistics.median(run.processors for run in runs)
        self.peak = statistics.median(run.peak for run in runs) / MIB


def interleaved(count, commands, clean):
    """The Medians of each of `commands`, functions that make a Run, each run `count` times by turns. clean:
    called after every run."""
    runs = [[] for _ in commands]
    for _ in range(count):
        for command, own in zip(commands, runs):
            own.append(command())
            clean()
    return [Medians(own) for own in runs]


def bytes_below(folder):
    return sum(os.path.getsize(os.path.join(path, name))
               for path, _, names in os.walk(folder) for name in names)


class Bench:
    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder
        self.source = os.path.join(folder, "source")
        shared = os.path.join(arguments.shared, "bench")
        self.peer_script = os.path.join(shared, "peer_reshard.py")
        size = ["--layers", "4"] if arguments.quick else []
        Run([arguments.python, os.path.join(shared, "make_checkpoint.py"), self.source, *size])
        self.source_bytes = bytes_below(self.source)

    def output(self, name):
        path = os.path.join(self.folder, name)
        shutil.rmtree(path, ignore_errors=True)
        if self.arguments.disk:
            os.sync()
        return path

    def copy(self):
        path = self.output("copy")
        run = Run(["cp", "-r", self.source, path])
        run.flush = Run(["sync", "-f", path]).seconds if self.arguments.disk else 0.0
        self.output("copy")
        return run

    def ours(self, layout, keep=False):
        path = self.output("ours")
        run = Run([self.arguments.program, "--load-dir", self.source, "--save-dir", path,
                   "--target-tensor-parallel-size", str(layout[0]),
                   "--target-pipeline-parallel-size", str(layout[1]),
                   "--true-vocab-size", "50257"])
        run.flush = run.number(r"flushed to the device in ([\d.]+) s")
        if not keep:
            self.output("ours")
        return run

    def peer(self, layout, keep=False):
        path = self.output("peer")
        run = Run([self.arguments.python, self.peer_script, self.source, path,
                   "--tp", str(layout[0]), "--pp", str(layout[1])])
        run.seconds = run.number(r"GB read, ([\d.]+) s")
        if not keep:
            self.output("peer")
        return run

    def digests(self, name):
        script = os.path.join(HERE, "programs", "checkpoint_tensor_digests.py")
        lines = Run([self.arguments.python, script, os.path.join(self.folder, name)]).text
        size = bytes_below(os.path.join(self.folder, name))
        self.output(name)
        return lines.splitlines(), size

    def compare(self, layout):
        """Bytes of our output, whose tensors equal the peer's."""
        self.ours(layout, keep=True)
        ours, size = self.digests("ours")
        self.peer(layout, keep=True)
        peer, _ = self.digests("peer")
        if ours != peer:
            sys.exit("the outputs differ:\n" + "\n".join(sorted(set(ours) ^ set(peer))[:10]))
        return size

    def row(self, layout):
        written = self.compare(layout)
        copies, ours, peers = [], [], []
        for _ in range(self.arguments.runs):
            copies.append(self.copy())
            ours.append(self.ours(layout))
            if not self.arguments.disk:
                peers.append(self.peer(layout))

        def median(runs, value=lambda run: run.seconds):
            return statistics.median(value(run) for run in runs)

        name = f"TP{layout[0]} PP{layout[1]}"
        peak = median(ours, lambda run: run.peak) / MIB
        if self.arguments.disk:
            flushes = median(ours, lambda run: run.flush), median(copies, lambda run: run.flush)
            busy = median(ours, lambda run: run.seconds - run.flush)
            return (f"| {name} | {busy:.2f} | {flushes[0]:.2f} | {median(copies):.2f} | "
                    f"{flushes[1]:.2f} | {written / median(ours) / 1e6:.0f} | {peak:.0f} |")
        # The layouts' sizes differ (the copy of the embedding), so rates are compared.
        rate, copy_rate = written / median(ours), self.source_bytes / median(copies)
        return (f"| {name} | {written / 1e9:.2f} | {median(ours):.2f} | {median(copies):.2f} | "
                f"{median(peers):.2f} | {rate / 1e9:.2f} | {rate / copy_rate:.2f}x | "
                f"{median(peers) / median(ours):.1f}x | {peak:.0f} |")


def machine():
    with open("/proc/cpuinfo") as file:
        model = re.search(r"model name\s*:\s*(.*)", file.read())
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"],
                            capture_output=True, text=True).stdout.strip()
    cores = len(os.sched_getaffinity(0))
    return f"{model.group(1) if model else 'unknown processor'}, {cores} cores, commit {commit}"


def main():
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that the folder is removed
    with tempfile.TemporaryDirectory(prefix="bench-", dir=arguments.folder) as folder:
        bench = Bench(arguments, folder)
        print(f"{machine()}, {bench.source_bytes / 1e9:.2f} GB read, median of {arguments.runs}\n")
        if arguments.disk:
            print("| target | s | flush s | cp s | flush s | MB/s with flush | peak MiB |")
            print("|---|" + "---:|" * 6)
        else:
            print("| target | GB | s | cp s | peer s | GB/s | of cp | of the peer | peak MiB |")
            print("|---|" + "---:|" * 8)
        for layout in LAYOUTS:
            print(bench.row(layout), flush=True)


if __name__ == "__main__":
    main()
