#!/usr/bin/env python3
"""Downloads from serve_checkpoints beside `cp` of the same file, which an export made.

hub_bench.py [--family gpt2] [--gigabytes 1.5] [--runs N] [--folder DIR]

Makes Llama and GPT-2 models of random weights and imports them for ranks of tensor and pipeline
parallelism. What one client downloads is compared with the export byte for byte; then fresh processes
run interleaved, figures are medians. The client only receives and writes, 1 MiB at once, as cp does;
curl is a second one. Also reports the processor time of the server and its clients, the rate of 32
clients at once, and the time until a file's first byte: of the first request, which opens the
checkpoint, and of later ones. DIR is best a tmpfs (needs five times the model).
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

    def processors(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            ticks = stat.read().rsplit(")", 1)[1].split()[11:13]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def peak(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024

    def stop(self):
        self.process.terminate()
        self.process.wait()


CLIENT = """
import socket, sys
host, port, path, target = sys.argv[1:]
client = socket.create_connection((host, int(port)))
client.sendall(f"GET {path} HTTP/1.0\\r\\nHost: {host}\\r\\n\\r\\n".encode())
buffer = memoryview(bytearray(1 << 20))
with open(target, "wb", buffering=0) as file:
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        head += client.recv(1 << 16)
    assert b" 200 " in head.splitlines()[0], head
    file.write(head.split(b"\\r\\n\\r\\n", 1)[1])
    while size := client.recv_into(buffer):
        file.write(buffer[:size])
"""


def plain(url, target):
    _, _, address, path = url.split("/", 3)
    return [sys.executable, "-c", CLIENT, *address.split(":"), "/" + path, target]


def curl(url, target):
    return ["curl", "-sS", "--fail", "-o", target, url]


def many(url, count, size):
    """As many clients as `count`, each of which takes an eighth of the file."""
    part = size // 8
    command = " & ".join(
        " ".join([*curl(url, "/dev/null"), "-r", f"{number % 8 * part}-{(number % 8 + 1) * part - 1}"])
        for number in range(count))
    return ["sh", "-c", command + " & wait"]


def bench_family(arguments, family):
    with tempfile.TemporaryDirectory(prefix="bench-", dir=arguments.folder) as folder:
        bench = Bench(arguments, folder, family, multiple=2)
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
            Run(plain(hub.url(run), out))
            assert filecmp.cmp(export, out, shallow=False)
            os.unlink(out)
            before = hub.processors()
            one, other, copy = interleaved(
                arguments.runs,
                [lambda: Run(plain(hub.url(run), out)), lambda: Run(curl(hub.url(run), out)),
                 lambda: Run(["cp", export, out])],
                lambda: os.path.exists(out) and os.unlink(out))
            served = (hub.processors() - before) / (2 * arguments.runs)
            together = Run(many(hub.url(run), 32, size)).seconds
            print(f"| {family}, {run} | {opening:.1f} | {first:.1f} | {one.seconds:.2f} | "
                  f"{other.seconds:.2f} | {copy.seconds:.2f} | {copy.seconds / one.seconds:.2f}x | "
                  f"{served:.2f} | {one.processors:.2f} | {copy.processors:.2f} | "
                  f"{4 * size / together / 1e9:.2f} | {hub.peak():.0f} |", flush=True)
        hub.stop()


def main():
    arguments = parse_arguments()
    print(f"{machine()}, load {os.getloadavg()[0]:.1f}, {arguments.gigabytes} GB, "
          f"median of {arguments.runs}\n")
    print("| | opening ms | first byte ms | 1 client s | curl s | cp s | of cp | server's processors s | "
          "client's | cp's | 32 clients GB/s | peak MiB |\n|---|" + "---:|" * 11)
    for family in [arguments.family] if arguments.family else ["llama", "gpt2"]:
        bench_family(arguments, family)


if __name__ == "__main__":
    sys.exit(main())
