#!/usr/bin/env python3
"""Writes the properties of characters by which tokenizers split text, from the packages that define them.

Megatron-LM's GPT2BPETokenizer splits text with the PyPI package `regex`, its BERT tokenization asks Python; Hugging
Face's `tokenizers` and `tiktoken` have their own engines, with a different Unicode version. So these packages, and not
a Unicode version chosen here, determine token ids. Every code point is queried.

A file has words after its first line: a value with a colon, then ranges of code points in hexadecimal that have it.

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
import textwrap
import unicodedata
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "libmeg/tokenizer/unicode"
CODE_POINTS = 0x110000
SURROGATES = range(0xD800, 0xE000)
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


@functools.cache
def normalized_and_accents():
    """The characters that a normalization form of `tokenizers` changes, moves or joins with others, and those that
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
    return found, accents


def characters_of_normalization(kind):
    found, accents = normalized_and_accents()
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
        return set(EVERYTHING) - set(in_one_piece_with_a(pre_tokenizers.Punctuation("removed")))
    if kind == "numeric":
        return set(EVERYTHING) - set(in_one_piece_with_a(pre_tokenizers.Digits()))
    return in_one_piece_with_a(pre_tokenizers.Whitespace())


def in_one_piece_with_a(step):
    """The characters that a pre-tokenizer leaves in one piece with a letter before them."""
    for start in range(0, len(EVERYTHING), 4096):
        some = EVERYTHING[start:start + 4096]
        inside = set()
        for _, (begin, end) in step.pre_tokenize_str("".join("a" + character for character in some)):
            inside.update(range(begin + 1, end))
        yield from (character for place, character in enumerate(some) if 2 * place + 1 in inside)


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


@functools.cache
def grapheme_rules():
    """A normalizer whose results show where `tokenizers` ends graphemes, and the characters that it finds to join with what
    stands before them and after them. Its Precompiled replaces the whole of a short grapheme that begins with a rule, and
    of a long one each character."""
    from tokenizers import normalizers
    rules = normalizers.Precompiled(charsmap({"A": "a", "\u0915": "x"}))
    joining = [c for c in EVERYTHING if rules.normalize_str("A" + c) == "a"]
    prepended = {c for c in EVERYTHING if rules.normalize_str(c + "A\u0301").endswith("\u0301")}
    return rules, joining, prepended


def characters_of_graphemes(kind):
    """Those that `tokenizers` puts into one grapheme with others."""
    rules, joining, prepended = grapheme_rules()
    mark, linker, consonant = "\u0301", "\u094d", "\u0915"

    def keeps_mark(before):
        return rules.normalize_str(before + consonant + mark).endswith(mark)

    candidates = {"consonant": set(EVERYTHING) - prepended, "linker": joining, "conjunct": joining}
    befores = {"consonant": "{}" + linker, "linker": consonant + "{}", "conjunct": consonant + linker + "{}"}
    if kind in befores:
        return [c for c in candidates[kind] if keeps_mark(befores[kind].format(c))]
    return joining if kind == "joins" else prepended


class Table:
    """A file of ranges: a value for each code point; 0, and None, are not written."""

    def __init__(self, stem, package, matches, classes, meaning=None):
        self.output = FOLDER / f"{stem}.ranges"
        self.package = package
        self.matches = matches
        self.classes = classes
        self.meaning = meaning or ", ".join(f"{value} {kind}" for value, kind in self.numbered())

    def numbered(self):
        return list(enumerate(self.classes, 1))

    def version(self):
        return importlib.metadata.version(self.package)

    def text(self):
        lines = [f"# {self.package} {self.version()}, by scripts/{Path(__file__).name}: {self.meaning}"]
        runs = self.runs()
        few = len(runs) < 256
        words = []
        for value, ranges in runs.items():
            words += [f"{value}:", *ranges]
            if few:
                lines += wrapped(words)
                words = []
        return "\n".join([*lines, *wrapped(words), ""])

    def runs(self):
        """Value -> its ranges, in the order of values where these are numbers."""
        runs = {}
        values = self.values()
        for value, run in itertools.groupby(range(CODE_POINTS), lambda code: values[code]):
            if value:
                first, *_, last = [*run] * 2
                runs.setdefault(value, []).append(f"{first:x}" if first == last else f"{first:x}-{last:x}")
        return runs if isinstance(next(iter(runs)), str) else dict(sorted(runs.items()))

    def values(self):
        found = [0] * CODE_POINTS
        for value, pattern in self.numbered():
            for character in "".join(self.matches(pattern)):
                assert found[ord(character)] == 0, f"U+{ord(character):04X} has two classes"
                found[ord(character)] = value
        return found


class BitTable(Table):
    """Classes that are not disjoint: a bit each."""

    def numbered(self):
        return [(1 << bit, kind) for bit, kind in enumerate(self.classes)]

    def values(self):
        found = [0] * CODE_POINTS
        for bit, kind in self.numbered():
            for character in self.matches(kind):
                found[ord(character)] |= bit
        return found


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

    def values(self):
        from tokenizers import pre_tokenizers
        found = [0] * CODE_POINTS
        of_any = set(self.of_one_script_with("a", EVERYTHING)) & set(self.of_one_script_with("\u03b1", EVERYTHING))
        rest = "".join(character for character in EVERYTHING if character not in of_any)
        pieces = [piece for start in range(0, len(rest), 4096)
                  for piece, _ in pre_tokenizers.UnicodeScripts().pre_tokenize_str(rest[start:start + 4096])]
        for number in itertools.count(1):
            if not pieces:
                return found
            of_script = set(self.of_one_script_with(pieces[0][0], [piece[0] for piece in pieces]))
            for piece in pieces:
                if piece[0] in of_script:
                    for character in piece:
                        found[ord(character)] = number
            pieces = [piece for piece in pieces if piece[0] not in of_script]


class LowerCaseTable(Table):
    """For each code point the difference to its lower case; 0 where that is several."""

    def values(self):
        from tokenizers import normalizers
        lower = normalizers.Lowercase()
        found = [0] * CODE_POINTS
        for character in EVERYTHING:
            changed = lower.normalize_str(character)
            if len(changed) == 1:
                found[ord(character)] = ord(changed) - ord(character)
        return found


class PropertyTable(Table):
    """The name of each code point's property, or its names joined by '=', as the patterns of `tokenizers` see it."""

    def values(self):
        from tokenizers import Regex, normalizers
        found = [None] * CODE_POINTS
        rest = EVERYTHING
        for name in sorted(self.classes(), key=lambda name: name not in ("Cn", "Co", "Lo", "unknown=zzzz", "han=hani",
                                                                         "hang=hangul")):
            others = normalizers.Replace(Regex(f"\\P{{{name.split('=')[0]}}}"), "")
            for start in range(0, len(rest), 4096):
                for character in others.normalize_str(rest[start:start + 4096]):
                    found[ord(character)] = name
            rest = "".join(character for character in rest if not found[ord(character)])
        assert not rest
        return found


class AlphabeticTable(Table):
    """Which code points are Alphabetic to the patterns of `tokenizers`, and which are not."""

    def values(self):
        found = set("".join(matches_of_tokenizers(r"\p{Alphabetic}")))
        # No pattern can name the others: underscores are left out of names before they are looked up.
        return [None if code in SURROGATES else "alpha=alphabetic" if chr(code) in found else "not_alphabetic"
                for code in range(CODE_POINTS)]


def general_categories():
    return "Cc Cf Cn Co Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs".split()


def pattern_scripts():
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
    return sorted("=".join(sorted(known)) for known in names.values())


class PythonTable(Table):
    """What BERT's tokenization asks Python for, whose version determines token ids."""

    def __init__(self, stem, value, meaning):
        super().__init__(stem, "Python's unicodedata", None, None, meaning)
        self.value = value

    def version(self):
        return unicodedata.unidata_version

    def values(self):
        return [0 if code in SURROGATES else self.value(code) for code in range(CODE_POINTS)]


BERT_REMOVED, BERT_SPACE, BERT_CHINESE, BERT_PUNCTUATION = range(1, 5)
BERT_CASED, BERT_CASE_IGNORABLE, BERT_ORDERED, BERT_STARTING_MARK = 8, 16, 32, 64
CHINESE_RANGES = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
                  (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]
CAPITAL_SIGMA = "\u03a3"
FINAL_SIGMA = "\u03c2"


def bert_kind(code):
    character = chr(code)
    category = unicodedata.category(character)
    if character in " \t\n\r" or category in ("Zs", "Zl", "Zp"):
        return BERT_SPACE
    if code in (0, 0xFFFD) or category in ("Cc", "Cf"):
        return BERT_REMOVED
    if any(first <= code <= last for first, last in CHINESE_RANGES):
        return BERT_CHINESE
    if category[0] == "P" or (33 <= code <= 126 and not character.isalnum()):
        return BERT_PUNCTUATION
    return 0


def bert_ordered(code):
    """A combining character that is not removed as an accent."""
    return unicodedata.combining(chr(code)) and unicodedata.category(chr(code)) != "Mn"


def bert_property(code):
    character = chr(code)
    bits = bert_kind(code)
    if (character + CAPITAL_SIGMA).lower().endswith(FINAL_SIGMA):
        bits |= BERT_CASED
    elif ("a" + character + CAPITAL_SIGMA).lower().endswith(FINAL_SIGMA):
        bits |= BERT_CASE_IGNORABLE
    if bert_ordered(code):
        bits |= BERT_ORDERED
    if unicodedata.category(character) == "Mn" and not unicodedata.combining(character):
        bits |= BERT_STARTING_MARK
    return bits


def bert_fold(code):
    """What lower case, decomposition and the removal of accents make of a character; None where it stays, and of Hangul,
    which is computed."""
    if 0xAC00 <= code < 0xD7A4:
        return None
    decomposed = unicodedata.normalize("NFD", chr(code).lower())
    sequence = [ord(c) for c in decomposed if unicodedata.category(c) != "Mn"]
    return None if sequence == [code] else "+".join(f"{c:x}" for c in sequence) or "-"


def bert_combining_class(code):
    return unicodedata.combining(chr(code)) if bert_ordered(code) else 0


# The order of classes is that of the enumerators after kOther.
TABLES = [
    Table("unicode_class", "regex", matches_of_regex, [r"\p{L}", r"\p{N}", r"\s"]),
    Table("normalization_class", "tokenizers", characters_of_normalization,
          ["form", "form and accent", "accent"]),
    BitTable("step_class", "tokenizers", characters_of_pre_tokenizers,
             ["control", "nonspacing mark", "punctuation", "word", "numeric"]),
    BitTable("grapheme_class", "tokenizers", characters_of_graphemes,
             ["joins", "prepended", "consonant", "linker", "conjunct"]),
    ScriptTable("script", "tokenizers", None, None, "scripts of UnicodeScripts"),
    LowerCaseTable("lower_case", "tokenizers", None, None, "difference to the lower case"),
    PropertyTable("general_category", "tokenizers", None, general_categories, "general categories of patterns"),
    PropertyTable("pattern_script", "tokenizers", None, pattern_scripts, "names of the scripts of patterns"),
    AlphabeticTable("alphabetic", "tokenizers", None, None, "Alphabetic of patterns"),
    PythonTable("bert_property", bert_property, "a kind (1 removed, 2 space, 3 Chinese, 4 punctuation) and bits (8 cased, "
                "16 case-ignorable, 32 ordered, 64 starting mark)"),
    PythonTable("bert_fold", bert_fold, "lower case without accents"),
    PythonTable("bert_combining_class", bert_combining_class, "of the ordered"),
]


def wrapped(words):
    return textwrap.wrap(" ".join(words), 118, break_on_hyphens=False, break_long_words=False)


def check(table):
    stored = table.output.read_text()
    named = re.match(rf"# {table.package} (\S+),", stored).group(1)
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
