#!/usr/bin/env python3
"""libmeg's reader and builder against megatron-core's, both ways and byte for byte.

megatron_core_and_builder.py COPY_DATASET VERIFY
megatron-core writes a dataset; libmeg reads and rewrites it: the same bytes, which
megatron-core reads again. Exits with 77 (skipped) where a package is missing.
"""
import os
import subprocess
import sys
import tempfile

try:
    import numpy
    from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder
except ImportError as error:
    print(f"skipped: {error} (scripts/setup.sh installs it)")
    sys.exit(77)

DTYPES = [numpy.uint8, numpy.int8, numpy.int16, numpy.uint16, numpy.int32, numpy.int64,
          numpy.float32, numpy.float64]


def random_documents(chooser, dtype, count):
    """Documents of sequences of items; some documents and some sequences are empty."""
    documents = []
    for _ in range(count):
        sequences = []
        for _ in range(chooser.integers(0, 4)):
            raw = chooser.integers(-2**62, 2**62, chooser.integers(0, 50))
            sequences.append(raw.astype(dtype))
        documents.append(sequences)
    return documents


def write(prefix, dtype, documents, multimodal):
    builder = IndexedDatasetBuilder(prefix + ".bin", dtype=dtype, multimodal=multimodal)
    for sequences in documents:
        modes = [len(sequence) % 3 for sequence in sequences]
        builder.add_document(numpy.concatenate(sequences) if sequences else numpy.array([], dtype),
                             [len(sequence) for sequence in sequences],
                             modes if multimodal else None)
    builder.finalize(prefix + ".idx")


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def expect_same_files(prefix, other):
    for ending in (".bin", ".idx"):
        assert read_bytes(prefix + ending) == read_bytes(other + ending), prefix + ending


def expect_documents(prefix, documents, multimodal):
    dataset = IndexedDataset(prefix, multimodal=multimodal)
    assert len(dataset.document_indices) == len(documents) + 1
    position = 0
    for number, sequences in enumerate(documents):
        assert dataset.document_indices[number] == position
        for sequence in sequences:
            found = dataset[position]
            items = found[0] if multimodal else found
            assert numpy.array_equal(items, sequence), (prefix, position)
            if multimodal:
                assert found[1] == len(sequence) % 3
            position += 1
    assert len(dataset) == position


def main():
    copy, verify = sys.argv[1:3]
    chooser = numpy.random.default_rng(11)
    cases = 0
    with tempfile.TemporaryDirectory(prefix="meg-test-") as folder:
        for dtype in DTYPES:
            for multimodal in (False, True):
                switch = ["--multimodal"] if multimodal else []
                name = os.path.join(folder, f"{dtype.__name__}{multimodal}")
                halves = [random_documents(chooser, dtype, count) for count in (40, 25)]
                for half, documents in zip("ab", halves):
                    write(name + half, dtype, documents, multimodal)
                    subprocess.run([copy, *switch, name + half + "2", name + half], check=True)
                    expect_same_files(name + half, name + half + "2")
                    expect_documents(name + half + "2", documents, multimodal)
                    subprocess.run([verify, "dataset", name + half], check=True,
                                   stdout=subprocess.DEVNULL)
                merged = IndexedDatasetBuilder(name + "m.bin", dtype=dtype, multimodal=multimodal)
                merged.add_index(name + "a")
                merged.add_index(name + "b")
                merged.finalize(name + "m.idx")
                subprocess.run([copy, *switch, name + "m2", name + "a2", name + "b2"], check=True)
                expect_same_files(name + "m", name + "m2")
                expect_documents(name + "m2", halves[0] + halves[1], multimodal)
                cases += 1
    print(f"{cases} kinds of datasets: megatron-core and libmeg write and read the same bytes")


if __name__ == "__main__":
    main()
