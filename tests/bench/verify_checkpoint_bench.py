#!/usr/bin/env python3
"""`verify checkpoint` with every check, beside PyTorch by hand: CRC-32s, NaN and infinity, moments, replicas.

verify_checkpoint_bench.py [--layers 4] [--runs N] [--folder DIR]

Makes a checkpoint with its optimizer, TP2 PP2, by make_checkpoint.py of the shared folder, and gives it
the second moments of real gradients: squares, none below zero. Both programs must find nothing in it, and
each of a flipped bit, a NaN and a drifted replica in a copy. Then fresh processes run interleaved,
figures are medians; "a core" are bytes by seconds of processors, which a loaded machine disturbs less.
DIR is best a tmpfs. The peer's imports are left out of its seconds.
"""
import argparse
import glob
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from checkpoint_reshape_bench import MIB, ROOT, Run, bytes_below, machine

SQUARE = """
import glob, sys
import torch
for path in glob.glob(sys.argv[1] + "/*/*/model_optim_rng.pt"):
    state = torch.load(path, weights_only=False)
    for moments in state["optimizer"]["optimizer"]["state"].values():
        moments["exp_avg_sq"].square_()
    torch.save(state, path)
"""

DAMAGE = """
import sys
import torch
path, what = sys.argv[1:]
state = torch.load(path, weights_only=False)
moments = state["optimizer"]["optimizer"]["state"][3]
if what == "nan":
    moments["exp_avg"].view(-1)[-1] = float("nan")
else:
    layer = state["model"]["language_model"]["encoder"]
    layer["layers.0.input_layernorm.weight"][0] += 1
torch.save(state, path)
"""

PEER = """
import glob, resource, sys, time, zipfile
import torch

def tensors(value, path=""):
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, (dict, list, tuple)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in items:
            yield from tensors(one, f"{path}/{key}")

def use():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime

start, busy, problems, kept = time.monotonic(), use(), 0, {}
for path in sorted(glob.glob(sys.argv[1] + "/*/*/model_optim_rng.pt")):
    with zipfile.ZipFile(path) as archive:
        problems += archive.testzip() is not None
    state = torch.load(path, weights_only=False, mmap=True)
    stage = path.split("/")[-2].split("_")[-1]
    for name, tensor in tensors({"model": state["model"], "optimizer": state["optimizer"]}):
        if tensor.is_floating_point():
            problems += not bool(torch.isfinite(tensor).all())
        if name.endswith("exp_avg_sq"):
            problems += bool((tensor < 0).any())
        if name.endswith("layernorm.weight") or name.endswith("layernorm.bias"):
            other = kept.setdefault((stage, name), tensor)
            problems += not torch.equal(other, tensor)
print(f"{problems} problems, {time.monotonic() - start:.3f} s, {use() - busy:.3f} s of processors")
"""


def parse_arguments():
    cache = os.environ.get("MEG_DEPS") or os.path.expanduser("~/.cache/libmeg")
    venv = os.path.join(cache, "venv", "bin", "python")
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--shared", default=os.environ.get("MEG_SHARED")
                        or os.path.join(ROOT, "..", "shared"))
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "bin", "verify"))
    parser.add_argument("--python", default=venv if os.path.exists(venv) else sys.executable,
                        help="that has torch")
    return parser.parse_args()


class Bench:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        self.source = os.path.join(folder, "source")
        Run([arguments.python, os.path.join(arguments.shared, "bench", "make_checkpoint.py"),
             self.source, "--layers", str(arguments.layers)])
        subprocess.run([arguments.python, "-c", SQUARE, self.source], check=True)
        self.bytes = bytes_below(self.source)

    def ours(self, workers=0):
        flags = ["--workers", str(workers)] if workers else []
        return Run([self.arguments.program, "checkpoint", self.source, *flags])

    def peer(self):
        run = Run([self.arguments.python, "-c", PEER, self.source])
        run.seconds = run.number(r"([\d.]+) s,")
        run.processors = run.number(r"([\d.]+) s of processors")
        return run

    def find(self, folder):
        """Whether ours and the peer find something."""
        ours = subprocess.run([self.arguments.program, "checkpoint", folder], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode
        peer = subprocess.run([self.arguments.python, "-c", PEER, folder], check=True,
                              capture_output=True, text=True).stdout
        return ours == 1, not peer.startswith("0 ")

    def compare(self):
        assert self.find(self.source) == (False, False), "a sound checkpoint"
        for what in ("bit", "nan", "replica"):
            copy = os.path.join(self.folder, "copy")
            shutil.copytree(self.source, copy)
            path = sorted(glob.glob(copy + "/*/*/model_optim_rng.pt"))[1]
            if what == "bit":
                with open(path, "r+b") as file:
                    file.seek(os.path.getsize(path) // 2)
                    byte = file.read(1)[0]
                    file.seek(-1, os.SEEK_CUR)
                    file.write(bytes([byte ^ 1]))
            else:
                subprocess.run([self.arguments.python, "-c", DAMAGE, path, what], check=True)
            assert self.find(copy) == (True, True), what
            shutil.rmtree(copy)

    def rows(self):
        runs = {"verify": [], "verify, 1 worker": [], "PyTorch": []}
        for _ in range(self.arguments.runs):
            runs["verify"].append(self.ours())
            runs["verify, 1 worker"].append(self.ours(1))
            runs["PyTorch"].append(self.peer())
        for name, found in runs.items():
            seconds, busy, peak = (statistics.median(value) for value in zip(
                *[(run.seconds, run.processors, run.peak) for run in found]))
            yield (f"| {name} | {seconds:.2f} | {self.bytes / seconds / 1e9:.2f} | {busy:.2f} | "
                   f"{self.bytes / busy / 1e9:.2f} | {peak / MIB:.0f} |")


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="bench-", dir=arguments.folder) as folder:
        bench = Bench(arguments, folder)
        bench.compare()
        print(f"{machine()}, load {os.getloadavg()[0]:.1f}, {bench.bytes / 1e9:.2f} GB, median of "
              f"{arguments.runs}\n")
        print("| | s | GB/s | processors s | GB/s a core | peak MiB |\n|---|" + "---:|" * 5)
        for row in bench.rows():
            print(row, flush=True)


if __name__ == "__main__":
    main()
