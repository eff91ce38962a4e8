#!/usr/bin/env python3
"""Index caches go both ways between prepare_cache and the real megatron-core (PyPI).

prepare_cache_test.py PROGRAM [unittest arguments]
Each case is built once by prepare_cache and once by megatron-core, in two folders that look alike:
the files are equal byte for byte, each side loads what the other built without touching it, and
the samples are the same. Skips where megatron-core is missing.
"""
import hashlib
import json
import logging
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

try:
    import importlib.metadata

    import numpy
    import torch
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.tokenizers import MegatronTokenizer
except ImportError as error:
    print(f"skipped: {error} (scripts/setup.sh installs it)")
    sys.exit(77)

VERSION = "core_v" + importlib.metadata.version("megatron-core")
PROGRAM = os.path.abspath(sys.argv.pop(1))
VOCAB_SIZE = 1000
SPLITS = ("train", "valid", "test")
NEW = ["--tokenizer-type", "NullTokenizer", "--vocab-size", str(VOCAB_SIZE)]
LEGACY = ["--legacy-tokenizer", "--vocab-file", "gpt2/vocab.json", "--merge-file", "gpt2/merges.txt"]


class LegacyTokenizer:
    """What megatron.training's GPT2BPETokenizer is to a dataset."""

    unique_identifiers = {"class": "_GPT2BPETokenizer",
                          "tokenizer_path": ["gpt2/vocab.json", "gpt2/merges.txt"]}
    vocab_size = VOCAB_SIZE
    eod = 0


def write_dataset(prefix, lengths, chooser):
    """MMIDIDX of uint16, one to three sequences a document."""
    lengths = numpy.array(lengths, dtype=numpy.int32)
    pointers = 2 * (numpy.cumsum(lengths, dtype=numpy.int64) - lengths)
    documents = [0]
    while documents[-1] < len(lengths):
        documents.append(min(len(lengths), documents[-1] + chooser.choice([1, 1, 1, 2, 3])))
    with open(prefix + ".idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(lengths), len(documents)))
        file.write(lengths.tobytes() + pointers.tobytes())
        file.write(numpy.array(documents, dtype=numpy.int64).tobytes())
    tokens = [chooser.randrange(VOCAB_SIZE) for _ in range(int(lengths.sum()))]
    numpy.array(tokens, dtype=numpy.uint16).tofile(prefix + ".bin")


def flat(blend):
    prefixes, weights = blend
    if weights is None:
        return prefixes
    return [word for weight, prefix in zip(weights, prefixes) for word in (str(weight), prefix)]


def flags_of(case):
    flags = ["--seq-length", case["seq"], "--seed", case.get("seed", 1234)]
    flags += ["--samples", ",".join(str(count) for count in case["samples"])]
    if "per_split" in case:
        for name, blend in zip(SPLITS, case["per_split"]):
            flags += [f"--{name}-data-path", *flat(blend)] if blend else []
    else:
        flags += ["--data-path", *flat(case["blend"]), "--split", case["split"]]
    flags += ["--data-cache-path", "cache"] if case.get("cache", True) else []
    flags += ["--no-extra-token"] if case.get("no_extra") else []
    flags += ["--no-drop-last-partial-validation-sequence"] if case.get("keep_last") else []
    flags += LEGACY if case.get("legacy") else NEW
    return [str(flag) for flag in flags] + ["--megatron-version", VERSION]


def prepare(folder, case):
    """Runs prepare_cache; what it says of each cache. Blends have none without --data-cache-path."""
    done = subprocess.run([PROGRAM, *flags_of(case), "--json"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [cache["outcome"] for cache in json.loads(done.stdout)["caches"] if cache["description"]]


def load(folder, case):
    """The real datasets of the three splits, which load their caches or build them."""
    if case.get("legacy"):
        tokenizer = LegacyTokenizer()
    else:
        tokenizer = MegatronTokenizer.from_pretrained(metadata_path={"library": "null"}, vocab_size=VOCAB_SIZE)
    config = GPTDatasetConfig(
        random_seed=case.get("seed", 1234), sequence_length=case["seq"], tokenizer=tokenizer,
        blend=case.get("blend"), blend_per_split=case.get("per_split"), split=case.get("split"),
        path_to_cache="cache" if case.get("cache", True) else None, create_attention_mask=False,
        reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False,
        add_extra_token_to_sequence=not case.get("no_extra"),
        drop_last_partial_validation_sequence=not case.get("keep_last"))
    here = os.getcwd()
    os.chdir(folder)
    try:
        return BlendedMegatronDatasetBuilder(GPTDataset, case["samples"], lambda: True, config).build()
    finally:
        os.chdir(here)


def samples_of(datasets):
    """A digest of every sample's fields, by split."""
    digests = []
    for dataset in datasets:
        digest = hashlib.sha256()
        for i in range(0 if dataset is None else len(dataset)):
            for name in ("tokens", "labels", "loss_mask", "position_ids"):
                digest.update(numpy.ascontiguousarray(dataset[i][name].numpy()).tobytes())
        digests.append((0 if dataset is None else len(dataset), digest.hexdigest()))
    return digests


def caches_in(folder):
    """Path -> (bytes, inode, time) of every file that Megatron would write."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if not name.endswith((".bin", ".idx", "-libmeg.json")):
                status = os.stat(path)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, folder)] = (file.read(), status.st_ino, status.st_mtime_ns)
    return found


def contents(caches):
    return {name: bytes_and_stat[0] for name, bytes_and_stat in caches.items()}


class PrepareCache(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # BlendedMegatronDatasetBuilder asks for a rank.
        cls.folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        torch.distributed.init_process_group("gloo", init_method=f"file://{cls.folder.name}/store",
                                             rank=0, world_size=1)
        cls.data = os.path.join(cls.folder.name, "data")
        os.mkdir(cls.data)
        chooser = random.Random(5)
        for name, sequences in (("a", 700), ("b", 120), ("c", 60)):
            lengths = [chooser.randrange(0, 60) for _ in range(sequences)]
            write_dataset(os.path.join(cls.data, name), lengths, chooser)

    @classmethod
    def tearDownClass(cls):
        torch.distributed.destroy_process_group()
        cls.folder.cleanup()

    def check(self, **case):
        """Both ways, each in a folder of its own."""
        with tempfile.TemporaryDirectory(prefix="meg-test-") as temp:
            ours, theirs = os.path.join(temp, "ours"), os.path.join(temp, "theirs")
            for folder in (ours, theirs):
                shutil.copytree(self.data, os.path.join(folder, "data"))
            self.assertEqual(set(prepare(ours, case)), {"built"})
            built_by_us = caches_in(ours)
            self.assertTrue(built_by_us)
            samples = samples_of(load(ours, case))
            self.assertEqual(caches_in(ours), built_by_us, "megatron-core built them again")

            their_samples = samples_of(load(theirs, case))
            built_by_them = caches_in(theirs)
            self.assertEqual(contents(built_by_us), contents(built_by_them))
            self.assertEqual(samples, their_samples)
            self.assertEqual(set(prepare(theirs, case)), {"found"})
            self.assertEqual(caches_in(theirs), built_by_them, "prepare_cache touched them")

    def test_one_dataset(self):
        self.check(blend=(["data/a"], None), split="949,50,1", samples=(300, 20, 1), seq=32)

    def test_beside_the_data(self):
        self.check(blend=(["data/a"], None), split="969, 30, 1", samples=(300, 20, 1), seq=32, cache=False)

    def test_legacy_tokenizer(self):
        self.check(blend=(["data/a"], None), split="9,1,0", samples=(100, 5, 0), seq=64, legacy=True)

    def test_several_epochs(self):
        self.check(blend=(["data/b"], None), split="8,1,1", samples=(4000, 200, 100), seq=16, seed=4294967295)

    def test_last_epoch_apart(self):
        self.check(blend=(["data/b"], None), split="1,0,0", samples=(250, 0, 0), seq=16, seed=0)
        self.check(blend=(["data/b"], None), split="1,0,0", samples=(430, 0, 0), seq=16, seed=0)

    def test_one_epoch(self):
        self.check(blend=(["data/b"], None), split="8,1,1", samples=(None, None, None), seq=16)

    def test_blend(self):
        self.check(blend=(["data/a", "data/b", "data/c"], [0.3, 0.5, 0.2]), split="8,1,1", samples=(900, 60, 10), seq=24)

    def test_blend_without_weights(self):
        self.check(blend=(["data/c", "data/a", "data/b"], None), split="8,1,1", samples=(500, 20, 5), seq=24)
        self.check(blend=(["data/c", "data/a", "data/b"], None), split="8,1,1", samples=(None, None, 5), seq=24)

    def test_datasets_for_each_split(self):
        self.check(per_split=[(["data/a"], None), (["data/b"], None), None], samples=(300, 40, 0), seq=32)
        self.check(per_split=[(["data/a", "data/b"], [0.9, 0.1]), (["data/c"], None), (["data/b", "data/c"], None)],
                   samples=(300, 40, 9), seq=32)

    def test_samples_without_extra_token(self):
        self.check(blend=(["data/b"], None), split="8,1,1", samples=(700, 40, 10), seq=16, no_extra=True)

    def test_last_validation_sample_kept(self):
        self.check(blend=(["data/b"], None), split="5,4,1", samples=(100, None, 5), seq=17, keep_last=True)
        self.check(blend=(["data/b"], None), split="5,4,1", samples=(100, 90, 5), seq=17, keep_last=True, no_extra=True)

    def test_datasets_shorter_than_one_sample(self):
        self.check(blend=(["data/c"], None), split="8,1,1", samples=(30, 20, 10), seq=4000)
        self.check(blend=(["data/c", "data/a"], [0.7, 0.3]), split="8,1,1", samples=(30, 20, 10), seq=4000)
        self.check(blend=(["data/c"], None), split="8,1,1", samples=(30, None, None), seq=4000)

    def test_nothing_to_train_on(self):
        self.check(blend=(["data/b"], None), split="0,100,0", samples=(300, 20, 10), seq=32)

    def test_random_runs(self):
        chooser = random.Random(6)
        for _ in range(6):
            blend = chooser.choice([(["data/b"], None), (["data/b", "data/c"], [chooser.random() + 0.01, 2]),
                                    (["data/b", "data/a"], None)])
            case = {"blend": blend, "split": chooser.choice(["8,1,1", "5,3,2", "1,1,1", "100,0,0"]),
                    "samples": tuple(chooser.randrange(1, most) for most in (800, 60, 20)),
                    "seq": chooser.randrange(2, 50), "seed": chooser.randrange(1 << 32),
                    "no_extra": chooser.random() < 0.3, "cache": chooser.random() < 0.7}
            if case["split"] == "100,0,0":
                case["samples"] = (case["samples"][0], 0, 0)
            with self.subTest(case=case):
                self.check(**case)


if __name__ == "__main__":
    unittest.main()
