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
CORE_0_19 = os.path.join(os.environ.get("MEG_DEPS", os.path.expanduser("~/.cache/libmeg")),
                         "megatron-core-0.19.2")
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


def samples_of(case):
    indices = [numpy.load(glob.glob(f"{case['cache']}/*-GPTDataset-train-{name}_index.npy")[0])
               for name in ("document", "sample", "shuffle")]
    gpt_dataset.GPTDataset._build_document_sample_shuffle_indices = lambda self: indices
    config = gpt_dataset.GPTDatasetConfig(
        random_seed=1234, sequence_length=LENGTH, blend=([case["prefix"]], None), split="1,0,0",
        tokenizer=tokenizer_of(case), mid_level_dataset_surplus=0.005,
        **({"reset_position_ids": False, "reset_attention_mask": False, "eod_mask_loss": False}
           | case["config"]))
    data = IndexedDataset(case["prefix"])
    every = numpy.arange(len(data.sequence_lengths), dtype=numpy.int32)
    for number in range(STEPS * BATCH):
        dataset = gpt_dataset.GPTDataset(data, case["prefix"], every, STEPS * BATCH, Split.train,
                                         config)
        sample = dataset[number]
        yield {key: sample[key].tolist() for key in ("tokens", "labels", "loss_mask", "position_ids")}


def print_samples(path):
    """A process of its own, as it may be of another megatron-core."""
    with open(path, encoding="utf-8") as file:
        print(json.dumps([list(samples_of(case)) for case in json.load(file)]))


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
        args = trains.argparse.Namespace(**(trains.RUN | {
            "seq_length": LENGTH, "max_position_embeddings": LENGTH}))
        torch.manual_seed(5)
        self.module = core.make_model(args).eval()
        core.save(self.path("load"), self.module, args)

    def path(self, name):
        return os.path.join(self.folder, name)

    def hugging_face(self, pad):
        folder = self.path(f"tokenizer{pad}")
        words = {f"w{i}": i for i in range(ROWS)}
        made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
        transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token=f"w{EOD}",
                                             pad_token=f"w{pad}").save_pretrained(folder)
        return {"folder": folder}, ["--tokenizer-type", "HuggingFaceTokenizer",
                                    "--tokenizer-model", folder]

    def null(self, pad):
        return {"null": {"eod_id": EOD, "pad_id": pad}}, ["--tokenizer-type", "NullTokenizer", "--vocab-size", ROWS,
                                                          "--null-tokenizer-pad-id", pad]

    def losses_of_run(self, cache, flags):
        command = [PRETRAIN, *("--num-layers 2 --hidden-size 32 --ffn-hidden-size 64 "
                               "--num-attention-heads 4 --untie-embeddings-and-output-weights "
                               "--make-vocab-size-divisible-by 8 --hidden-dropout 0 "
                               "--attention-dropout 0 --lr 0 --lr-decay-style constant "
                               "--log-interval 1 --eval-iters 0 --split 1,0,0 --device cpu").split(),
                   "--seq-length", LENGTH, "--max-position-embeddings", LENGTH,
                   "--micro-batch-size", BATCH, "--train-iters", STEPS, "--data-path", self.prefix,
                   "--data-cache-path", cache, "--load", self.path("load"), "--finetune", *flags]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout[-1000:] + done.stderr)
        return [float(loss) for loss in re.findall(r"lm loss: ([\d.E+-]+)", done.stdout)]

    def losses_of_core(self, samples):
        """And how many labels have one."""
        losses, trained = [], 0
        for step in range(STEPS):
            batch = samples[step * BATCH:(step + 1) * BATCH]
            tokens, labels, positions, mask = (torch.tensor([sample[key] for sample in batch])
                                               for key in ("tokens", "labels", "position_ids",
                                                           "loss_mask"))
            with torch.no_grad():
                loss = self.module(tokens, positions, None, labels=labels)
            losses.append(((loss * mask).sum() / mask.sum()).item())
            trained += int(mask.sum())
        return losses, trained

    def compare(self, package, cases):
        """cases: tokenizer, config of the GPTDataset, flags, and whether labels are masked."""
        runs = []
        for i, ((case, tokenizer_flags), config, flags, _) in enumerate(cases):
            cache = self.path(f"cache{i}")
            runs.append(case | {"config": config, "prefix": self.prefix, "cache": cache,
                                "found": self.losses_of_run(cache, tokenizer_flags + flags)})
        with open(self.path("cases.json"), "w", encoding="utf-8") as file:
            json.dump(runs, file)
        told = subprocess.run([sys.executable, __file__, SAMPLES, package, self.path("cases.json")],
                              check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        for run, case, samples in zip(runs, cases, json.loads(told.splitlines()[-1])):
            with self.subTest(case=case[1:]):
                wanted, trained = self.losses_of_core(samples)
                print(f"{package or 'installed'}: {trained} of {STEPS * BATCH * LENGTH} labels trained on")
                self.assertEqual(trained < STEPS * BATCH * LENGTH, case[3])
                self.assertEqual(len(run["found"]), STEPS)
                for ours, theirs in zip(run["found"], wanted):
                    self.assertLess(abs(ours / theirs - 1), 3e-6, (run["found"], wanted))

    def test_padding_tokens_of_core_0_16(self):
        old = ["--megatron-version", "core_v0.16.0"]
        allowed = ["--allow-ambiguous-pad-tokens", *old]
        self.compare("", [
            (self.hugging_face(PAD), {}, old, True),
            (self.hugging_face(EOD), {}, old, False),
            (self.hugging_face(EOD), {"allow_ambiguous_pad_tokens": True}, allowed, True),
            # Ends of documents are looked for before they become token 0.
            (self.hugging_face(EOD), {"allow_ambiguous_pad_tokens": True, "reset_position_ids": True,
                                      "eod_mask_loss": True},
             [*allowed, "--reset-position-ids", "--eod-mask-loss"], True)])

    def test_padding_tokens_of_core_0_19(self):
        if not os.path.isdir(CORE_0_19):
            self.skipTest("megatron-core 0.19.2 was not found")
        self.compare(CORE_0_19, [(self.hugging_face(PAD), {}, [], True),
                                 (self.hugging_face(EOD), {}, [], False),
                                 (self.null(PAD), {}, [], True), (self.null(EOD), {}, [], False),
                                 (self.null(-1), {}, [], False)])


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
