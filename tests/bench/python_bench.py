#!/usr/bin/env python3
"""Times the Python package beside its peers, in one process, in processor seconds; outputs are compared first.

    PYTHONPATH=build/python/package python tests/bench/python_bench.py

- import libmeg, beside import numpy, which it needs
- IndexedDataset[i], beside numpy's slicing of a memmap and megatron-core's class
- samples of a run through a DataLoader of torch, beside megatron-core's GPTDataset, and by GPTDataset.batches
"""

import collections
import itertools
import os
import subprocess
import sys
import tempfile
import time

import libmeg
import numpy
import torch
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDataset
from megatron.core.tokenizers import MegatronTokenizer

DOCUMENTS, SEQUENCE_LENGTH, SAMPLES, BATCH, ROUNDS, VOCAB_SIZE = 20000, 1024, 4000, 8, 5, 1000


def write(prefix):
    random = numpy.random.default_rng(1)
    builder = libmeg.IndexedDatasetBuilder(prefix, dtype="uint16")
    for length in random.integers(50, 500, DOCUMENTS):
        builder.add_item(random.integers(0, VOCAB_SIZE, length).astype(numpy.uint16))
        builder.end_document()
    builder.finalize()


def seconds_of(work):
    """The median of the rounds, in processor seconds."""
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return sorted(times)[ROUNDS // 2]


def imports():
    for name in ("numpy", "libmeg"):
        command = [sys.executable, "-c", f"import time; t = time.process_time(); import {name}; print(time.process_time() - t)"]
        times = sorted(float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(ROUNDS))
        print(f"import {name}: {1000 * times[ROUNDS // 2]:.1f} ms")


def items(prefix):
    ours, theirs = libmeg.IndexedDataset(prefix), IndexedDataset(prefix)
    memmap = numpy.memmap(prefix + ".bin", dtype=numpy.uint16, mode="r")
    ends = numpy.cumsum(ours.sequence_lengths).tolist()
    ranges = list(zip([0, *ends], ends))
    order = numpy.random.default_rng(2).permutation(len(ours)).tolist()
    for i in order[:1000]:
        assert numpy.array_equal(ours[i], theirs[i]) and numpy.array_equal(ours[i], memmap[ranges[i][0] : ranges[i][1]])
    for name, work in {
        "IndexedDataset[i]": lambda: [ours[i] for i in order],
        "numpy.memmap[a:b]": lambda: [memmap[a:b] for a, b in map(ranges.__getitem__, order)],
        "megatron-core [i]": lambda: [theirs[i] for i in order],
    }.items():
        print(f"{name}: {1e6 * seconds_of(work) / len(order):.2f} us")


def samples(prefix, folder):
    ours = libmeg.gpt_datasets(
        data_path=prefix, split="1,0,0", seq_length=SEQUENCE_LENGTH, samples=f"{SAMPLES},None,None",
        data_cache_path=os.path.join(folder, "cache"), tokenizer_type="NullTokenizer", vocab_size=VOCAB_SIZE)[0]
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    theirs = BlendedMegatronDatasetBuilder(GPTDataset, [SAMPLES, 0, 0], lambda: True, GPTDatasetConfig(
        random_seed=1234, sequence_length=SEQUENCE_LENGTH, blend=([prefix], None), split="1,0,0",
        path_to_cache=os.path.join(folder, "cache"), create_attention_mask=False, reset_position_ids=False,
        reset_attention_mask=False, eod_mask_loss=False,
        tokenizer=MegatronTokenizer.from_pretrained(metadata_path={"library": "null"}, vocab_size=VOCAB_SIZE))).build()[0]
    for i in range(200):
        assert all(numpy.array_equal(ours[i][name], theirs[i][name].numpy()) for name in ours[i])

    def loader(dataset):
        return torch.utils.data.DataLoader(dataset, batch_size=BATCH)

    subset = range(SAMPLES // 4)
    for name, batches in {
        "DataLoader of libmeg": lambda: loader(torch.utils.data.Subset(ours, subset)),
        "DataLoader of libmeg, batches at once": lambda: torch.utils.data.DataLoader(
            ours, batch_size=None, sampler=torch.utils.data.BatchSampler(subset, BATCH, False)),
        "DataLoader of megatron-core": lambda: loader(torch.utils.data.Subset(theirs, subset)),
        "GPTDataset.batches": lambda: itertools.islice(ours.batches(BATCH, num_workers=0), len(subset) // BATCH),
    }.items():
        # As a training loop does, which keeps no batch.
        seconds = seconds_of(lambda: collections.deque(batches(), maxlen=0))
        print(f"{name}: {1e6 * seconds / len(subset):.1f} us a sample of {SEQUENCE_LENGTH} tokens")


def main():
    imports()
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "corpus")
        write(prefix)
        items(prefix)
        samples(prefix, folder)


if __name__ == "__main__":
    main()
