#!/usr/bin/env python3
"""Datasets that dataset_tool repairs, read by megatron-core.

megatron_core_reads_repaired.py BIN [unittest arguments]
"""
import filecmp
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import numpy

try:
    import torch
    from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

BIN = ""
EOD = 99


def write_dataset(prefix, documents, dtype=numpy.uint16, modes=None):
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


class Repaired(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        generator = numpy.random.RandomState(3)
        # One sequence a document, which ends with EOD and has no other.
        self.documents = [[generator.randint(0, EOD, generator.randint(0, 50)).tolist() + [EOD]] for _ in range(100)]

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run_program(self, program, *arguments):
        return subprocess.run([os.path.join(BIN, program), *map(str, arguments)], capture_output=True, text=True, timeout=120)

    def repair(self, *arguments):
        done = self.run_program("dataset_tool", "repair", *arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def error_of(self, *arguments):
        done = self.run_program("dataset_tool", "repair", *arguments)
        self.assertIn(done.returncode, (1, 2), done.stdout)
        return done.stderr.splitlines()[-1]

    def assert_whole(self, prefix):
        verified = self.run_program("verify", "dataset", prefix)
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)

    def test_an_index_is_found_in_the_tokens_of_every_dtype(self):
        for name in ("uint8", "int8", "uint16", "int16", "int32", "int64"):
            for tail in ([], [1, 2, 3]):
                with self.subTest(dtype=name, tail=tail):
                    documents = self.documents + ([[tail]] if tail else [])
                    write_dataset(self.path("d"), documents, getattr(numpy, name))
                    with open(self.path("d.idx"), "rb") as file:
                        index = file.read()
                    os.remove(self.path("d.idx"))
                    answer = self.repair(self.path("d"), "--eod", EOD, "--dtype", name, "--workers", 3, "--output-prefix",
                                         self.path("r"))
                    with open(self.path("r.idx"), "rb") as file:
                        self.assertEqual(file.read(), index)
                    self.assertEqual(read_dataset(self.path("r")), documents)
                    self.assert_whole(self.path("r"))
                    self.assertEqual(answer["view_of"], "d.bin")
                    self.assertEqual(len(answer["found"]), 2 if tail else 1)
                    answer = self.repair(self.path("d"), "--eod", EOD, "--dtype", name, "--drop-tail", "--copy",
                                         "--output-prefix", self.path("c"))
                    self.assertEqual(read_dataset(self.path("c")), self.documents)
                    self.assert_whole(self.path("c"))
                    self.assertEqual(answer["unused_bytes"], len(tail) * numpy.dtype(name).itemsize)

    def test_large_files_are_searched_in_stretches(self):
        tokens = numpy.random.RandomState(1).randint(0, 3000, 20_000_000).astype(numpy.uint16)
        tokens.tofile(self.path("d.bin"))
        with open(self.path("d.bin"), "ab") as file:
            file.write(b"1")
        answer = self.repair(self.path("d"), "--eod", 2999, "--dtype", "uint16", "--workers", 2, "--output-prefix", self.path("r"))
        self.assertEqual(answer["unused_bytes"], 1)
        ends = numpy.flatnonzero(tokens == 2999) + 1
        lengths = numpy.diff(numpy.concatenate([[0], ends, [len(tokens)]]))
        data = IndexedDataset(self.path("r"))
        self.assertTrue(numpy.array_equal(data.sequence_lengths, lengths))
        self.assertTrue(numpy.array_equal(data.document_indices, numpy.arange(len(lengths) + 1)))

    def test_lengths_without_their_end_of_document_are_mended(self):
        # As preprocess_data of 6ef5bdc wrote them: several sentences, some documents without any.
        documents = [[[4, 5], [6]], [], [[7]], [[8], [1, 2, 3]]]
        written = [[*map(list, d)] for d in documents]
        for document in written:
            if document:
                document[-1] = document[-1] + [EOD]
        write_dataset(self.path("right"), written)
        write_dataset(self.path("d"), documents)
        shutil.copy(self.path("right.bin"), self.path("d.bin"))
        answer = self.repair(self.path("d"), "--copy", "--output-prefix", self.path("r"))
        self.assertIn("6ef5bdc", answer["found"][0])
        for end in (".bin", ".idx"):
            with open(self.path("r" + end), "rb") as mended, open(self.path("right" + end), "rb") as right:
                self.assertEqual(mended.read(), right.read())
        with open(self.path("d.bin"), "r+b") as file:
            file.seek(2 * 3)
            file.write(b"\7\0")
        self.assertIn("these do not end alike: document 2 differs from the first",
                      self.error_of(self.path("d"), "--output-prefix", self.path("x")))

    def test_what_was_cut_off_is_left_out(self):
        modes = [d % 3 for d in range(100)]
        for multimodal in (None, modes):
            write_dataset(self.path("d"), self.documents, modes=multimodal)
            with open(self.path("d.idx"), "rb") as file:
                index = file.read()
            with open(self.path("d.bin"), "rb") as file:
                tokens = file.read()
            wanted = read_dataset(self.path("d"), bool(multimodal))
            documents_at = 34 + 12 * 100
            cuts = [(documents_at + 8 * 41 + 5, len(tokens), 40), (documents_at + 8, len(tokens), 0),
                    (len(index), len(tokens) - 1, 99), (len(index), len(tokens) // 2, None), (len(index), 0, None)]
            if multimodal:
                cuts.append((len(index) - 7, len(tokens), 93))
            for idx_bytes, bin_bytes, documents in cuts:
                with self.subTest(idx=idx_bytes, bin=bin_bytes, multimodal=bool(multimodal)):
                    with open(self.path("d.idx"), "wb") as file:
                        file.write(index[:idx_bytes])
                    with open(self.path("d.bin"), "wb") as file:
                        file.write(tokens[:bin_bytes])
                    answer = self.repair(self.path("d"), "--output-prefix", self.path("r"))
                    self.assertEqual(answer["lost_documents"], 100 - answer["documents"])
                    if documents is not None:
                        self.assertEqual(answer["documents"], documents)
                    self.assert_whole(self.path("r"))
                    if answer["documents"] > 0 and not (multimodal and idx_bytes < documents_at + 8 * 101):
                        self.assertEqual(read_dataset(self.path("r"), bool(multimodal)), wanted[:answer["documents"]])

    def test_a_repair_in_place_keeps_the_old_files(self):
        write_dataset(self.path("d"), self.documents)
        before = {}
        os.truncate(self.path("d.bin"), os.path.getsize(self.path("d.bin")) - 3)
        for end in (".bin", ".idx"):
            with open(self.path("d" + end), "rb") as file:
                before[end] = file.read()
        self.repair(self.path("d"), "--in-place")
        self.assertEqual(read_dataset(self.path("d")), self.documents[:99])
        self.assert_whole(self.path("d"))
        for end in (".bin", ".idx"):
            with open(self.path("d" + end + ".old"), "rb") as file:
                self.assertEqual(file.read(), before[end])
        self.assertEqual(self.repair(self.path("d"), "--in-place")["found"], [])
        os.truncate(self.path("d.bin"), os.path.getsize(self.path("d.bin")) - 3)
        os.remove(self.path("d.bin.old"))
        self.assertIn("d.idx.old: expected no file", self.error_of(self.path("d"), "--in-place"))
        # As a repair that is killed leaves it.
        os.remove(self.path("d.idx.old"))
        os.link(self.path("d.idx"), self.path("d.idx.old"))
        self.repair(self.path("d"), "--in-place")
        self.assertEqual(read_dataset(self.path("d")), self.documents[:98])
        self.assertEqual(sorted(os.listdir(self.folder)), ["d.bin", "d.bin.old", "d.idx", "d.idx.old"])

    def test_what_cannot_be_repaired_is_named(self):
        write_dataset(self.path("d"), self.documents)
        out = ("--output-prefix", self.path("x"))
        with open(self.path("d.idx"), "rb") as file:
            index = file.read()
        for change, wanted in (
                (lambda data: data[:20], "expected a header of 34 bytes"),
                (lambda data: data[:100], "the file ends in entry 16 of sequence_lengths; only a search"),
                (lambda data: b"TNTIDX\0\0" + data, "expected MMIDIDX, found TNTIDX"),
                (lambda data: data[:34] + struct.pack("<i", -5) + data[38:], "sequence 0 of length -5"),
                (lambda data: data + bytes(200), "expected at most"),
                (lambda data: data[:26] + b"\xff" * 8 + data[34:], "document indices; only a search")):
            with open(self.path("d.idx"), "wb") as file:
                file.write(change(index))
            self.assertIn(wanted, self.error_of(self.path("d"), *out))
        os.remove(self.path("d.idx"))
        for wanted, arguments in (
                ("d.idx: No such file", ()),
                ("--dtype: expected that of the items", ("--eod", 5)),
                ("--eod: expected 0 to 255 in uint8, found 256", ("--eod", 256, "--dtype", "uint8")),
                ("expected the end-of-document token 5000 among its", ("--eod", 5000, "--dtype", "int32"))):
            self.assertIn(wanted, self.error_of(self.path("d"), *arguments, *out))
        self.assertIn("either --output-prefix or --in-place", self.error_of(self.path("d")))
        # An empty name is none, and no repair in place.
        self.assertIn("expected a name for the new dataset", self.error_of(self.path("d"), "--output-prefix", ""))
        self.assertEqual(os.listdir(self.folder), ["d.bin"])

    def test_killed_at_any_time_it_leaves_a_whole_dataset(self):
        """MEG_KILLS: how many."""
        whole = untouched = 0
        for attempt in range(int(os.environ.get("MEG_KILLS", 12))):
            write_dataset(self.path("d"), self.documents * 20)
            os.truncate(self.path("d.bin"), os.path.getsize(self.path("d.bin")) - 3)
            shutil.copy(self.path("d.bin"), self.path("saved.bin"))
            shutil.copy(self.path("d.idx"), self.path("saved.idx"))
            process = subprocess.Popen([os.path.join(BIN, "dataset_tool"), "repair", self.path("d"), "--in-place"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.002 * (attempt % 12))
            process.send_signal(signal.SIGKILL)
            process.wait()
            kept = self.path("d.bin.old") if os.path.exists(self.path("d.bin.old")) else self.path("d.bin")
            self.assertTrue(filecmp.cmp(kept, self.path("saved.bin"), shallow=False))
            if os.path.exists(self.path("d.idx")) and self.run_program("verify", "dataset", self.path("d")).returncode == 0:
                whole += 1
                self.assertEqual(read_dataset(self.path("d")), (self.documents * 20)[:-1])
            elif os.path.exists(self.path("d.idx")):
                # No new file beside an old one.
                untouched += 1
                for end in (".idx", ".bin"):
                    self.assertTrue(filecmp.cmp(self.path("d" + end), self.path("saved" + end), shallow=False))
            for name in ("d.bin.old", "d.idx.old"):
                if os.path.exists(self.path(name)):
                    os.remove(self.path(name))
        print(f"kills: {whole} repaired, {untouched} as before")


if __name__ == "__main__":
    BIN = sys.argv[1]
    del sys.argv[1]
    unittest.main()
