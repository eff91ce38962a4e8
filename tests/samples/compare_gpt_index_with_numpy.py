#!/usr/bin/env python3
"""Random datasets: write_gpt_index against numpy's RandomState and Megatron core's compiled helper.

compare_gpt_index_with_numpy.py WRITE_GPT_INDEX [CASES]
Without megatron-core the sample index is compared with a search through the running sum of lengths.
Exit status 77: no numpy.
"""
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)
try:
    from megatron.core.datasets.helpers_cpp import build_sample_idx_int32
except ImportError:
    build_sample_idx_int32 = None


def write_dataset(prefix, sizes):
    ends = np.cumsum(sizes, dtype=np.int64) * 2
    with open(f"{prefix}.idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(sizes), len(sizes) + 1))
        sizes.tofile(file)
        (ends - 2 * sizes.astype(np.int64)).tofile(file)
        np.arange(len(sizes) + 1, dtype=np.int64).tofile(file)
    with open(f"{prefix}.bin", "wb") as file:
        file.truncate(int(ends[-1]))


def searched_sample_index(sizes, documents, length, samples, extra):
    """Row i + 1 holds the last token of sample i's window, or stands at the end."""
    ends = np.cumsum(sizes[documents], dtype=np.int64)
    last_tokens = np.arange(1, samples + 1, dtype=np.int64) * length + extra - 1
    entries = np.minimum(np.searchsorted(ends, last_tokens, side="right"), len(documents) - 1)
    offsets = np.minimum(last_tokens, ends[-1] - 1) + 1 - extra - (ends - sizes[documents])[entries]
    return np.concatenate([[[0, 0]], np.stack([entries, offsets], axis=1)]).astype(np.int32)


def shuffled(values, rng):
    rng.shuffle(values)
    return values


def expected_indices(sizes, seed, length, samples, extra, drop_last):
    tokens, epochs = int(sizes.sum(dtype=np.int64)), 1
    while samples is not None and epochs * tokens < samples * length + extra:
        epochs += 1
    before = ((epochs - 1) * tokens - extra) // length
    apart = epochs > 1 and samples - before < int(0.80 * ((tokens - extra) // length))
    rng = np.random.RandomState(seed)
    tile = lambda count: shuffled(np.tile(np.arange(len(sizes), dtype=np.int32), count), rng)
    documents = np.concatenate([tile(epochs - 1), tile(1)]) if apart else tile(epochs)
    if build_sample_idx_int32 is not None:
        rows = build_sample_idx_int32(sizes, documents, length, epochs, tokens, drop_last, extra)
    else:
        count = (epochs * tokens - extra) // length
        if not drop_last:
            count = int(np.ceil(np.float32(epochs * tokens - extra) / np.float32(length)))
        rows = searched_sample_index(sizes, documents, length, count, extra)
    total = len(rows) - 1
    cuts = [0, before, total] if apart else [0, total]
    parts = [shuffled(np.arange(a, b, dtype=np.uint32), rng) for a, b in zip(cuts, cuts[1:])]
    return {"document": documents, "sample": rows, "shuffle": np.concatenate(parts)}


def random_case(rng):
    count = int(rng.choice([1, 3, 30, 1000, 70000]))
    sizes = rng.randint(0, int(rng.choice([3, 40, 3000])), count).astype(np.int32)
    sizes[-1] += 2  # with an empty last document Megatron core refuses a partial sample
    length = int(rng.choice([1, 5, 64, 1024]))
    per_epoch = int(sizes.sum(dtype=np.int64)) // length
    samples = None if rng.rand() < 0.4 else int(rng.randint(0, 4 * min(per_epoch, 50000) + 9))
    seed = int(rng.randint(0, 2**32, dtype=np.uint32))
    return sizes, seed, length, samples, int(rng.randint(2)), bool(rng.randint(2))


def main():
    cases = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    rng = np.random.RandomState(1)
    with tempfile.TemporaryDirectory(prefix="meg-gpt-index-") as folder:
        for number in range(cases):
            sizes, seed, length, samples, extra, drop_last = random_case(rng)
            write_dataset(f"{folder}/data", sizes)
            wanted = "all" if samples is None else samples
            options = [seed, length, wanted, extra, int(drop_last)]
            subprocess.run([sys.argv[1], f"{folder}/data", folder, *map(str, options)], check=True,
                           stdout=subprocess.DEVNULL)
            expected = expected_indices(sizes, seed, length, samples, extra, drop_last)
            for name, array in expected.items():
                np.save(f"{folder}/expected.npy", array)
                if (pathlib.Path(f"{folder}/expected.npy").read_bytes()
                        != pathlib.Path(f"{folder}/{name}_index.npy").read_bytes()):
                    sys.exit(f"error: case {number}: {name} index differs: {len(sizes)} documents, "
                             f"seed, length, samples, extra token, drop last: {options}")
    peer = "a search" if build_sample_idx_int32 is None else "Megatron core's helper"
    print(f"{cases} random datasets: equal to numpy {np.__version__} and {peer}")


if __name__ == "__main__":
    main()
