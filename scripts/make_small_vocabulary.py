#!/usr/bin/env python3
"""Trains the small GPT-2 style vocabulary of testdata/tokenizer.

usage: make_small_vocabulary.py CORPUS.jsonl.xz   (the shared folder's data/corpus/english.jsonl.xz)

Takes every tenth document of public-domain English without its verse numbers until TEXT_BYTES are
together, splits it with GPT-2's pattern (PyPI package `regex`) and merges the most frequent pair MERGES
times; among equally frequent pairs, the one that sorts first. Ids: the 256 bytes in GPT-2's order, the
merges in theirs, <|endoftext|> last.
"""
import collections
import json
import lzma
import re
import sys
from pathlib import Path

import regex

FOLDER = Path(__file__).parents[1] / "testdata/tokenizer"
TEXT_BYTES = 600_000
MERGES = 2000
END_OF_TEXT = "<|endoftext|>"
WORD = regex.compile(
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
)


def byte_characters():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    characters = {byte: chr(byte) for byte in printable}
    characters.update({byte: chr(256 + n) for n, byte in enumerate(others)})
    return characters


def training_text(path):
    parts, size = [], 0
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            text = re.sub(r"\[\d+:\d+\] *\n?", "", json.loads(line)["text"])
            if number % 10 or len(text) < 200:
                continue
            parts.append(text)
            size += len(text.encode())
            if size >= TEXT_BYTES:
                break
    return "\n\n".join(parts)


def joined(word, pair):
    result, at = [], 0
    while at < len(word):
        if tuple(word[at : at + 2]) == pair:
            result.append(word[at] + word[at + 1])
            at += 2
        else:
            result.append(word[at])
            at += 1
    return result


def train(counts, characters):
    words = [[characters[byte] for byte in word.encode()] for word in counts]
    weights = list(counts.values())
    pairs, places = collections.Counter(), collections.defaultdict(set)

    def count(index, sign):
        for pair in zip(words[index], words[index][1:]):
            pairs[pair] += sign * weights[index]
            places[pair].add(index)

    for index in range(len(words)):
        count(index, 1)
    merges = []
    for _ in range(MERGES):
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        for index in places.pop(best):
            count(index, -1)
            words[index] = joined(words[index], best)
            count(index, 1)
        del pairs[best]
    return merges


def main():
    characters = byte_characters()
    counts = collections.Counter(WORD.findall(training_text(sys.argv[1])))
    merges = train(counts, characters)
    vocabulary = {character: number for number, character in enumerate(characters.values())}
    for left, right in merges:
        vocabulary.setdefault(left + right, len(vocabulary))
    vocabulary[END_OF_TEXT] = len(vocabulary)
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges), ""]
    (FOLDER / "merges.txt").write_text("\n".join(lines), encoding="utf-8")
    rows = ",\n".join(f"{json.dumps(key, ensure_ascii=False)}: {value}" for key, value in vocabulary.items())
    (FOLDER / "vocab.json").write_text("{\n" + rows + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
