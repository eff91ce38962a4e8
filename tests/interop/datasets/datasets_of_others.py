#!/usr/bin/env python3
"""Datasets that other tools write are read, verified, merged and sampled as megatron-core reads them.

datasets_of_others.py PROGRAM_FOLDER TOKENIZER_FOLDER (with vocab.json and merges.txt)
datatrove's MegatronDocumentTokenizer writes its files here, and NeMo Automodel's IndexedDatasetBuilder, of whose
package nothing else is loaded (scripts/setup.sh unpacks it); those of NeMo Curator's MegatronTokenizerWriter 1.4, whose
package needs a cluster's, are written as it does: a sequence a document, empty ones too, uint16 up to 65,536 ids.
Exits with 77 (skipped) where a package is missing.
"""
import importlib.util
import os
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy
    import torch
    from datatrove.data import Document
    from datatrove.pipeline.tokens.megatron_tokenizer import MegatronDocumentTokenizer
    from megatron.core.datasets.indexed_dataset import IndexedDataset
    from tokenizers import Tokenizer, models, pre_tokenizers
except ImportError as error:
    print(f"skipped: {error} (scripts/setup.sh installs it)")
    sys.exit(77)

PROGRAMS = TOKENIZER = ""
TEXTS = ["plain text", "", "naïve Über", "東京タワー", "x" * 500, "\n\n", "", "the end"] * 30


def write_as_nemo_curator(prefix, documents, dtype, code):
    with open(prefix + ".bin", "wb") as file:
        for ids in documents:
            file.write(numpy.array(ids, dtype).tobytes())
    lengths = [len(ids) for ids in documents]
    pointers = numpy.concatenate([[0], numpy.cumsum(lengths[:-1], dtype=numpy.int64)]) * numpy.dtype(dtype).itemsize
    with open(prefix + ".idx", "wb") as file:
        file.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, code, len(lengths), len(lengths) + 1))
        file.write(numpy.array(lengths, numpy.int32).tobytes() + pointers.astype(numpy.int64).tobytes())
        file.write(numpy.arange(len(lengths) + 1, dtype=numpy.int64).tobytes())


def automodel_datasets():
    """NeMo Automodel's module of .bin/.idx files, without the packages around it, which load all of its training."""
    deps = os.environ.get("MEG_DEPS") or os.path.expanduser("~/.cache/libmeg")
    package = os.path.join(deps, "nemo-automodel-0.7.0")
    if not os.path.isdir(package):
        return None
    sys.path.append(package)
    file = os.path.join(package, "nemo_automodel/components/datasets/llm/megatron/indexed_dataset.py")
    spec = importlib.util.spec_from_file_location("automodel_indexed_dataset", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Others(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run_program(self, name, *arguments, code=0):
        done = subprocess.run([os.path.join(PROGRAMS, name), *arguments], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def assert_read_as_by_megatron(self, prefix, vocab_size):
        self.run_program("verify", "dataset", prefix, "--vocab-size", str(vocab_size))
        theirs = IndexedDataset(prefix)
        shown = self.run_program("dataset_inspect", prefix, "--json").stdout
        self.assertIn(f'"tokens": {int(theirs.sequence_lengths.sum())}', shown)
        self.run_program("merge_datasets", prefix, prefix, "--output-prefix", self.path("merged"))
        merged = IndexedDataset(self.path("merged"))
        self.assertEqual(len(merged), 2 * len(theirs))
        for i in range(len(merged)):
            self.assertEqual(merged[i].tolist(), theirs[i % len(theirs)].tolist())
        indices = theirs.document_indices.tolist()
        self.assertEqual(merged.document_indices.tolist(), indices + [len(theirs) + at for at in indices[1:]])
        self.run_program("prepare_cache", "--data-path", prefix, "--split", "1,0,0", "--seq-length", "16",
                         "--micro-batch-size", "1", "--global-batch-size", "2", "--train-iters", "5",
                         "--data-cache-path", self.path("cache"), "--tokenizer-type", "NullTokenizer", "--vocab-size",
                         str(vocab_size))
        traced = self.run_program("dataset_inspect", "--trace", "--step", "1", "--data-path", prefix, "--split", "1,0,0",
                                  "--seq-length", "16", "--micro-batch-size", "1", "--global-batch-size", "2",
                                  "--train-iters", "5", "--data-cache-path", self.path("cache"))
        self.assertIn("step 1 of 5", traced.stdout)

    def test_datatrove(self):
        tokenizer = Tokenizer(models.BPE.from_file(os.path.join(TOKENIZER, "vocab.json"),
                                                   os.path.join(TOKENIZER, "merges.txt")))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.save(self.path("tokenizer.json"))
        for eos in ("<|endoftext|>", None):
            with self.subTest(eos):
                step = MegatronDocumentTokenizer(self.path("out"), "set", self.path("tokenizer.json"), eos_token=eos)
                step.run((Document(text, str(i)) for i, text in enumerate(TEXTS)))
                prefix = self.path("out", "set_00000_tokens")
                self.assertEqual(len(IndexedDataset(prefix)), len(TEXTS))
                self.assert_read_as_by_megatron(prefix, tokenizer.get_vocab_size())

    def test_nemo_curator(self):
        source = numpy.random.default_rng(1)
        for dtype, code, vocabulary in ((numpy.uint16, 8, 65536), (numpy.int32, 4, 200000)):
            with self.subTest(dtype):
                documents = [source.integers(0, vocabulary, size).tolist() for size in (5, 0, 300, 1, 0, 77)]
                documents[0] = [vocabulary - 1, 0]
                write_as_nemo_curator(self.path("set"), documents, dtype, code)
                self.assertEqual([ids.tolist() for ids in IndexedDataset(self.path("set"))], documents)
                self.assert_read_as_by_megatron(self.path("set"), vocabulary)

    def test_nemo_automodel(self):
        theirs = automodel_datasets()
        if theirs is None:
            self.skipTest("nemo-automodel is missing (scripts/setup.sh unpacks it)")
        source = numpy.random.default_rng(2)
        for vocabulary in (65499, 65500, 200000):
            dtype = theirs.DType.optimal_dtype(vocabulary)
            with self.subTest(vocabulary):
                self.assertEqual(dtype, numpy.uint16 if vocabulary < 65500 else numpy.int32)
                builder = theirs.IndexedDatasetBuilder(self.path("set.bin"), dtype=dtype)
                documents = [source.integers(0, vocabulary, size) for size in (5, 1, 300, 0, 77)]
                documents[0][0] = vocabulary - 1
                for ids in documents:
                    builder.add_document(ids, [len(ids)] if len(ids) else [])
                builder.add_item(torch.from_numpy(documents[0]))
                builder.add_item(torch.from_numpy(documents[2]))
                builder.end_document()
                builder.finalize(self.path("set.idx"))
                self.assert_read_as_by_megatron(self.path("set"), vocabulary)
                self.run_program("merge_datasets", self.path("set"), self.path("set"), "--output-prefix",
                                 self.path("both"))
                read = theirs.IndexedDataset(self.path("both"))
                self.assertEqual([ids.tolist() for ids in read], [ids.tolist() for ids in IndexedDataset(self.path("both"))])
        done = self.run_program("verify", "dataset", self.path("set"), "--vocab-size", str(vocabulary - 1), code=1)
        self.assertIn(str(vocabulary - 1), done.stdout + done.stderr)

    def test_pointers_that_overflowed(self):
        """From 2 GiB on NeMo Curator's pointers, summed as int32, are negative: damage that is named."""
        write_as_nemo_curator(self.path("set"), [[1, 2], [3]], numpy.int32, 4)
        with open(self.path("set.idx"), "r+b") as file:
            file.seek(34 + 8 + 8)
            file.write(struct.pack("<q", 8 - (1 << 32)))
        for command in (("verify", "dataset", self.path("set")),
                        ("merge_datasets", self.path("set"), "--output-prefix", self.path("merged"))):
            done = self.run_program(*command, code=1)
            self.assertRegex(done.stdout + done.stderr, "-4294967288")


if __name__ == "__main__":
    PROGRAMS, TOKENIZER = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], "-v"])
