#!/usr/bin/env python3
"""Writes libmeg/cleaning/words/internal/english_tables.cpp: what spaCy's English tokenizer and datatrove's filters say of
characters and of words, from the packages themselves (spaCy 3.8, datatrove 0.10, both MIT and Apache-2.0).

make_english_words.py [--check]
"""
import pathlib
import re
import sys
import unicodedata

try:
    import spacy
    from datatrove.utils import text as datatrove_text
    from spacy.lang import char_classes
    from spacy.pipeline import Sentencizer
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PATH = pathlib.Path(__file__).resolve().parent.parent / "libmeg/cleaning/words/internal/english_tables.cpp"
UNICODE = "14.0.0"
TOKENIZER = spacy.blank("en").tokenizer


def in_class(content):
    return re.compile(f"[{content}]").match


BEFORE_DOT = in_class(r"0-9{al}{e}{p}(?:{q})".format(al=char_classes.ALPHA_LOWER, e=r"%²\-\+",
                                                     q=char_classes.CONCAT_QUOTES, p=char_classes.PUNCT))
CURRENCIES = [one.replace("\\", "") for one in char_classes.LIST_CURRENCY]
# In the order of the bits of CharacterFlags.
FLAGS = [
    str.isspace,
    lambda c: c != "+" and TOKENIZER.find_prefix(c),
    TOKENIZER.find_suffix,
    TOKENIZER.find_infix,
    in_class(char_classes.ALPHA),
    in_class(char_classes.ALPHA_LOWER),
    in_class(char_classes.ALPHA_UPPER),
    BEFORE_DOT,
    in_class(char_classes.CONCAT_QUOTES),
    CURRENCIES.__contains__,
    {unit[-1] for unit in char_classes.LIST_UNITS}.__contains__,
    str.isalpha,
    lambda c: unicodedata.category(c)[0] == "P",
    set(datatrove_text.PUNCTUATION).__contains__,
    datatrove_text.TERMINAL_PUNCTUATION.__contains__,
    set(Sentencizer.default_punct_chars).__contains__,
    lambda c: unicodedata.category(c) == "Mn",
    lambda c: unicodedata.category(c) == "Nd",
    lambda c: c.isalnum() or c == "_",
]


def ranges():
    found = []
    for code in range(sys.maxunicode + 1):
        if 0xd800 <= code < 0xe000:
            continue
        bits = sum(1 << i for i, has in enumerate(FLAGS) if has(chr(code)))
        if found and found[-1][1] == code - 1 and found[-1][2] == bits:
            found[-1][1] = code
        elif bits:
            found.append([code, code, bits])
    return found


def quoted(text):
    """A literal of C++; what is not ASCII as octal escapes, which end after three digits."""
    return '"' + "".join(chr(b) if 0x20 <= b < 0x7f and chr(b) not in '"\\?' else f"\\{b:03o}"
                         for b in text.encode()) + '"'


def array(kind, name, rows):
    return f"constexpr {kind} {name}[] = {{\n" + "".join(f"    {row},\n" for row in rows) + "};\n"


def main():
    if unicodedata.unidata_version != UNICODE:
        print(f"skipped: expected a Python with Unicode {UNICODE}, found {unicodedata.unidata_version}")
        return 77
    rules = sorted((word, [token[spacy.symbols.ORTH] for token in tokens]) for word, tokens in TOKENIZER.rules.items()
                   if not word.isspace())
    text = f"""// Made by scripts/make_english_words.py from spaCy {spacy.__version__}, datatrove 0.10 and Unicode {UNICODE}.

#include "libmeg/cleaning/words/internal/english_tables.h"

// clang-format off
namespace meg::cleaning {{
namespace {{

{array("CharacterRange", "kRanges", (f"{{0x{a:x}, 0x{b:x}, 0x{bits:x}}}" for a, b, bits in ranges()))}
{array("SplitWord", "kWords", ("{" + quoted(word) + ", " + quoted(" ".join(tokens)) + "}" for word, tokens in rules))}
{array("std::string_view", "kUnits", map(quoted, char_classes.LIST_UNITS))}
}}  // namespace

std::span<const CharacterRange> character_ranges() {{ return kRanges; }}

std::span<const SplitWord> split_words() {{ return kWords; }}

std::span<const std::string_view> units() {{ return kUnits; }}

}}  // namespace meg::cleaning
"""
    if "--check" not in sys.argv:
        PATH.write_text(text)
        return 0
    if PATH.read_text() == text:
        return 0
    print(f"error: {PATH}: expected what scripts/make_english_words.py writes")
    return 1


if __name__ == "__main__":
    sys.exit(main())
