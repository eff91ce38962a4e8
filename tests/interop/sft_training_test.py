#!/usr/bin/env python3
"""pretrain_gpt --sft on packed sequences that megatron-core wrote: attention within a conversation, loss on masked tokens.

The judge is pretrain_gpt on the same documents as a plain dataset with --reset-attention-mask, --reset-position-ids and
--eod-mask-loss, which other tests compare with Megatron-LM.

sft_training_test.py BIN [unittest arguments]
"""
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from rank_processes import RankProcesses  # noqa: E402

try:
    import torch
    from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

BIN = ""
EOD = 98  # of a NullTokenizer of 99 tokens


def write(prefix, documents, dtype):
    """documents: of sequences."""
    builder = IndexedDatasetBuilder(prefix + ".bin", dtype=dtype)
    for document in documents:
        for sequence in document:
            builder.add_item(torch.tensor(sequence, dtype=torch.int64))
        builder.end_document()
    builder.finalize(prefix + ".idx")


class SftTraining(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        rng = random.Random(3)
        # Three conversations in each packed sequence; no end of a document inside of them.
        self.packs = [[[rng.randrange(98) for _ in range(length - 1)] + [EOD] for length in (9, 5, 14)] for _ in range(8)]
        self.taken = 9 + 5 + 14  # tokens; positions are 3 fewer

    def path(self, name):
        return os.path.join(self.folder, name)

    def command(self, *flags, length, micro_batch_size=2):
        return [
            f"{BIN}/pretrain_gpt", "--num-layers", "2", "--hidden-size", "32", "--num-attention-heads", "4", "--seq-length", str(length),
            "--max-position-embeddings", "64", "--micro-batch-size", str(micro_batch_size), "--global-batch-size", "4", "--train-iters",
            "3", "--lr", "1e-2", "--min-lr", "1e-2", "--tokenizer-type", "NullTokenizer", "--vocab-size", "99", "--split", "100,0,0",
            "--eval-iters", "0", "--log-interval", "1", "--init-method-std", "0.3", "--attention-dropout", "0", "--hidden-dropout", "0",
            "--make-vocab-size-divisible-by", "2", *flags]

    def train(self, *flags, fails=False, **options):
        done = subprocess.run(self.command(*flags, **options), capture_output=True, text=True, cwd=self.folder)
        if fails:
            self.assertNotEqual(done.returncode, 0, done.stdout)
            return done.stderr.rstrip("\n").split("\n")[-1]
        self.assertEqual(done.returncode, 0, done.stderr)
        self.output = done.stdout
        return [float(loss) for loss in re.findall(r"lm loss: (\S+)", done.stdout)]

    def write_packed(self, name, mask_of):
        write(self.path(name), self.packs, numpy.int32)
        write(self.path(name) + "_loss_mask", [[mask_of(one) for one in pack] for pack in self.packs], numpy.uint8)
        return self.path(name)

    def test_attention_ends_with_the_conversation(self):
        # The plain dataset is shuffled and cut every `taken` tokens: with the same documents of that length it has the same
        # sample everywhere, behind which stands the first token of the next one.
        self.packs = [self.packs[0]] * 8
        packed = self.write_packed("packed", lambda one: [1] * len(one))
        write(self.path("plain"), [[sum(pack, [])] for pack in self.packs], numpy.int32)
        for flags in ((), ("--position-embedding-type", "rope")):
            wanted = self.train("--data-path", self.path("plain"), "--reset-attention-mask", "--reset-position-ids", "--eod-mask-loss",
                                *flags, length=self.taken)
            made = self.train("--sft", "--data-path", packed, *flags, length=self.taken - 3)
            numpy.testing.assert_allclose(made, wanted, rtol=2e-5)
            # So does padding.
            padded = self.train("--sft", "--data-path", packed, *flags, length=self.taken + 9)
            numpy.testing.assert_allclose(padded, wanted, rtol=2e-5)
            mixed = self.train("--data-path", self.path("plain"), "--eod-mask-loss", *flags, length=self.taken)
            self.assertGreater(abs(mixed[0] - wanted[0]), 1e-4)

    def test_loss_is_the_mean_of_masked_tokens(self):
        """Losses of a mask and of its complement, by their numbers of tokens, are that of all tokens."""
        def some(one):
            return [(i + len(one)) % 3 == 0 for i in range(len(one))]

        def count(mask_of):
            return sum(sum(mask_of(one)[1:]) for pack in self.packs[:4] for one in pack)

        def rest(one):
            return [not m for m in some(one)]

        length = self.taken - 3
        losses, counts = [], []
        for name, mask_of in (("all", lambda one: [1] * len(one)), ("some", some), ("rest", rest)):
            losses.append(self.train("--sft", "--data-path", self.write_packed(name, mask_of), length=length, micro_batch_size=4)[0])
            counts.append(count(mask_of))
        self.assertEqual(counts[0], counts[1] + counts[2])
        self.assertAlmostEqual(losses[0], (losses[1] * counts[1] + losses[2] * counts[2]) / counts[0], delta=2e-5)
        self.assertIn("8 packed sequences", self.output)
        self.assertIn("packing efficiency 100.00%", self.output)

    def test_order_and_blends(self):
        packed = self.write_packed("packed", lambda one: [1] * len(one))
        first = self.train("--sft", "--data-path", packed, length=self.taken)
        self.assertEqual(self.train("--sft", "--data-path", "1", packed, "1", packed, length=self.taken)[0] > 0, True)
        self.assertEqual(self.train("--sft", "--train-data-path", packed, length=self.taken), first)

    def test_ranks_train_the_same(self):
        """Over data-, tensor- and pipeline-parallel ranks: positions and borders of conversations reach every stage."""
        packed = self.write_packed("packed", lambda one: [i % 2 for i in range(len(one))])
        # Tensor-parallel ranks draw other first weights. The vocabulary is padded to the same rows by any number of them.
        self.train("--sft", "--data-path", packed, "--save", self.path("first"), length=self.taken)
        load = ("--sft", "--data-path", packed, "--load", self.path("first"), "--finetune")
        wanted = self.train(*load, length=self.taken, micro_batch_size=1)
        ranks = RankProcesses(self)
        for flags in ((), ("--tensor-model-parallel-size", "2"), ("--pipeline-model-parallel-size", "2")):
            with self.subTest(flags=flags):
                processes = ranks.start(2, self.command(*load, *flags, length=self.taken, micro_batch_size=1), cwd=self.folder)
                codes, written = ranks.end(processes)
                self.assertEqual(codes, [0, 0], written[0][1] + written[1][1])
                made = [float(loss) for out, _ in written for loss in re.findall(r"lm loss: (\S+)", out)]
                numpy.testing.assert_allclose(made, wanted, rtol=2e-5)

    def test_resumes_and_evaluates(self):
        packed = self.write_packed("packed", lambda one: [1] * len(one))
        flags = ["--sft", "--train-data-path", packed, "--valid-data-path", packed]
        whole = self.train(*flags, "--train-iters", "6", length=self.taken)
        self.train(*flags, "--save", self.path("run"), length=self.taken)
        rest = self.train(*flags, "--train-iters", "6", "--load", self.path("run"), "--override-opt_param-scheduler",
                          "--eval-interval", "6", "--eval-iters", "2", length=self.taken)
        numpy.testing.assert_allclose(rest, whole[3:], rtol=2e-5)
        # Validation is the loss of the same samples, which are two steps' own.
        self.assertRegex(self.output, r"validation loss at iteration 6 \| lm loss value: \d")
        value = float(re.search(r"validation loss at iteration 6 \| lm loss value: (\S+)", self.output).group(1))
        self.train(*flags, "--load", self.path("run"), "--skip-train", "--eval-iters", "2", length=self.taken)
        skipped = float(re.search(r"lm loss value: (\S+)", self.output).group(1))
        self.assertGreater(abs(value - skipped), 1e-3)  # of the weights after iteration 3

    def test_refusals(self):
        packed = self.write_packed("packed", lambda one: [1] * len(one))
        self.assertIn("the dataset was packed for longer sequences", self.train("--sft", "--data-path", packed, length=20, fails=True))
        write(self.path("plain"), self.packs, numpy.int32)
        self.assertIn("expected a dataset of pack_dataset", self.train("--sft", "--data-path", self.path("plain"), length=32, fails=True))
        write(packed + "_loss_mask", [[[1]]], numpy.uint8)
        self.assertIn("uint8 for each of its tokens", self.train("--sft", "--data-path", packed, length=32, fails=True))


if __name__ == "__main__":
    BIN = sys.argv.pop(1)
    unittest.main()
