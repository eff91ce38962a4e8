#!/usr/bin/env python3
"""merge_datasets writes the bytes of the real megatron-core's add_index, and of views what its reader sees.

megatron_core_merges_datasets.py PROGRAM
Exits with 77 (skipped) where a package is missing.
"""
import os
import random
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy
    import torch
    from megatron.core.datasets.indexed_dataset import (IndexedDataset, IndexedDatasetBuilder,
                                                        _IndexWriter)
except ImportError as error:
    print(f"skipped: {error} (scripts/setup.sh installs it)")
    sys.exit(77)

PROGRAM = os.path.abspath(sys.argv.pop(1))


class Merges(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.random = random.Random(3)
        os.mkdir(self.path("parts"))

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write_set(self, prefix, dtype, multimodal):
        builder = IndexedDatasetBuilder(prefix + ".bin", dtype=dtype, multimodal=multimodal)
        for _ in range(self.random.randrange(20)):
            lengths = [self.random.randrange(9) for _ in range(self.random.randrange(4))]
            items = torch.tensor([self.random.randrange(100) for _ in range(sum(lengths))], dtype=torch.int64)
            modes = [self.random.randrange(5) for _ in lengths]
            builder.add_document(items, lengths, modes if multimodal else None)
        builder.finalize(prefix + ".idx")

    def merge(self, *flags):
        done = subprocess.run([PROGRAM, *flags, "--output-prefix", self.path("ours")], capture_output=True,
                              text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def assert_same_bytes(self, expected):
        for end in (".bin", ".idx"):
            with open(self.path("ours") + end, "rb") as ours, open(expected + end, "rb") as theirs:
                self.assertEqual(ours.read(), theirs.read(), end)

    def test_bytes_are_those_of_add_index(self):
        for dtype in (numpy.uint8, numpy.int8, numpy.uint16, numpy.int16, numpy.int32, numpy.int64,
                      numpy.float32, numpy.float64):
            for multimodal in (False, True):
                names = [f"{k:x}" for k in range(5)]
                for name in names:
                    self.write_set(self.path("parts", name), dtype, multimodal)
                builder = IndexedDatasetBuilder(self.path("theirs.bin"), dtype=dtype, multimodal=multimodal)
                for name in names:
                    builder.add_index(self.path("parts", name))
                builder.finalize(self.path("theirs.idx"))
                with self.subTest(dtype=dtype, multimodal=multimodal):
                    self.merge("--input", self.path("parts"))
                    self.assert_same_bytes(self.path("theirs"))

    def test_views_give_what_the_reader_sees(self):
        self.write_set(self.path("whole"), numpy.int32, False)
        whole = IndexedDataset(self.path("whole"))
        lengths, pointers = whole.sequence_lengths, whole.index.sequence_pointers
        for k in range(20):
            chosen = [self.random.randrange(len(lengths)) for _ in range(self.random.randrange(1, 30))]
            if k == 0:
                chosen = list(range(len(lengths)))[::-1]
            view = self.path(f"view{k}")
            os.symlink(self.path("whole.bin"), view + ".bin")
            with _IndexWriter(view + ".idx", numpy.int32) as writer:  # its pointers are then replaced
                writer.write([int(lengths[i]) for i in chosen], None, list(range(len(chosen) + 1)))
            with open(view + ".idx", "r+b") as index:
                index.seek(34 + 4 * len(chosen))
                index.write(numpy.array([pointers[i] for i in chosen], dtype=numpy.int64).tobytes())
            notes = self.merge(view)
            self.assertIn("a view: its sequences were gathered", notes)
            ours, theirs = IndexedDataset(self.path("ours")), IndexedDataset(view)
            self.assertEqual(len(ours), len(theirs))
            for i in range(len(theirs)):
                self.assertEqual(ours[i].tolist(), theirs[i].tolist())

    def test_widened_tokens_are_the_same(self):
        self.write_set(self.path("narrow"), numpy.uint16, False)
        self.merge(self.path("narrow"), "--dtype", "int32")
        ours, theirs = IndexedDataset(self.path("ours")), IndexedDataset(self.path("narrow"))
        self.assertEqual(ours.index.dtype, numpy.int32)
        self.assertEqual(ours.document_indices.tolist(), theirs.document_indices.tolist())
        self.assertEqual([ours[i].tolist() for i in range(len(ours))],
                         [theirs[i].tolist() for i in range(len(theirs))])


if __name__ == "__main__":
    unittest.main()
