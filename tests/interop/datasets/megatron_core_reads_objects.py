#!/usr/bin/env python3
"""Datasets in a store that moto plays, read by the real megatron-core and by libmeg: the same tokens and index caches.

megatron_core_reads_objects.py PROGRAMS_FOLDER
Exits with 77 (skipped) where a package is missing.
"""
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import unittest
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

try:
    import boto3
    import numpy
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder
    from megatron.core.datasets.object_storage_utils import ObjectStorageConfig
    from megatron.core.tokenizers import MegatronTokenizer
    from moto.server import ThreadedMotoServer
except ImportError as error:
    print(f"skipped: {error} (scripts/setup.sh installs it)")
    sys.exit(77)

PROGRAMS = os.path.abspath(sys.argv.pop(1))
VOCAB_SIZE = 1000
ADDRESS = "s3://bucket/sets/corpus_text_document"


class Objects(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        server.start()
        self.addCleanup(server.stop)
        # Both sides read these.
        os.environ |= {"AWS_ENDPOINT_URL": "http://{}:{}".format(*server.get_host_and_port()), "HOME": self.folder,
                       "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1"}
        prefix = self.path("corpus_text_document")
        builder = IndexedDatasetBuilder(prefix + ".bin", dtype=numpy.uint16)
        draw = random.Random(1)
        for _ in range(300):
            ids = [draw.randrange(VOCAB_SIZE) for _ in range(draw.randrange(1, 90))]
            builder.add_document(numpy.array(ids, dtype=numpy.uint16), [len(ids)])
        builder.finalize(prefix + ".idx")
        store = boto3.client("s3")
        store.create_bucket(Bucket="bucket")
        for ending in (".bin", ".idx"):
            store.upload_file(prefix + ending, "bucket", "sets/corpus_text_document" + ending)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run_program(self, name, *flags):
        done = subprocess.run([os.path.join(PROGRAMS, name), *flags], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_same_tokens(self):
        theirs = IndexedDataset(ADDRESS, mmap=False,
                                object_storage_config=ObjectStorageConfig(path_to_idx_cache=self.path("idx")))
        self.assertTrue(os.path.exists(self.path("idx", "bucket", "sets", "corpus_text_document.idx")))
        for sequence in (0, 1, 150, len(theirs) - 1):
            shown = json.loads(self.run_program("dataset_inspect", ADDRESS, "--sequence", str(sequence), "--json"))
            self.assertEqual(shown["sequence"]["tokens"], theirs[sequence].tolist())

    def test_the_same_index_caches(self):
        """The copies of .idx and the caches lie where megatron-core looks for them, which takes ours as they are."""
        self.run_program("prepare_cache", "--data-path", ADDRESS, "--split", "90,5,5", "--seq-length", "32", "--samples",
                         "400,20,10", "--tokenizer-type", "NullTokenizer", "--vocab-size", str(VOCAB_SIZE),
                         "--data-cache-path", self.path("cache"), "--object-storage-cache-path", self.path("idx"),
                         "--megatron-version", "core_v0.16.1")
        before = {name: os.stat(self.path("cache", name)).st_ino for name in os.listdir(self.path("cache"))}
        self.assertEqual(sum(name.endswith(".npy") for name in before), 9)
        copy = self.path("idx", "bucket", "sets", "corpus_text_document.idx")
        with open(copy, "rb") as ours, open(self.path("corpus_text_document.idx"), "rb") as original:
            self.assertEqual(ours.read(), original.read())
        config = GPTDatasetConfig(
            random_seed=1234, sequence_length=32, blend=([ADDRESS], None), split="90,5,5",
            tokenizer=MegatronTokenizer.from_pretrained(metadata_path={"library": "null"}, vocab_size=VOCAB_SIZE),
            path_to_cache=self.path("cache"), object_storage_cache_path=self.path("idx"), mmap_bin_files=False,
            create_attention_mask=False, reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False)
        splits = BlendedMegatronDatasetBuilder(GPTDataset, [400, 20, 10], lambda: True, config).build()
        self.assertEqual([len(split[0]["tokens"]) for split in splits], [32] * 3)
        self.assertEqual({name: os.stat(self.path("cache", name)).st_ino for name in os.listdir(self.path("cache"))},
                         before)


if __name__ == "__main__":
    unittest.main()
