"""What the tests of pack_dataset share: conversations, running it, its outputs, transformers as the judge."""
import json
import os
import random
import subprocess
import tempfile
import unittest

import numpy
from megatron.core.datasets.indexed_dataset import IndexedDataset
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import render_jinja_template

from pack_dataset.chat_templates import SPECIAL

BIN = TOKENIZER = ""

WORDS = "the cat sat on a größe naïve 東京 data model 3.14 why? don't I'm it's \"so\" x=y; --flag  two\n\nlines \ttab 🤔 e".split(" ")


def text(rng):
    # Ends in a character of one token: of others, transformers' mask ends after the first one.
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 30))) + rng.choice([".", "!", "?", "\n"])


def conversation(rng):
    messages = [{"role": "system", "content": text(rng)}] if rng.random() < 0.5 else []
    for _ in range(rng.randint(1, 4)):
        messages += [{"role": "user", "content": text(rng)}, {"role": "assistant", "content": "ok " + text(rng)}]
    return messages


def make_tokenizer(folder):
    with open(f"{TOKENIZER}/vocab.json") as file:
        vocab = json.load(file)
    with open(f"{TOKENIZER}/merges.txt") as file:
        merges = [tuple(line.split()) for line in file.read().split("\n")[1:] if line]
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    fast.save_pretrained(folder)
    return fast


class PackCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.tokenizer = make_tokenizer(cls.path("tokenizer"))
        rng = random.Random(44)
        cls.conversations = [conversation(rng) for _ in range(40)]
        cls.write("chats.jsonl", [{"messages": messages} for messages in cls.conversations])

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def write(cls, name, lines):
        with open(cls.path(name), "w") as file:
            for line in lines:
                file.write((line if isinstance(line, str) else json.dumps(line)) + "\n")

    def run_pack(self, input, *flags, length=100000, out="out"):
        return subprocess.run(
            [f"{BIN}/pack_dataset", "--input", self.path(input), "--output-prefix", self.path(out), "--tokenizer-type",
             "HuggingFaceTokenizer", "--tokenizer-model", self.path("tokenizer"), "--seq-length", str(length), "--json", *flags],
            capture_output=True, text=True)

    def pack(self, input, *flags, length=100000, out="out"):
        done = self.run_pack(input, *flags, length=length, out=out)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def read(self, out="out"):
        """Packed sequences, each a list of conversations (ids, mask), as megatron-core reads them."""
        tokens, masks = IndexedDataset(self.path(out)), IndexedDataset(self.path(out) + "_loss_mask")
        self.assertTrue(numpy.array_equal(tokens.document_indices, masks.document_indices))
        return [[(tokens[i].tolist(), masks[i].tolist()) for i in range(begin, end)]
                for begin, end in zip(tokens.document_indices, tokens.document_indices[1:])]

    def in_order(self, input, *flags, **options):
        self.pack(input, "--packing-algorithm", "next_fit", *flags, **options)
        return [one for packed in self.read() for one in packed]

    def judged(self, messages, template):
        made = self.tokenizer.apply_chat_template(messages, chat_template=template, tokenize=True, return_dict=True,
                                                  return_assistant_tokens_mask=True)
        return made["input_ids"], made["assistant_masks"]

    def judged_by_beginnings(self, messages, template, only_last=False):
        def render(some, prompt):
            return render_jinja_template([some], chat_template=template, add_generation_prompt=prompt,
                                         bos_token="<s>", eos_token="</s>")[0][0]

        whole = render(messages, False)
        made = self.tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
        mask = [0] * len(made["input_ids"])
        answers = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
        for i in answers[-1:] if only_last else answers:
            before, after = render(messages[:i], True), render(messages[:i + 1], False)
            self.assertTrue(after.startswith(before) and whole.startswith(after))
            for token, (begin, end) in enumerate(made["offset_mapping"]):
                mask[token] |= begin < len(after) and end > len(before)
        return made["input_ids"], mask
