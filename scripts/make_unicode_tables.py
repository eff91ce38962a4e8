#!/usr/bin/env python3
"""Writes the tables of character classes by which tokenizers split text, from the packages that define them.

Megatron-LM's GPT2BPETokenizer splits text with the PyPI package `regex`; Hugging Face's `tokenizers` and `tiktoken`
have their own engines, with a different Unicode version. So these packages, and not a Unicode version
chosen here, determine token ids. Every code point is queried.

usage: make_unicode_tables.py          writes the files
       make_unicode_tables.py --check  exits 1 if a file differs, 77 if a package is missing or is not the
                                       version that its file names
"""
import importlib.metadata
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "libmeg/tokenizer/internal"
CODE_POINTS = 0x110000
SURROGATES = range(0xD800, 0xE000)
BLOCK_SIZE = 128
SKIPPED = 77
EVERYTHING = "".join(chr(code_point) for code_point in range(CODE_POINTS) if code_point not in SURROGATES)


def matches_of_regex(pattern):
    import regex
    return [match.group() for match in regex.finditer(pattern, EVERYTHING)]


def matches_of_tokenizers(pattern):
    from tokenizers import Regex, pre_tokenizers
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    pieces = []
    for start in range(0, len(EVERYTHING), 4096):
        pieces += [piece for piece, _ in split.pre_tokenize_str(EVERYTHING[start:start + 4096])]
    return pieces


def characters_of_normalization(kind):
    """Those that a normalization form of `tokenizers` changes, moves or joins with others, and those that
    StripAccents takes out."""
    from tokenizers import normalizers
    strip = normalizers.StripAccents()
    accents = {character for character in EVERYTHING if not strip.normalize_str(character)}
    nfc, nfd, nfkd = normalizers.NFC(), normalizers.NFD(), normalizers.NFKD()
    found = set()
    for character in EVERYTHING:
        decomposed = nfd.normalize_str(character)
        among_marks = f"a\u0345{character}\u0334\u0345"  # of the highest class and the lowest
        moves = nfc.normalize_str(among_marks) != nfc.normalize_str("a\u0345") + character + "\u0334\u0345"
        if moves or nfkd.normalize_str(character) != character:
            found.add(character)
        if len(decomposed) > 1:
            found.update(decomposed)
    return {"form": found - accents, "form and accent": found & accents, "accent": accents - found}[kind]


def characters_of_pre_tokenizers(kind):
    """Those that a step of `tokenizers` treats in a way of its own; some are of several kinds."""
    from tokenizers import normalizers, pre_tokenizers
    if kind == "control":
        clean = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=False,
                                           lowercase=False)
        return [character for character in EVERYTHING if not clean.normalize_str(character)]
    if kind == "nonspacing mark":
        strip = normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True,
                                           lowercase=False)
        return [character for character in EVERYTHING if not strip.normalize_str(character)]
    if kind == "punctuation":
        pieces = pre_tokenizers.Punctuation("removed")
        return [character for character in EVERYTHING if not pieces.pre_tokenize_str(character)]
    words = pre_tokenizers.Whitespace()
    return [character for character in EVERYTHING if len(words.pre_tokenize_str("a" + character)) == 1
            and len(words.pre_tokenize_str("." + character)) == 2]


class Table:
    def __init__(self, stem, package, matches, classes):
        self.output = FOLDER / f"{stem}_tables.cpp"
        self.header = f"libmeg/tokenizer/internal/{stem}.h"
        self.namespace = f"meg::tokenizer::{stem}_tables"
        self.package = package
        self.matches = matches
        self.classes = classes

    def version(self):
        return importlib.metadata.version(self.package)

    def classes_of_all_code_points(self):
        found = bytearray(CODE_POINTS)
        for value, pattern in enumerate(self.classes, 1):
            for character in "".join(self.matches(pattern)):
                assert found[ord(character)] == 0, f"U+{ord(character):04X} has two classes"
                found[ord(character)] = value
        return bytes(found)


class BitTable(Table):
    """Classes that are not disjoint: a bit each."""

    def classes_of_all_code_points(self):
        found = bytearray(CODE_POINTS)
        for bit, kind in enumerate(self.classes):
            for character in self.matches(kind):
                found[ord(character)] |= 1 << bit
        return bytes(found)


# In the order of the enumerators behind kOther.
TABLES = [
    Table("unicode_class", "regex", matches_of_regex, [r"\p{L}", r"\p{N}", r"\s"]),
    Table("character_class", "tokenizers", matches_of_tokenizers,
          [r"\p{M}", r"\p{N}", r"\s", r"[\p{Lu}\p{Lt}]", r"\p{Ll}", r"[\p{Lm}\p{Lo}]"]),
    Table("normalization_class", "tokenizers", characters_of_normalization,
          ["form", "form and accent", "accent"]),
    BitTable("step_class", "tokenizers", characters_of_pre_tokenizers,
             ["control", "nonspacing mark", "punctuation", "word"]),
]


def two_stages(classes):
    blocks = {}
    stage1 = []
    for start in range(0, CODE_POINTS, BLOCK_SIZE):
        block = classes[start : start + BLOCK_SIZE]
        stage1.append(blocks.setdefault(block, len(blocks)))
    assert len(blocks) <= 256
    return stage1, list(blocks)


def rows(values, width):
    return ["    " + ", ".join(map(str, values[at : at + width])) + "," for at in
            range(0, len(values), width)]


def generated_text(table):
    stage1, blocks = two_stages(table.classes_of_all_code_points())
    lines = [
        "// Generated by scripts/make_unicode_tables.py: do not edit.",
        f"// Package: {table.package} {table.version()}",
        "// clang-format off",
        f'#include "{table.header}"',
        "",
        f"namespace {table.namespace} {{",
        "",
        "const uint8_t kStage1[kStage1Size] = {",
        *rows(stage1, 24),
        "};",
        "",
        "const uint8_t kStage2[][kBlockSize] = {",
    ]
    for number, block in enumerate(blocks):
        lines += [f"    {{  // {number}", *rows(block, 32), "    },"]
    lines += ["};", "", f"}}  // namespace {table.namespace}", ""]
    return "\n".join(lines)


def check(table):
    stored = table.output.read_text()
    named = re.search(r"// Package: \S+ (\S+)", stored).group(1)
    if named != table.version():
        print(f"skipped: {table.output.name} was made with {table.package} {named}, found {table.version()}")
        return SKIPPED
    if stored != generated_text(table):
        print(f"{table.output.name} differs from what {table.package} {named} says; run {Path(__file__).name}")
        return 1
    print(f"{table.output.name} agrees with {table.package} {named} for {CODE_POINTS} code points")
    return 0


def main():
    try:
        for table in TABLES:
            table.version()
    except importlib.metadata.PackageNotFoundError as error:
        print(f"skipped: the Python package {error.name} is not installed")
        return SKIPPED
    if sys.argv[1:] == ["--check"]:
        results = [check(table) for table in TABLES]
        return 1 if 1 in results else max(results)
    for table in TABLES:
        table.output.write_text(generated_text(table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
