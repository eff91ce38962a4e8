#!/usr/bin/env python3
"""Padding tokens in the data are trained on as the real megatron-core's GPTDataset says.

megatron_core_pads.py PRETRAIN_GPT [unittest arguments]
megatron-core's tokenizers and GPTDataset make the samples of the index caches that PRETRAIN_GPT
wrote, and its model their losses, which are compared with the run's. So of 0.16.1, which is
installed, and of 0.19.2, which scripts/setup.sh unpacks for this test.

A GPTDataset of each sample's own: one that is read twice masks what its first sample masked in all
others, too (docs/megatron_versions.md).
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import warnings

warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
CORE_0_19 = os.path.join(os.path.expanduser("~"), ".cache", "libmeg", "megatron-core-0.19.2")
SAMPLES = "--samples"
STEPS, BATCH, LENGTH, ROWS = 3, 2, 32, 64
PAD, EOD = 5, 63

if sys.argv[1:2] == [SAMPLES] and sys.argv[2]:
    sys.path.insert(0, sys.argv[2])
sys.path.append(os.path.join(HERE, "../interop"))
try:
    import numpy
    import tokenizers
    import torch
    import transformers
    from megatron.core.datasets import gpt_dataset
    from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder
    from megatron.core.datasets.utils import Split
    from megatron.core.tokenizers import MegatronTokenizer
except ImportError as error:
    print(f"skipped: {error} (scripts/setup.sh installs it)")
    sys.exit(77)


def tokenizer_of(case):
    if "null" in case:
        return MegatronTokenizer.from_pretrained(metadata_path={"library": "null-text"},
                                                 vocab_size=ROWS, **case["null"])
    return MegatronTokenizer.from_pretrained(tokenizer_path=case["folder"],
                                             metadata_path={"library": "huggingface"})


def print_samples(path):
    """A process of its own, as it may be of another megatron-core."""
    with open(path, encoding="utf-8") as file:
        case = json.load(file)
    indices = [numpy.load(glob.glob(f"{case['cache']}/*-GPTDataset-train-{name}_index.npy")[0])
               for name in ("document", "sample", "shuffle")]
    gpt_dataset.GPTDataset._build_document_sample_shuffle_indices = lambda self: indices
    config = gpt_dataset.GPTDatasetConfig(
        random_seed=1234, sequence_length=LENGTH, blend=([case["prefix"]], None), split="1,0,0",
        tokenizer=tokenizer_of(case), mid_level_dataset_surplus=0.005,
        **({"reset_position_ids": False, "reset_attention_mask": False, "eod_mask_loss": False}
           | case.get("config", {})))
    data = IndexedDataset(case["prefix"])
    every = numpy.arange(len(data.sequence_lengths), dtype=numpy.int32)
    samples = []
    for number in range(STEPS * BATCH):
        dataset = gpt_dataset.GPTDataset(data, case["prefix"], every, STEPS * BATCH, Split.train,
                                         config)
        sample = dataset[number]
        samples.append({key: sample[key].tolist()
                        for key in ("tokens", "labels", "loss_mask", "position_ids")})
    print(json.dumps(samples))


class Pads(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.prefix = self.path("data")
        builder = IndexedDatasetBuilder(self.prefix + ".bin", dtype=numpy.uint16)
        chooser = numpy.random.default_rng(1)
        for length in chooser.integers(3, 40, 40):
            ids = chooser.integers(0, ROWS - 1, length)
            ids[chooser.random(length) < 0.4] = PAD
            builder.add_item(torch.tensor(numpy.append(ids, EOD)))
            builder.end_document()
        builder.finalize(self.prefix + ".idx")

    def path(self, name):
        return os.path.join(self.folder, name)

    def hugging_face(self, pad):
        folder = self.path("tokenizer")
        words = {f"w{i}": i for i in range(ROWS)}
        made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
        transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token=f"w{EOD}",
                                             pad_token=f"w{pad}").save_pretrained(folder)
        return {"folder": folder}, ["--tokenizer-type", "HuggingFaceTokenizer",
                                    "--tokenizer-model", folder]

    def null(self, pad):
        ids = {"eod_id": EOD, "pad_id": pad}
        return {"null": ids}, ["--tokenizer-type", "NullTokenizer", "--vocab-size", ROWS,
                               "--null-tokenizer-pad-id", pad]

    def model(self):
        """megatron-core's, and the folder of a checkpoint of it."""
        args = type("Args", (), {})()
        vars(args).update(trains.RUN, seq_length=LENGTH, max_position_embeddings=LENGTH)
        torch.manual_seed(5)
        module = core.make_model(trains.argparse.Namespace(**vars(args)))
        core.save(self.path("load"), module, trains.argparse.Namespace(**vars(args)))
        return module.eval()

    def losses_of_core(self, module, case, package):
        with open(self.path("case.json"), "w", encoding="utf-8") as file:
            json.dump(case | {"prefix": self.prefix, "cache": self.path("cache")}, file)
        told = subprocess.run([sys.executable, __file__, SAMPLES, package, self.path("case.json")],
                              check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        samples = json.loads(told.splitlines()[-1])
        losses, trained = [], 0
        for step in range(STEPS):
            batch = samples[step * BATCH:(step + 1) * BATCH]
            tokens, labels, positions, mask = (torch.tensor([sample[key] for sample in batch])
                                               for key in ("tokens", "labels", "position_ids",
                                                           "loss_mask"))
            with torch.no_grad():
                loss = module(tokens, positions, None, labels=labels)
            losses.append(((loss * mask).sum() / mask.sum()).item())
            trained += int(mask.sum())
        return losses, trained

    def compare(self, tokenizer, package, config=None, flags=()):
        """Returns how many labels have a loss."""
        case, tokenizer_flags = tokenizer
        module = self.model()
        command = [PRETRAIN, *("--num-layers 2 --hidden-size 32 --ffn-hidden-size 64 "
                               "--num-attention-heads 4 --untie-embeddings-and-output-weights "
                               "--make-vocab-size-divisible-by 8 --hidden-dropout 0 "
                               "--attention-dropout 0 --lr 0 --lr-decay-style constant "
                               "--log-interval 1 --eval-iters 0 --split 1,0,0 --device cpu").split(),
                   "--seq-length", LENGTH, "--max-position-embeddings", LENGTH,
                   "--micro-batch-size", BATCH, "--train-iters", STEPS, "--data-path", self.prefix,
                   "--data-cache-path", self.path("cache"), "--load", self.path("load"), "--finetune",
                   *tokenizer_flags, *flags]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout[-1000:] + done.stderr)
        found = [float(loss) for loss in re.findall(r"lm loss: ([\d.E+-]+)", done.stdout)]
        wanted, trained = self.losses_of_core(module, case | {"config": config or {}}, package)
        self.assertEqual(len(found), STEPS)
        for ours, theirs in zip(found, wanted):
            self.assertLess(abs(ours / theirs - 1), 3e-6, (found, wanted))
        print(f"{self._testMethodName}: {trained} of {STEPS * BATCH * LENGTH} labels trained on")
        return trained

    def test_padding_tokens_of_hugging_face_have_no_loss(self):
        for package, flags in ((CORE_0_19, []), ("", ["--megatron-version", "core_v0.16.0"])):
            if os.path.isdir(package or "."):
                self.assertLess(self.compare(self.hugging_face(PAD), package, flags=flags), 150)

    def test_padding_tokens_that_end_documents_are_trained_on(self):
        for package, flags in ((CORE_0_19, []), ("", ["--megatron-version", "core_v0.16.0"])):
            if os.path.isdir(package or "."):
                self.assertEqual(self.compare(self.hugging_face(EOD), package, flags=flags),
                                 STEPS * BATCH * LENGTH)

    def test_they_are_masked_where_that_is_allowed(self):
        trained = self.compare(self.hugging_face(EOD), "", {"allow_ambiguous_pad_tokens": True},
                               ["--allow-ambiguous-pad-tokens", "--megatron-version", "core_v0.16.0"])
        self.assertLess(trained, STEPS * BATCH * LENGTH)

    def test_positions_and_ends_of_documents_are_looked_at_before(self):
        self.compare(self.hugging_face(EOD), "",
                     {"allow_ambiguous_pad_tokens": True, "reset_position_ids": True,
                      "eod_mask_loss": True},
                     ["--allow-ambiguous-pad-tokens", "--reset-position-ids", "--eod-mask-loss",
                      "--megatron-version", "core_v0.16.0"])

    def test_null_tokenizers_name_one(self):
        if not os.path.isdir(CORE_0_19):
            self.skipTest("megatron-core 0.19.2 was not found")
        self.assertLess(self.compare(self.null(PAD), CORE_0_19), 150)
        self.assertEqual(self.compare(self.null(EOD), CORE_0_19), STEPS * BATCH * LENGTH)
        self.assertEqual(self.compare(self.null(-1), CORE_0_19), STEPS * BATCH * LENGTH)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if sys.argv[1] == SAMPLES:
        print_samples(sys.argv[3])
        sys.exit()
    import megatron_core_trains as trains
    core = trains.core
    PRETRAIN = os.path.abspath(sys.argv.pop(1))
    core.start_without_gpu()
    unittest.main()
