#!/usr/bin/env python3
"""Datasets that dataset_tool converts, read by megatron-core, and what its stat counts, by numpy and Python.

megatron_core_reads_converted.py BIN [unittest arguments]
"""
import collections
import json
import os
import subprocess
import sys
import tempfile
import unittest

import numpy

try:
    import torch
    from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

BIN = ""
INTEGERS = ("uint8", "int8", "uint16", "int16", "int32", "int64")


def write_dataset(prefix, documents, dtype, modes=None):
    builder = IndexedDatasetBuilder(prefix + ".bin", dtype=dtype, multimodal=modes is not None)
    number = 0
    for document in documents:
        for sequence in document:
            builder.add_item(torch.tensor(sequence, dtype=torch.int64), *([modes[number]] if modes else []))
            number += 1
        builder.end_document()
    builder.finalize(prefix + ".idx")


def read_dataset(prefix, multimodal=False):
    data = IndexedDataset(prefix, multimodal=multimodal)
    documents = []
    for begin, end in zip(data.document_indices, data.document_indices[1:]):
        items = [data[i] for i in range(begin, end)]
        documents.append([(item[0].tolist(), int(item[1])) if multimodal else item.tolist() for item in items])
    return documents


class Converted(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        generator = numpy.random.RandomState(5)
        self.documents = [[generator.randint(0, 100, generator.randint(0, 30)).tolist()
                           for _ in range(generator.choice([0, 1, 1, 3]))] for _ in range(80)]

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run_tool(self, *arguments):
        return subprocess.run([os.path.join(BIN, "dataset_tool"), *map(str, arguments)], capture_output=True, text=True, timeout=120)

    def tool(self, *arguments):
        done = self.run_tool(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def error_of(self, *arguments):
        done = self.run_tool(*arguments)
        self.assertIn(done.returncode, (1, 2), done.stdout)
        return done.stderr.splitlines()[-1]

    def content(self, prefix):
        both = []
        for end in (".bin", ".idx"):
            with open(self.path(prefix + end), "rb") as file:
                both.append(file.read())
        return both

    def test_every_integer_dtype_becomes_every_other(self):
        for source in INTEGERS:
            write_dataset(self.path(source), self.documents, getattr(numpy, source))
            for target in INTEGERS:
                with self.subTest(source=source, target=target):
                    self.tool("convert", self.path(source), "--dtype", target, "--output-prefix", self.path("c"))
                    self.assertEqual(IndexedDataset(self.path("c")).index.dtype, getattr(numpy, target))
                    self.assertEqual(read_dataset(self.path("c")), self.documents)

    def test_what_does_not_fit_is_named(self):
        for value, source, target in ((300, "int32", "uint8"), (-1, "int64", "uint16"), (70000, "int32", "uint16"),
                                      (1 << 40, "int64", "int32"), (200, "uint8", "int8")):
            write_dataset(self.path("d"), [[[1, 2]], [[3], [4, value]]], getattr(numpy, source))
            self.assertIn(f"d.bin: sequence 2, item 1: expected a value of {target}, found {value}",
                          self.error_of("convert", self.path("d"), "--dtype", target, "--output-prefix", self.path("c")))
        self.assertIn("int items cannot become float32".replace("int", "uint8"), self.error_of(
            "convert", self.path("d"), "--dtype", "float32", "--output-prefix", self.path("c")))
        self.assertIn("expected another dataset than the source", self.error_of(
            "convert", self.path("d"), "--dtype", "int32", "--output-prefix", self.path("d")))
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("c")], [])

    def test_there_and_back_gives_the_same_bytes(self):
        for dtype in INTEGERS:
            write_dataset(self.path("d"), self.documents, getattr(numpy, dtype))
            if dtype == "uint16":
                self.assertIn("TNTIDX datasets cannot hold uint16", self.error_of(
                    "convert", self.path("d"), "--dataset-impl", "lazy", "--output-prefix", self.path("t")))
                continue
            self.assertEqual(self.tool("convert", self.path("d"), "--dataset-impl", "cached", "--output-prefix", self.path("t"))
                             ["format"], "TNTIDX")
            self.tool("convert", self.path("t"), "--dataset-impl", "mmap", "--output-prefix", self.path("b"))
            self.assertEqual(self.content("b"), self.content("d"))

    def test_modes_come_along(self):
        modes = [i % 3 for i in range(sum(map(len, self.documents)))]
        write_dataset(self.path("d"), self.documents, numpy.int32, modes)
        self.tool("convert", self.path("d"), "--dtype", "uint16", "--output-prefix", self.path("c"))
        self.assertEqual(read_dataset(self.path("c"), multimodal=True), read_dataset(self.path("d"), multimodal=True))
        self.assertIn("TNTIDX has no sequence modes", self.error_of(
            "convert", self.path("d"), "--dataset-impl", "lazy", "--output-prefix", self.path("t")))

    def test_statistics_are_those_of_numpy(self):
        documents = self.documents + [self.documents[7]] * 4 + [[[1, 2], [3]], [[1], [2, 3]], [[1, 2], [3]]]
        for dtype in INTEGERS:
            write_dataset(self.path("d"), documents, getattr(numpy, dtype))
            found = self.tool("stat", self.path("d"), "--top", 5)
            tokens = [t for d in documents for s in d for t in s]
            lengths = [sum(map(len, d)) for d in documents]
            self.assertEqual((found["documents"], found["tokens"]), (len(documents), len(tokens)))
            self.assertEqual(found["empty_documents"], lengths.count(0))
            self.assertEqual(found["distinct_tokens"], len(set(tokens)))
            wanted = sorted(collections.Counter(tokens).items(), key=lambda pair: (-pair[1], pair[0]))[:5]
            self.assertEqual([(t["id"], t["count"]) for t in found["most_frequent_tokens"]], wanted)
            quantiles = numpy.percentile(lengths, [0, 50, 90, 99, 100], method="inverted_cdf").astype(int).tolist()
            self.assertEqual([found["document_lengths"][k] for k in ("min", "median", "p90", "p99", "max")], quantiles)
            kinds = collections.Counter(json.dumps(d) for d in documents)
            self.assertEqual(found["duplicate_documents"], sum(count - 1 for count in kinds.values()))
            first = {}
            for number, document in enumerate(documents):
                first.setdefault(json.dumps(document), number)
            wanted = sorted(((-count, first[kind]) for kind, count in kinds.items() if count > 1))[:5]
            self.assertEqual([(-d["count"], d["document"]) for d in found["most_frequent_documents"]], wanted)

    def test_statistics_of_a_view_are_those_of_its_documents(self):
        write_dataset(self.path("d"), self.documents, numpy.int32)
        self.tool("slice", self.path("d"), "--every", 3, "--output-prefix", self.path("v"))
        write_dataset(self.path("c"), self.documents[::3], numpy.int32)
        view, copy = (self.tool("stat", self.path(name)) for name in "vc")
        self.assertEqual({**view, "prefix": ""}, {**copy, "prefix": ""})

    def test_ids_that_are_none_are_named(self):
        write_dataset(self.path("d"), [[[1, -7]]], numpy.int32)
        self.assertIn("sequence 0, item 1: expected an id from 0 to 16777215, found -7", self.error_of("stat", self.path("d")))
        self.assertIn("missing.idx: No such file", self.error_of("stat", self.path("missing")))


if __name__ == "__main__":
    BIN = sys.argv[1]
    del sys.argv[1]
    unittest.main()
