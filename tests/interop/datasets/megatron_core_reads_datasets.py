#!/usr/bin/env python3
"""The real megatron-core reads what preprocess_data writes, and the ids are those of `tokenizers`.

megatron_core_reads_datasets.py PROGRAM TOKENIZER_FOLDER (with vocab.json and merges.txt)
Exits with 77 (skipped) where a package is missing.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    from megatron.core.datasets.indexed_dataset import IndexedDataset
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
except ImportError as error:
    print(f"skipped: {error} (scripts/setup.sh installs it)")
    sys.exit(77)

WORDS = ["the", "Megatron's", "we'll", "I'D", "naïve", "Über", "Москва", "東京タワー", "한국어", "हिन्दी",
         "العربية", "עברית", "١٢٣", "2024", "3.14159", "x_y[i]+=1;", "🙂👩‍👩‍👧", "e\u0301", "<|endoftext|>",
         "...", "—", "\u00a0", "\u3000", "\t", "\n\n", "  ", "\u200b", "ǅ", "𝔘𝔫𝔦", "a" * 40]


def texts():
    chooser = random.Random(5)
    made = ["", " ", "plain"]
    for _ in range(400):
        words = chooser.choices(WORDS, k=chooser.randrange(1, 60))
        made.append(chooser.choice([" ", "", "\n"]).join(words))
    return made


def peer(folder):
    tokenizer = Tokenizer(models.BPE.from_file(os.path.join(folder, "vocab.json"),
                                               os.path.join(folder, "merges.txt")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def main():
    program, folder = sys.argv[1:3]
    documents = texts()
    tokenizer = peer(folder)
    end = tokenizer.token_to_id("<|endoftext|>")
    with tempfile.TemporaryDirectory(prefix="meg-test-") as temp:
        source, prefix = os.path.join(temp, "in.jsonl"), os.path.join(temp, "out")
        with open(source, "w", encoding="utf-8") as file:
            for i, text in enumerate(documents):
                file.write(json.dumps({"text": text}, ensure_ascii=i % 2 == 0) + "\n")
        subprocess.run([program, "--input", source, "--output-prefix", prefix, "--append-eod",
                        "--tokenizer-type", "GPT2BPETokenizer", "--workers", "3",
                        "--vocab-file", os.path.join(folder, "vocab.json"),
                        "--merge-file", os.path.join(folder, "merges.txt")],
                       check=True, stdout=subprocess.DEVNULL)
        dataset = IndexedDataset(prefix + "_text_document")
        assert len(dataset.document_indices) == len(documents) + 1
        tokens = 0
        for i, text in enumerate(documents):
            first, last = dataset.document_indices[i], dataset.document_indices[i + 1]
            found = [int(id) for sequence in range(first, last) for id in dataset[sequence]]
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            expected = ids + [end] if ids else []
            assert found == expected, f"document {i}: {text!r}: {expected} != {found}"
            tokens += len(found)
    print(f"{len(documents)} documents, {tokens} tokens: megatron-core and tokenizers agree")


if __name__ == "__main__":
    main()
