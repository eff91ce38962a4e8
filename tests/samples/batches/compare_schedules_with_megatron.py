#!/usr/bin/env python3
"""Compares runs with --step-batch-size-schedule with megatron-core 0.19.2's calculator of micro-batches.

usage: compare_schedules_with_megatron.py DRAW_SCHEDULE
"""
import importlib.util
import os
import pathlib
import random
import subprocess
import sys

NEWER = pathlib.Path(os.environ.get("MEG_DEPS", pathlib.Path.home() / ".cache/libmeg"), "megatron-core-0.19.2")


def calculator_class(path):
    spec = importlib.util.spec_from_file_location("num_microbatches_calculator", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.StepBatchsizeNumMicroBatchesCalculator


def expected_steps(calculator, train_samples):
    """As megatron/training/training.py counts and runs them; None where a step's batch does not divide."""
    sizes = []
    consumed = 0
    while consumed < train_samples:
        try:
            calculator.update(consumed, consistency_check=True)
        except AssertionError:
            return None
        sizes.append(calculator.get_current_global_batch_size())
        consumed += sizes[-1]
    return [len(sizes), *sizes]


def random_amount(chooser, most):
    number = chooser.randrange(most)
    return chooser.choice([str(number), f"{number}.0", f"{number / 1000:g}K", f"{number / 1000:g}k", f"{number / 1e6}M",
                           f"{number / 1e9:g}b", f"{number / 1e12}T", f"{number:e}"])


def random_schedule(chooser, sequence_length, unit):
    entries = [f"0:{chooser.choice([1, 2, 3, 4]) * unit}"]
    for _ in range(chooser.randrange(5)):
        size = random_amount(chooser, 40) if chooser.random() < 0.3 else str(chooser.randrange(1, 8) * unit)
        entries.append(f"{random_amount(chooser, 300 * sequence_length)}:{size}")
    if chooser.random() < 0.5:
        chooser.shuffle(entries)
    return chooser.choice([" ", ",", ", ", "  "]).join(entries)


def main():
    source = NEWER / "megatron/core/num_microbatches_calculator.py"
    if not source.exists():
        print(f"skipped: no megatron-core 0.19.2 at {NEWER}")
        return 77
    calculator_of = calculator_class(source)
    chooser = random.Random(44)
    compared = refused = 0
    for _ in range(400):
        micro, ranks, length = chooser.randint(1, 3), chooser.randint(1, 3), chooser.choice([1, 7, 32])
        schedule = random_schedule(chooser, length, micro * ranks)
        samples = chooser.randrange(1, 400)
        try:
            expected = expected_steps(calculator_of(micro, ranks, False, 1, schedule, length), samples)
        except (AssertionError, ValueError):
            expected = None
        done = subprocess.run([sys.argv[1], schedule, *map(str, (length, micro, ranks, samples))],
                              capture_output=True, text=True)
        found = [int(word) for word in done.stdout.split()] if done.returncode == 0 else None
        if found is None and expected is not None and "a multiple of" in done.stderr:
            continue  # a step after the last sample
        if found != expected:
            print(f"{schedule!r}, {length=} {micro=} {ranks=} {samples=}\nexpected {expected}\nfound    {found} {done.stderr}")
            return 1
        compared += expected is not None
        refused += expected is None
    print(f"{compared} equal, {refused} refused by both")
    assert compared > 150 and refused > 50
    return 0


if __name__ == "__main__":
    sys.exit(main())
