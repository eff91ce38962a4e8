#!/usr/bin/env python3
"""Writes the tables of character classes by which tokenizers split text, from the packages that define them.

Megatron-LM's GPT2BPETokenizer splits text with the PyPI package `regex`; Hugging Face's `tokenizers` and `tiktoken`
have their own engines, with a different Unicode version. So these packages, and not a Unicode version
chosen here, determine token ids. Every code point is queried.

usage: make_unicode_tables.py          writes the files
       make_unicode_tables.py --check  exits 1 if a file differs, 77 if a package is missing or is not the
                                       version that its file names
"""
import functools
import importlib.metadata
import itertools
import re
import struct
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
    if kind == "numeric":
        digits = pre_tokenizers.Digits()
        return [character for character in EVERYTHING if len(digits.pre_tokenize_str("a" + character)) == 2]
    words = pre_tokenizers.Whitespace()
    return [character for character in EVERYTHING if len(words.pre_tokenize_str("a" + character)) == 1
            and len(words.pre_tokenize_str("." + character)) == 2]


def charsmap(rules):
    """The field precompiled_charsmap of a SentencePiece model with these rules: a double array, of which each node has
    256 units for its children here, and the replacements."""
    units = [0] * 256
    replacements = b""

    def add_node(at, children):
        begin = len(units)
        units.extend([0] * 256)
        units[at] |= (begin ^ at) << 10
        return {label: begin ^ label for label in children}

    tree = {}
    for key, replacement in rules.items():
        node = tree
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[0] = len(replacements)
        replacements += replacement.encode() + b"\0"
    open_nodes = [(0, tree)]
    while open_nodes:
        at, node = open_nodes.pop()
        for label, place in add_node(at, node).items():
            if label == 0:
                units[at] |= 1 << 8
                units[place] = 1 << 31 | node[0]
            else:
                units[place] |= label
                open_nodes.append((place, node[label]))
    return struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + replacements


def characters_of_graphemes(kind):
    """Those that `tokenizers` puts into one grapheme with others. Its Precompiled replaces the whole of a short grapheme
    that begins with a rule, and of a long one each character, which shows where graphemes end."""
    from tokenizers import normalizers
    rules = normalizers.Precompiled(charsmap({"A": "a", "\u0915": "x"}))
    mark, linker, consonant = "\u0301", "\u094d", "\u0915"

    def keeps_mark(before):
        return rules.normalize_str(before + consonant + mark).endswith(mark)

    joining = [c for c in EVERYTHING if rules.normalize_str("A" + c) == "a"]
    prepended = {c for c in EVERYTHING if rules.normalize_str(c + "A" + mark).endswith(mark)}
    candidates = {"consonant": set(EVERYTHING) - prepended, "linker": joining, "conjunct": joining}
    befores = {"consonant": "{}" + linker, "linker": consonant + "{}", "conjunct": consonant + linker + "{}"}
    if kind in befores:
        return [c for c in candidates[kind] if keeps_mark(befores[kind].format(c))]
    return joining if kind == "joins" else prepended


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

    def head(self):
        return ["// Generated by scripts/make_unicode_tables.py: do not edit.",
                f"// Package: {self.package} {self.version()}",
                "// clang-format off",
                f'#include "{self.header}"',
                "",
                f"namespace {self.namespace} {{"]

    def tail(self):
        return [f"}}  // namespace {self.namespace}", ""]

    def more_lines(self):
        return []

    def text(self):
        stage1, blocks = two_stages(self.classes_of_all_code_points())
        lines = [*self.head(), "", "const uint8_t kStage1[kStage1Size] = {", *rows(stage1, 24), "};", "",
                 "const uint8_t kStage2[][kBlockSize] = {"]
        for number, block in enumerate(blocks):
            lines += [f"    {{  // {number}", *rows(block, 32), "    },"]
        return "\n".join([*lines, "};", *self.more_lines(), "", *self.tail()])

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


class ScriptTable(Table):
    """Numbers of the scripts at whose borders UnicodeScripts splits, some of which are one to it; 0 for characters that
    belong to any script."""

    @staticmethod
    def of_one_script_with(known, characters):
        """Of the characters those that it does not split from a known one, nor that from them."""
        from tokenizers import pre_tokenizers
        scripts = pre_tokenizers.UnicodeScripts()
        for start in range(0, len(characters), 4096):
            some = characters[start:start + 4096]
            pieces = scripts.pre_tokenize_str(known + "".join(character + known for character in some))
            borders = {begin for _, (begin, _) in pieces}
            yield from (character for place, character in enumerate(some)
                        if borders.isdisjoint((2 * place + 1, 2 * place + 2)))

    def classes_of_all_code_points(self):
        found = bytearray(CODE_POINTS)
        of_any = set(self.of_one_script_with("a", EVERYTHING)) & set(self.of_one_script_with("\u03b1", EVERYTHING))
        rest = [character for character in EVERYTHING if character not in of_any]
        for number in itertools.count(1):
            if not rest:
                return bytes(found)
            of_script = set(self.of_one_script_with(rest[0], rest))
            for character in of_script:
                found[ord(character)] = number
            rest = [character for character in rest if character not in of_script]


class LowerCaseTable(Table):
    """For each code point the place of the difference to its lower case in a list; 0 where that is several."""

    @staticmethod
    @functools.cache
    def differences():
        from tokenizers import normalizers
        lower = normalizers.Lowercase()
        pairs = ((character, lower.normalize_str(character)) for character in EVERYTHING)
        return {ord(character): ord(changed) - ord(character) for character, changed in pairs
                if len(changed) == 1 and changed != character}

    def list_of_differences(self):
        return [0, *sorted(set(self.differences().values()))]

    def classes_of_all_code_points(self):
        places = {difference: place for place, difference in enumerate(self.list_of_differences())}
        found = bytearray(CODE_POINTS)
        for code_point, difference in self.differences().items():
            found[code_point] = places[difference]
        return bytes(found)

    def more_lines(self):
        return ["", "const int32_t kDifferences[] = {", *rows(self.list_of_differences(), 12), "};"]


class PropertyTable(Table):
    """Ranges of code points of a general category, and of a script, as the patterns of `tokenizers` see them."""

    CATEGORIES = "Cc Cf Cn Co Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs".split()

    @staticmethod
    def scripts():
        """The names of each script, without those that `tokenizers` does not know."""
        from regex import _regex_core
        from tokenizers import Regex
        names = {}
        for name, number in _regex_core.PROPERTIES["SCRIPT"][1].items():
            try:
                Regex(f"\\p{{{name}}}")
            except Exception:  # noqa: BLE001: the package raises no other kind
                continue
            names.setdefault(number, []).append(name.lower())
        return sorted(map(sorted, names.values()))

    @staticmethod
    def ranges(names):
        """first, last and the place of the name, of all code points."""
        from tokenizers import Regex, normalizers
        found = {}
        rest = EVERYTHING
        for name in sorted(names, key=lambda name: name not in ("Cn", "Co", "Lo", "unknown", "han", "hang")):
            others = normalizers.Replace(Regex(f"\\P{{{name}}}"), "")
            for start in range(0, len(rest), 4096):
                found.update(dict.fromkeys(others.normalize_str(rest[start:start + 4096]), names.index(name)))
            rest = "".join(character for character in rest if character not in found)
        assert not rest
        for place, run in itertools.groupby(enumerate(EVERYTHING), lambda item: (found[item[1]], ord(item[1]) - item[0])):
            run = list(run)
            yield f"{{{ord(run[0][1]):#x}, {ord(run[-1][1]):#x}, {place[0]}}}"

    def lines(self):
        scripts = self.scripts()
        names = [(name, place) for place, known in enumerate(scripts) for name in known]
        for kind, of_kind in (("Categories", self.CATEGORIES), ("Scripts", [known[0] for known in scripts])):
            yield from ["", f"constexpr PropertyRange k{kind}[] = {{", *rows(self.ranges(of_kind), 4), "};"]
        yield from ["", "constexpr PropertyName kCategoryNames[] = {",
                    *rows((f'{{"{name}", {place}}}' for place, name in enumerate(self.CATEGORIES)), 6), "};",
                    "", "constexpr PropertyName kScriptNames[] = {",
                    *rows((f'{{"{name}", {place}}}' for name, place in sorted(names)), 4), "};", ""]
        for kind, name in (("Range", "Categories"), ("Range", "Scripts"), ("Name", "CategoryNames"),
                           ("Name", "ScriptNames")):
            function = re.sub("(?<!^)(?=[A-Z])", "_", name).lower()
            yield f"std::span<const Property{kind}> {function}() {{ return k{name}; }}"

    def text(self):
        return "\n".join([*self.head(), *self.lines(), "", *self.tail()])


# The order is that of the enumerators after kOther.
TABLES = [
    Table("unicode_class", "regex", matches_of_regex, [r"\p{L}", r"\p{N}", r"\s"]),
    Table("character_class", "tokenizers", matches_of_tokenizers,
          [r"\p{M}", r"\p{N}", r"\s", r"[^\p{L}\p{M}\p{N}\p{P}\p{S}\s]", r"[\p{Lu}\p{Lt}]", r"\p{Ll}", r"[\p{Lm}\p{Lo}]"]),
    Table("normalization_class", "tokenizers", characters_of_normalization,
          ["form", "form and accent", "accent"]),
    BitTable("step_class", "tokenizers", characters_of_pre_tokenizers,
             ["control", "nonspacing mark", "punctuation", "word", "numeric"]),
    BitTable("grapheme_class", "tokenizers", characters_of_graphemes,
             ["joins", "prepended", "consonant", "linker", "conjunct"]),
    ScriptTable("script", "tokenizers", None, None),
    LowerCaseTable("lower_case", "tokenizers", None, None),
    PropertyTable("pattern_property", "tokenizers", None, None),
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
    values = list(values)
    return ["    " + ", ".join(map(str, values[at : at + width])) + "," for at in
            range(0, len(values), width)]


def check(table):
    stored = table.output.read_text()
    named = re.search(r"// Package: \S+ (\S+)", stored).group(1)
    if named != table.version():
        print(f"skipped: {table.output.name} was made with {table.package} {named}, found {table.version()}")
        return SKIPPED
    if stored != table.text():
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
        table.output.write_text(table.text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
