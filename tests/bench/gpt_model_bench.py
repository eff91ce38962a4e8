#!/usr/bin/env python3
"""Forward and backward passes beside plain PyTorch's, on the CPU.

gpt_model_bench.py PROGRAM PEER_TRAIN.PY [--shape LAYERS HIDDEN HEADS VOCAB SEQ BATCH] [--steps N]
    [--threads T] [--rounds R]

Runs PROGRAM (gpt_model_bench) and the Gpt of ../shared/bench/peer_train.py in turn, each in a fresh
process, and prints the best step of each in seconds and in CPU seconds, which other
work on the machine disturbs less.
"""

import argparse
import importlib.util
import subprocess
import sys
import time


def peer(path, shape, steps, threads):
    import torch

    torch.set_num_threads(threads)
    spec = importlib.util.spec_from_file_location("peer_train", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    layers, hidden, heads, vocab, seq, batch = shape
    net = module.Gpt(layers, hidden, heads, vocab, seq)
    net.compute = torch.float32
    tokens = torch.randint(vocab, (batch, seq))
    wall, processor = [], []
    for _ in range(steps):
        start, processor_start = time.perf_counter(), time.process_time()
        net(tokens, tokens).backward()
        for parameter in net.parameters():
            parameter.grad = None
        wall.append(time.perf_counter() - start)
        processor.append(time.process_time() - processor_start)
    print(min(wall), min(processor))


def run(command):
    return [float(x) for x in subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("peer")
    parser.add_argument("--shape", type=int, nargs=6, default=[4, 256, 4, 8192, 256, 2])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only-peer", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only_peer:
        return peer(arguments.peer, arguments.shape, arguments.steps, arguments.threads)
    shape = [str(x) for x in arguments.shape]
    ours, theirs = [], []
    for _ in range(arguments.rounds):
        ours.append(run([arguments.program, *shape, str(arguments.steps), str(arguments.threads)]))
        theirs.append(run([sys.executable, __file__, arguments.program, arguments.peer, "--only-peer",
                           "--shape", *shape, "--steps", str(arguments.steps),
                           "--threads", str(arguments.threads)]))
    for i, name in enumerate(["seconds", "CPU seconds"]):
        a, b = min(x[i] for x in ours), min(x[i] for x in theirs)
        print(f"{name}: libmeg {a:.4f}, PyTorch {b:.4f}, {b / a:.2f} times as fast")


if __name__ == "__main__":
    main()
