#!/usr/bin/env python3
"""Compares micro-batches of shuffled samples with what torch.randperm gives.

Usage: compare_batches_with_torch.py DRAW_BATCHES
"""

import random
import subprocess
import sys

try:
    import torch
except ImportError:
    print("skipped: torch is not installed")
    sys.exit(77)


def shuffled(count, epoch):
    return torch.randperm(count, generator=torch.Generator().manual_seed(epoch)).tolist()


def cyclic_batches(total, consumed, micro_batch, rank, ranks, sharding):
    """A rank's micro-batches without end, whole orders at a time."""
    batch = micro_batch * ranks
    per_epoch = total - total % batch
    while True:
        epoch, begin = divmod(consumed, per_epoch)
        if sharding:
            part = per_epoch // ranks
            mine = [rank * part + i for i in shuffled(part, epoch)[begin // ranks:]]
        else:
            mine = shuffled(total - total % micro_batch, epoch)[begin:][rank::ranks]
        for i in range(0, len(mine) - micro_batch + 1, micro_batch):
            yield mine[i:i + micro_batch]
            consumed += batch


def drawn(program, total, consumed, micro_batch, rank, ranks, sharding, count):
    arguments = [total, consumed, micro_batch, rank, ranks, int(sharding), count]
    lines = subprocess.run([program, "cyclic", *map(str, arguments)], check=True,
                           stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return [[int(sample) for sample in line.split()] for line in lines]


def compare(program, count, **setting):
    expected = [batch for batch, _ in zip(cyclic_batches(**setting), range(count))]
    found = drawn(program, count=count, **setting)
    if found != expected:
        print(f"{setting}: expected {expected[:4]}, found {found[:4]}")
        sys.exit(1)


def main():
    program = sys.argv[1]
    dice = random.Random(5)
    for _ in range(300):
        micro_batch, ranks = dice.randint(1, 4), dice.randint(1, 4)
        total = dice.randint(micro_batch * ranks, 60)
        steps = dice.randint(0, 40)
        per_epoch = total - total % (micro_batch * ranks)
        for rank in range(ranks):
            compare(program, 30, total=total,
                    consumed=steps * micro_batch * ranks + dice.randint(0, 3) * per_epoch,
                    micro_batch=micro_batch, rank=rank, ranks=ranks, sharding=dice.random() < 0.5)
    compare(program, 1000, total=3_000_001, consumed=0, micro_batch=8, rank=0, ranks=1,
            sharding=True)
    # The generator's seed is the epoch's low 32 bits.
    compare(program, 5, total=10, consumed=10 * (2**32 + 3), micro_batch=2, rank=0, ranks=1,
            sharding=True)


if __name__ == "__main__":
    main()
