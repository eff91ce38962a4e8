#!/usr/bin/env python3
"""A run of pretrain_gpt is stopped, reblended from its checkpoint, and continues: on the samples that megatron-core reads.

reblended_training_test.py BIN [unittest arguments]
"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

import numpy

try:
    import torch
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
    from megatron.core.datasets.utils import get_blend_from_list
    from megatron.core.tokenizers import MegatronTokenizer
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

BIN = ""
VOCAB_SIZE = 4000
LENGTH = 8
VERSION = ["--megatron-version", "core_v0.16.1"]
SHARED = os.environ.get("MEG_SHARED", os.path.join(os.path.dirname(__file__), "../../../shared"))


class ReblendedTraining(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        chooser = random.Random(5)
        self.tokens = {}  # of each dataset, in order: each is another number
        first = 1
        for name in "abc":
            builder = IndexedDatasetBuilder(self.path(name + ".bin"), dtype=numpy.uint16)
            self.tokens[name] = []
            for _ in range(60):
                length = chooser.choice([3, 9, 30])
                self.tokens[name].append(list(range(first, first + length)))
                builder.add_item(torch.tensor(self.tokens[name][-1]))
                builder.end_document()
                first += length
            builder.finalize(self.path(name + ".idx"))
        self.assertLess(first, VOCAB_SIZE)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run_program(self, program, *arguments, code=0):
        done = subprocess.run([os.path.join(BIN, program), *map(str, arguments)], capture_output=True, text=True, cwd=self.folder,
                              timeout=300)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def data_flags(self, blend, cache, *length):
        return ["--data-path", *blend, "--split", "90,10,0", "--data-cache-path", cache, "--seq-length", LENGTH, "--seed", 7,
                "--micro-batch-size", 2, "--global-batch-size", 4, *length, "--eval-iters", 1, "--eval-interval", 100,
                "--tokenizer-type", "NullTokenizer", "--vocab-size", VOCAB_SIZE, *VERSION]

    def train(self, data, *flags):
        done = self.run_program("pretrain_gpt", *data, "--num-layers", 1, "--hidden-size", 16, "--num-attention-heads", 2,
                                "--max-position-embeddings", LENGTH, "--lr", "1e-3", "--log-interval", 1, "--save", "ckpt",
                                *flags)
        return done.stdout + done.stderr

    def traced(self, data, step):
        """The tokens of each sample of a step, by the arithmetic of pretrain_gpt."""
        said = json.loads(self.run_program("dataset_inspect", data[2], "--trace", "--json", "--step", step, *data).stdout)
        samples = []
        for sample in sorted(said["trace"]["samples"], key=lambda each: each["sample"]):
            samples.append([token for part in sample["parts"]
                            for token in self.tokens[part["prefix"]][part["sequence"]]
                            [part["offset"]: part["offset"] + part["length"]]])
        return samples

    def read(self, blend, cache, samples):
        """The same by megatron-core."""
        tokenizer = MegatronTokenizer.from_pretrained(metadata_path={"library": "null"}, vocab_size=VOCAB_SIZE)
        config = GPTDatasetConfig(
            random_seed=7, sequence_length=LENGTH, path_to_cache=cache, blend=get_blend_from_list(blend), split="90,10,0",
            tokenizer=tokenizer, create_attention_mask=False, reset_position_ids=False, reset_attention_mask=False,
            eod_mask_loss=False, mid_level_dataset_surplus=0.005)
        above = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, above)
        train = BlendedMegatronDatasetBuilder(GPTDataset, samples, lambda: True, config).build()[0]
        texts = [train[i] for i in range(samples[0])]
        return [text["tokens"].tolist() + text["labels"].tolist()[-1:] for text in texts]

    def test_a_run_continues_with_another_blend(self):
        blend = ["1", "a", "1", "b"]
        length = ["--train-iters", 12]
        self.train(self.data_flags(blend, "cache", *length), "--exit-interval", 5, "--save-interval", 5)
        before = self.read(blend, "cache", [48, 4, 4])
        for turn, wanted in enumerate((["1", "a", "2", "c"], ["2", "b", "1", "c"])):
            at, end = (5, 9) if turn == 0 else (9, 12)
            done = self.run_program("reblend", "--new-blend", *wanted, "--load", "ckpt", "--new-data-cache-path", f"cache{turn}",
                                    "--json", *VERSION)
            said = json.loads(done.stdout)
            self.assertEqual((said["consumed_samples"], said["iteration"], said["samples"]), (4 * at, at, 48))
            words = said["flags"]
            blend = words[1: words.index("--data-cache-path")]
            data = self.data_flags(blend, f"cache{turn}", *length)
            files = sorted(os.listdir(self.path(f"cache{turn}")))
            after = self.read(blend, f"cache{turn}", [48, 4, 4])
            self.assertEqual(after[: 4 * at], before[: 4 * at])
            self.assertEqual(len({tuple(text) for text in after}), 48)
            for step in range(1, 13):
                self.assertEqual(self.traced(data, step), after[4 * step - 4: 4 * step])
            log = self.train(data, "--load", "ckpt", "--exit-interval", end, "--save-interval", 100)
            self.assertEqual(re.findall(r"iteration +(\d+)/ +12 .*consumed samples: +(\d+)", log),
                             [(str(step), str(4 * step)) for step in range(at + 1, end + 1)])
            self.assertEqual(sorted(os.listdir(self.path(f"cache{turn}"))), files)
            before = after

    def test_iterations_of_a_ramp_up_are_counted(self):
        data = self.data_flags(["1", "a", "1", "b"], "cache", "--train-samples", 60, "--rampup-batch-size", 2, 2, 12)
        self.train(data, "--exit-interval", 8, "--save-interval", 8)
        blend = ["--new-blend", "1", "c", "--dry-run", "--json"]
        loaded = self.run_program("reblend", *blend, "--load", "ckpt", *VERSION)
        self.assertEqual(loaded.stderr, "")
        counted = self.run_program("reblend", *blend, "--iteration", 8, *data)
        self.assertEqual(loaded.stdout, counted.stdout)
        self.assertNotEqual(json.loads(loaded.stdout)["consumed_samples"], 8 * 4)

    def test_flags_beside_a_checkpoint(self):
        data = self.data_flags(["1", "a", "1", "b"], "cache", "--train-iters", 12)
        self.train(data, "--exit-interval", 5, "--save-interval", 5)
        common = ["--new-blend", "1", "c", "--dry-run", "--load", "ckpt", *VERSION]
        self.assertEqual(self.run_program("reblend", *common, *data).stderr, "")
        for wanted, flags in (("--seed: expected 7 as in the args of ", ["--seed", 8]),
                              ("--data-path: expected", ["--data-path", "1", "a", "2", "b"]),
                              ("--train-iters: expected 12", ["--train-iters", 13]),
                              ("--consumed-samples: expected 20", ["--consumed-samples", 16])):
            done = self.run_program("reblend", *common, *flags, code=2)
            self.assertIn(wanted, done.stderr.splitlines()[-1])
        moved = self.run_program("reblend", *common, "--data-cache-path", "elsewhere")
        self.assertIn("--data-cache-path: expected \"cache\"", moved.stderr)
        for wanted, flags in (("nowhere", ["--load", "nowhere"]), ("iter_0000004", ["--load", "ckpt", "--ckpt-step", 4])):
            done = self.run_program("reblend", *common[:4], *flags, *VERSION, code=1)
            self.assertIn(wanted, done.stderr)

    def test_args_that_megatron_wrote(self):
        runs = os.path.join(SHARED, "oracle", "training")
        if not os.path.isdir(runs):
            self.skipTest(f"no {runs}")
        done = subprocess.run([os.path.join(BIN, "reblend"), "--new-blend", "1", self.path("c"), "--load",
                               "mcore_gpt_fp32/final", "--megatron-version", "core_v0.12.3", "--dry-run", "--json",
                               "--new-train-iters", "40"], capture_output=True, text=True, cwd=runs)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(runs, "mcore_gpt_fp32", "log.json")) as file:
            consumed = json.load(file)["iterations"][-1]["consumed_train_samples"]
        said = json.loads(done.stdout)
        self.assertEqual((said["consumed_samples"], said["datasets"][0]["given"]), (consumed, consumed))


if __name__ == "__main__":
    import logging
    import warnings
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    store = tempfile.NamedTemporaryFile()
    torch.distributed.init_process_group("gloo", init_method=f"file://{store.name}", rank=0, world_size=1)
    BIN = sys.argv.pop(1)
    unittest.main()
