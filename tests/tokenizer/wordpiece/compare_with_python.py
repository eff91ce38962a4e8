#!/usr/bin/env python3
"""Random texts: libmeg's WordPiece ids against a plain BERT tokenization over Python's unicodedata.

usage: compare_with_python.py TOKENIZE_TEXTS
Exit status 77 (skipped) where this Python has another version of Unicode than libmeg's tables.
"""
import random
import sys
import tempfile
import unicodedata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from texts_to_tokenize import WORDS, decode, encode, random_character, random_text

TABLES = Path(__file__).parents[3] / "libmeg/tokenizer/unicode/bert_property.ranges"
TEXTS = 2500
SKIPPED = 77
CHINESE = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
           (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]
GAPS = [(" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"),
        (" 'm", "'m"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re")]


class PlainWordPiece:
    """Written from the description of the algorithm, for comparison only."""

    def __init__(self, tokens, lower_case):
        self.tokens = list(tokens) + ["[BOS]", "[EOS]"]
        self.ids = {token: number for number, token in enumerate(self.tokens)}
        self.lower_case = lower_case

    def encode(self, text):
        return [number for word in self.words(text) for number in self.pieces(word)]

    def words(self, text):
        cleaned = "".join(map(self.cleaned, text))
        for token in cleaned.split():
            if self.lower_case:
                decomposed = unicodedata.normalize("NFD", token.lower())
                token = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
            spaced = "".join(f" {c} " if self.is_punctuation(c) else c for c in token)
            yield from spaced.split()

    @staticmethod
    def cleaned(character):
        if character in " \t\n\r" or unicodedata.category(character) == "Zs":
            return " "
        if character in "\0\ufffd" or unicodedata.category(character) in ("Cc", "Cf"):
            return ""
        if any(first <= ord(character) <= last for first, last in CHINESE):
            return f" {character} "
        return character

    @staticmethod
    def is_punctuation(character):
        if unicodedata.category(character).startswith("P"):
            return True
        return 33 <= ord(character) <= 126 and not character.isalnum()

    def pieces(self, word):
        if len(word) > 200:
            return [self.ids["[UNK]"]]
        found = []
        at = 0
        while at < len(word):
            mark = "##" if at > 0 else ""
            ends = (end for end in range(len(word), at, -1) if mark + word[at:end] in self.ids)
            end = next(ends, None)
            if end is None:
                return [self.ids["[UNK]"]]
            found.append(self.ids[mark + word[at:end]])
            at = end
        return found

    def decode(self, ids):
        text = " ".join(self.tokens[number] for number in ids).replace(" ##", "").strip()
        for gap, closed in GAPS:
            text = text.replace(gap, closed)
        return text


def vocabulary(chooser):
    """Tokens: the special ones, and parts of words and single characters of any kind."""
    tokens = dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    pieces = list(map(chr, range(33, 127))) + [random_character(chooser) for _ in range(4000)]
    for word in WORDS:
        for form in [word, word.lower(), unicodedata.normalize("NFD", word.lower())]:
            pieces += [form[:end] for end in range(1, len(form) + 1)]
            pieces += [form[at:at + 2] for at in range(len(form))]
    pieces += [unicodedata.normalize("NFD", piece.lower()) for piece in pieces]
    for piece in pieces:
        if piece.strip() == piece and piece and "\n" not in piece and len(piece.split()) == 1:
            if not any(c in "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029" for c in piece):
                tokens[piece] = tokens["##" + piece] = None
    return list(tokens)


def texts_of(chooser):
    marks = "\u0301\u0323\u0345\U0001d165\U0001d16d\U0001d16e\u302e\U00016ff0\u0cc6\u093e'.’:\u00ad"
    yield from ["", " ", "ΟΔΟΣ", "Σ", "ΑΣ.", "Σ'Α", "A\u00adΣ\u00ad", "中Σ国", "ΑΣ\u2028Α", "x" * 201]
    yield from ["é" * 200, "가각힣", "≠a≮b", "İstanbul", "ŉﬁ", "１２"]
    yield "".join(map(chr, [*range(0xD800), *range(0xE000, 0x30000)]))
    for code in [*range(0xD800), *range(0xE000, 0x20000, 3)]:
        if unicodedata.decomposition(chr(code)) or chr(code).lower() != chr(code):
            yield f"a{chr(code)}b"
    for _ in range(TEXTS):
        yield random_text(chooser)
    for _ in range(TEXTS):
        yield "".join(chooser.choices("aBΣΣσ İ" + marks, k=chooser.randrange(1, 12)))


def main():
    if f"unicodedata {unicodedata.unidata_version}," not in TABLES.read_text():
        print(f"skipped: Unicode {unicodedata.unidata_version} is not that of libmeg's tables")
        return SKIPPED
    program = sys.argv[1]
    chooser = random.Random(20240229)
    tokens = vocabulary(chooser)
    texts = list(texts_of(chooser))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocab.txt"
        path.write_text("".join(token + "\n" for token in tokens), encoding="utf-8")
        for kind in ["bert_lower", "bert_cased"]:
            plain = PlainWordPiece(tokens, kind == "bert_lower")
            expected = list(map(plain.encode, texts))
            for text, right, found in zip(texts, expected, encode(program, kind, path, texts)):
                if found != right:
                    print(f"{kind}: {text!a}\nexpected {right}\nfound    {found}")
                    return 1
            for ids, found in zip(expected, decode(program, kind, path, expected)):
                if found != plain.decode(ids):
                    print(f"{kind}: {ids}\nexpected {plain.decode(ids)!a}\nfound    {found!a}")
                    return 1
            print(f"{kind}: {len(texts)} texts, {sum(map(len, expected))} tokens: equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
