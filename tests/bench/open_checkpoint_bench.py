#!/usr/bin/env python3
"""Opening a checkpoint of 512 rank files from Python: libmeg.open_checkpoint beside torch.load of its files.

open_checkpoint_bench.py [--runs N] [--folder DIR] [--tensor 16] [--pipeline 32] [--program CHECKPOINT_UTIL]

Makes a GPT of 32 layers with its optimizer by make_checkpoint.py of the shared folder, and reshapes it with
checkpoint_util. What both sides see of the table, the args and the number of parameters is compared; then fresh processes
run interleaved: medians of the wall-clock and processor seconds, imports left out. torch.load maps the files (mmap=True),
so it reads metadata alone, too, and gives what is in each file, not a whole model. DIR is best a tmpfs (0.8 GB).
"""
import argparse
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TABLE = "embedding.word_embeddings.weight"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", help="default: a temporary one")
    parser.add_argument("--tensor", type=int, default=16)
    parser.add_argument("--pipeline", type=int, default=32)
    parser.add_argument("--shared", default=os.environ.get("MEG_SHARED") or os.path.join(ROOT, "..", "shared"))
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "python", "bin", "checkpoint_util"))
    parser.add_argument("--package", default=os.path.join(ROOT, "build", "python", "package"))
    parser.add_argument("--side", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def make(arguments, folder):
    source, target = os.path.join(folder, "source"), os.path.join(folder, "target")
    subprocess.run([sys.executable, os.path.join(arguments.shared, "bench", "make_checkpoint.py"), source, "--tp", "1",
                    "--pp", "1", "--layers", "32", "--hidden", "256", "--heads", "16", "--positions", "64", "--vocab", "2000"],
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run([arguments.program, "--load-dir", source, "--save-dir", target, "--true-vocab-size", "2000",
                    "--target-tensor-parallel-size", str(arguments.tensor),
                    "--target-pipeline-parallel-size", str(arguments.pipeline)], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(source)
    return target


def measure(side, path):
    """One measurement, in this process."""
    import torch
    if side == "libmeg":
        import libmeg
    files = sorted(glob.glob(f"{path}/iter_*/*/model_optim_rng.pt"))
    begin, processor = time.perf_counter(), time.process_time()
    if side == "libmeg":
        opened = libmeg.open_checkpoint(path)
        args, names = opened.args, list(opened)
    else:
        opened = [torch.load(file, mmap=True, weights_only=False) for file in files]
        args = vars(opened[0]["args"])
    seconds, processor = time.perf_counter() - begin, time.process_time() - processor
    if side == "libmeg":
        table, count = opened[TABLE].torch(), len(names)
    else:
        models = [rank["model"]["language_model"] for rank in opened]
        table = torch.cat([model["embedding"]["word_embeddings"]["weight"] for model in models if "embedding" in model])
        stages = len({os.path.basename(os.path.dirname(file))[11:] for file in files})
        layers = [model[key] for model in models[:stages] for key in model if key in ("encoder", "transformer")]
        count = sum(len(layer) for layer in layers) + 2  # and the two tables
    print(json.dumps([seconds, processor, len(files), count, args["hidden_size"], table.float().sum().item()]))


def main():
    arguments = parse_arguments()
    if arguments.side:
        return measure(*arguments.side)
    environment = {**os.environ, "PYTHONPATH": arguments.package}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = make(arguments, folder)
        runs = {"libmeg": [], "torch.load": []}
        for _ in range(arguments.runs):
            for side, found in runs.items():
                output = subprocess.run([sys.executable, __file__, "--side", side, path], env=environment, check=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
                found.append(json.loads(output))
            if runs["libmeg"][-1][2:] != runs["torch.load"][-1][2:]:
                sys.exit(f"the two sides read different things: {runs['libmeg'][-1]}, {runs['torch.load'][-1]}")
    print("| files | open_checkpoint s | torch.load s | ratio | processor s | torch.load s | ratio |\n"
          "|---:|---:|---:|---:|---:|---:|---:|")
    ours, theirs = ([statistics.median(run[i] for run in runs[side]) for i in (0, 1)] for side in runs)
    print(f"| {runs['libmeg'][0][2]} | {ours[0]:.3f} | {theirs[0]:.3f} | {theirs[0] / ours[0]:.1f}x | {ours[1]:.3f} | "
          f"{theirs[1]:.3f} | {theirs[1] / ours[1]:.1f}x |")


if __name__ == "__main__":
    main()
