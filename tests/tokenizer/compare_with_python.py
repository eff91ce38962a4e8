#!/usr/bin/env python3
"""Random texts: libmeg's ids against a plain byte-level BPE over the PyPI package `regex`.

usage: compare_with_python.py ENCODE_TEXTS VOCAB MERGES
Exit status 77 (skipped) where `regex` is absent or not the version libmeg's tables come from.
"""
import functools
import json
import random
import struct
import subprocess
import sys
from pathlib import Path

TABLES = Path(__file__).parents[2] / "libmeg/tokenizer/unicode/unicode_class.ranges"
TEXTS = 4000
SKIPPED = 77
NO_IDS = 2**32 - 1
ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyz ",
    "theandsoit'sm'lldreve ",
    " \t\n\r\u00a0\u2003\u3000\u0085\u001cx",
    "0123456789½Ⅷ٣ .,",
    "éàßøçñ ÀÉ",
    "!?'\"-—…«»()<|endoftext|> ",
]


def random_character(chooser):
    while True:
        code = chooser.randrange(chooser.choice([0x80, 0x800, 0x10000, 0x20000, 0x110000]))
        if not 0xD800 <= code < 0xE000:
            return chr(code)


def random_text(chooser):
    parts = []
    for _ in range(chooser.randrange(12)):
        length = chooser.choice([1, 2, 3, 5, 8, 40])
        if chooser.random() < 0.3:
            parts.append("".join(random_character(chooser) for _ in range(length)))
        elif chooser.random() < 0.2:
            parts.append(random_character(chooser) * length)
        else:
            parts.append("".join(chooser.choices(chooser.choice(ALPHABETS), k=length)))
    return "".join(parts)


def byte_characters():
    """Byte -> the character that stands for it in a vocabulary of bytes."""
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = (byte for byte in range(256) if byte not in keep)
    return {byte: chr(byte) for byte in keep} | {byte: chr(256 + place) for place, byte in enumerate(moved)}


class PlainBpe:
    """Written from the description of the algorithm, for comparison only."""

    def __init__(self, regex, vocab, merges):
        self.ids = json.loads(Path(vocab).read_text(encoding="utf-8"))
        lines = Path(merges).read_text(encoding="utf-8").split("\n")[1:-1]
        self.ranks = {tuple(line.split()): rank for rank, line in enumerate(lines)}
        self.characters = byte_characters()
        self.pattern = regex.compile(
            r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
        )
        self.ids_of_word = functools.lru_cache(maxsize=100_000)(self.merge)

    def merge(self, word):
        pieces = [self.characters[byte] for byte in word.encode()]
        while len(pieces) > 1:
            pairs = list(zip(pieces, pieces[1:]))
            best = min(pairs, key=lambda pair: self.ranks.get(pair, len(self.ranks)))
            if best not in self.ranks:
                break
            merged = []
            while pieces:
                take = 2 if tuple(pieces[:2]) == best else 1
                merged.append("".join(pieces[:take]))
                pieces = pieces[take:]
            pieces = merged
        return [self.ids[piece] for piece in pieces]

    def encode(self, text):
        return [number for word in self.pattern.findall(text) for number in self.ids_of_word(word)]


def encode_with_libmeg(program, tokenizer, texts):
    """The ids of each text; None for one that has none."""
    stdin = b"".join(struct.pack("<I", len(t.encode())) + t.encode() for t in texts)
    output = subprocess.run([program, *tokenizer], input=stdin, check=True,
                            stdout=subprocess.PIPE).stdout
    at = 0
    for _ in texts:
        (count,) = struct.unpack_from("<I", output, at)
        if count == NO_IDS:
            yield None
            at += 4
            continue
        yield list(struct.unpack_from(f"<{count}i", output, at + 4))
        at += 4 + 4 * count


def main():
    try:
        import regex
    except ImportError:
        print("skipped: the Python package regex is not installed")
        return SKIPPED
    if f"regex {regex.__version__}," not in TABLES.read_text():
        print(f"skipped: regex {regex.__version__} is not the version of libmeg's tables")
        return SKIPPED
    program, vocab, merges = sys.argv[1:]
    plain = PlainBpe(regex, vocab, merges)
    chooser = random.Random(20240229)
    texts = [random_text(chooser) for _ in range(TEXTS)]
    tokens = 0
    for text, ids in zip(texts, encode_with_libmeg(program, ["gpt2", vocab, merges], texts)):
        expected = plain.encode(text)
        if ids != expected:
            print(f"{ascii(text)}\nexpected {expected}\nfound    {ids}")
            return 1
        tokens += len(ids)
    print(f"{TEXTS} texts, {tokens} tokens: equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
