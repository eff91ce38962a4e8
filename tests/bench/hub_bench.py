#!/usr/bin/env python3
"""Downloads from serve_checkpoints beside `cp` of the same file, which an export made.

hub_bench.py [--family gpt2] [--gigabytes 1.5] [--runs N] [--folder DIR]

Makes Llama and GPT-2 models of random weights and imports them for ranks of tensor and pipeline
parallelism. What is downloaded by one client (curl) and by 32 at once is compared with the export
byte for byte; then fresh processes run interleaved, figures are medians. Also reports the time until
a file's first byte: of the first request, which opens the checkpoint, and of later ones. DIR is best
a tmpfs (needs five times the model).
"""
import filecmp
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from checkpoint_reshape_bench import Run, interleaved, machine
from huggingface_bench import Bench, parse_arguments

FILE = "model.safetensors"


class Hub:
    """A server of `folder`, whose runs are tp1 and tp2pp2."""

    def __init__(self, programs, folder):
        self.log = open(os.path.join(folder, "log"), "w")
        self.process = subprocess.Popen(
            [os.path.join(programs, "serve_checkpoints"), folder, "--port", "0", "--max-shard-size",
             "100GB"], stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.address = self.process.stdout.readline().split()[-1]
        self.owner = os.path.basename(folder)

    def url(self, run):
        return f"{self.address}/{self.owner}/{run}/resolve/main/{FILE}"

    def first_byte(self, run):
        begin = time.monotonic()
        with urllib.request.urlopen(self.url(run)) as answer:
            answer.read(1)
            return (time.monotonic() - begin) * 1e3

    def peak(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024

    def stop(self):
        self.process.terminate()
        self.process.wait()


def curl(url, target):
    return ["curl", "-sS", "--fail", "-o", target, url]


def many(url, target, count):
    """As many clients as `count`, one of which keeps what it gets."""
    command = " & ".join(" ".join(curl(url, target if number == 0 else "/dev/null"))
                         for number in range(count))
    return ["sh", "-c", command + " & wait"]


def bench_family(arguments, family):
    with tempfile.TemporaryDirectory(prefix="bench-", dir=arguments.folder) as folder:
        bench = Bench(arguments, folder, family)
        bench.convert("source", "tp1", "--target-tensor-parallel-size", "1")
        bench.convert("source", "tp2pp2", "--target-tensor-parallel-size", "2",
                      "--target-pipeline-parallel-size", "2")
        bench.export("tp1", "export")
        export, out = bench.path(f"export/{FILE}"), bench.path("out")
        size = os.path.getsize(export)
        hub = Hub(os.path.dirname(arguments.program), folder)
        for run in ("tp1", "tp2pp2"):
            opening = hub.first_byte(run)
            first = statistics.median(hub.first_byte(run) for _ in range(20))
            Run(many(hub.url(run), out, 32))
            assert filecmp.cmp(export, out, shallow=False)
            one, copy = interleaved(
                arguments.runs,
                [lambda: Run(curl(hub.url(run), out)), lambda: Run(["cp", export, out])],
                lambda: os.path.exists(out) and os.unlink(out))
            Run(curl(hub.url(run), out))
            assert filecmp.cmp(export, out, shallow=False)
            together = min(Run(many(hub.url(run), out, 32)).seconds for _ in range(2))
            print(f"| {family}, {run} | {opening:.1f} | {first:.1f} | {one.seconds:.2f} | "
                  f"{copy.seconds:.2f} | {copy.seconds / one.seconds:.2f}x | "
                  f"{32 * size / together / 1e9:.2f} | {hub.peak():.0f} |", flush=True)
        hub.stop()


def main():
    arguments = parse_arguments()
    print(f"{machine()}, load {os.getloadavg()[0]:.1f}, {arguments.gigabytes} GB, "
          f"median of {arguments.runs}\n")
    print("| | opening ms | first byte ms | 1 client s | cp s | of cp | 32 clients GB/s | peak MiB |")
    print("|---|" + "---:|" * 7)
    for family in [arguments.family] if arguments.family else ["llama", "gpt2"]:
        bench_family(arguments, family)


if __name__ == "__main__":
    sys.exit(main())
