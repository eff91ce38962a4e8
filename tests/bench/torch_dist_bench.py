#!/usr/bin/env python3
"""torch_dist folders to rank files and back: checkpoint_util beside PyTorch's dcp_to_torch_save and its inverse.

torch_dist_bench.py [--gigabytes 1] [--hidden 512] [--runs N] [--folder DIR]

Makes a checkpoint with its optimizer by peer_dcp.py of the shared folder. What checkpoint_util writes,
in both directions, is compared with the source tensor for tensor; then fresh processes run
interleaved, figures are medians, and `cp -r` of what is read shows what the file system allows. DIR is best
a tmpfs (needs five times the checkpoint). Times are whole processes, except the peer's, whose imports are
left out. --python: that of the virtual environment by default; it runs the comparison too.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

from checkpoint_reshape_bench import HERE, ROOT, Run, bytes_below, interleaved, machine

COMPARE = """
import sys
import torch
from reference import files, reshape, torch_dist
source, plain, back = sys.argv[1:]
expected = torch_dist.read(source)
for found in reshape.merge(plain).tensors, torch_dist.read(files.iteration_folder(back)):
    assert set(found) == set(expected), set(found) ^ set(expected)
    for name, kinds in expected.items():
        assert set(found[name]) == set(kinds), name
        for kind, tensor in kinds.items():
            assert torch.equal(found[name][kind], tensor), (name, kind)
"""


def parse_arguments():
    cache = os.environ.get("MEG_DEPS") or os.path.expanduser("~/.cache/libmeg")
    venv = os.path.join(cache, "venv", "bin", "python")
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--shared", default=os.environ.get("MEG_SHARED")
                        or os.path.join(ROOT, "..", "shared"))
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "bin",
                                                          "checkpoint_util"))
    parser.add_argument("--python", default=venv if os.path.exists(venv) else sys.executable)
    return parser.parse_args()


class Bench:
    """Each direction writes a folder of its own; `plain` and `file` are what the ways back read."""

    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder
        self.source = self.path("source")
        self.peer("make", "source", None, "--gigabytes", str(arguments.gigabytes), "--hidden",
                  str(arguments.hidden))
        self.bytes = bytes_below(self.source)

    def path(self, name):
        return os.path.join(self.folder, name)

    def peer(self, what, source, target=None, *flags):
        script = os.path.join(self.arguments.shared, "bench", "peer_dcp.py")
        paths = [self.path(name) for name in (source, target) if name is not None]
        run = Run([self.arguments.python, script, what, *paths, *flags])
        run.seconds = run.number(r"bytes, ([\d.]+) s")
        return run

    def ours(self, source, target, form):
        return Run([self.arguments.program, "--load-dir", self.path(source), "--save-dir",
                    self.path(target), "--target-format", form])

    def compare(self):
        """Leaves `plain` and `file` behind."""
        self.ours("source", "plain", "torch")
        self.ours("plain", "back", "torch_dist")
        self.peer("to-torch", "source", "file")
        environment = {**os.environ, "PYTHONPATH": os.path.join(HERE, "../interop")}
        subprocess.run([self.arguments.python, "-c", COMPARE, self.source, self.path("plain"),
                        self.path("back")], env=environment, check=True)
        self.remove("back")

    def remove(self, name):
        shutil.rmtree(self.path(name), ignore_errors=True)
        if os.path.exists(self.path(name)):
            os.remove(self.path(name))

    def copy(self, source):
        return Run(["cp", "-r", self.path(source), self.path("out")])

    def row(self, name, ours, peer, copy):
        run, other, copied = interleaved(self.arguments.runs, [ours, peer, copy],
                                         lambda: self.remove("out"))
        return (f"| {name} | {run.seconds:.2f} | {other.seconds:.2f} | {copied.seconds:.2f} | "
                f"{self.bytes / run.seconds / 1e9:.2f} | {other.seconds / run.seconds:.1f}x | "
                f"{copied.seconds / run.seconds:.2f}x | {self.bytes / run.processors / 1e9:.2f} | "
                f"{run.peak:.0f} |")

    def rows(self):
        yield self.row("torch_dist to torch", lambda: self.ours("source", "out", "torch"),
                       lambda: self.peer("to-torch", "source", "out"),
                       lambda: self.copy("source"))
        yield self.row("torch to torch_dist", lambda: self.ours("plain", "out", "torch_dist"),
                       lambda: self.peer("to-dcp", "file", "out"), lambda: self.copy("plain"))


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="bench-", dir=arguments.folder) as folder:
        bench = Bench(arguments, folder)
        bench.compare()
        load = os.getloadavg()[0]
        print(f"{machine()}, load {load:.1f}, {bench.bytes / 1e9:.2f} GB read, median of "
              f"{arguments.runs}\n")
        print("| | s | peer s | cp s | GB/s | of the peer | of cp | GB/s a core | peak MiB |\n|---|" +
              "---:|" * 8)
        for row in bench.rows():
            print(row, flush=True)


if __name__ == "__main__":
    main()
