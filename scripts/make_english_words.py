#!/usr/bin/env python3
"""Writes libmeg/cleaning/words/english.txt: what spaCy's English tokenizer and datatrove's filters say of
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

PATH = pathlib.Path(__file__).resolve().parent.parent / "libmeg/cleaning/words/english.txt"
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
    """The ranges of each combination of flags."""
    found = []
    for code in range(sys.maxunicode + 1):
        if 0xd800 <= code < 0xe000:
            continue
        bits = sum(1 << i for i, has in enumerate(FLAGS) if has(chr(code)))
        if found and found[-1][1] == code - 1 and found[-1][2] == bits:
            found[-1][1] = code
        elif bits:
            found.append([code, code, bits])
    by_bits = {}
    for first, last, bits in found:
        by_bits.setdefault(bits, []).append(f"{first:x}" if first == last else f"{first:x}-{last:x}")
    return sorted(by_bits.items())


def lines(kind, items):
    """Lines of up to 120 columns, which begin with `kind`; a tab is before each item."""
    found = []
    for item in items:
        if not found or len(found[-1].expandtabs(1)) + 1 + len(item) > 120:
            found.append(kind)
        found[-1] += "\t" + item
    return "".join(line + "\n" for line in found)


def main():
    if unicodedata.unidata_version != UNICODE:
        print(f"skipped: expected a Python with Unicode {UNICODE}, found {unicodedata.unidata_version}")
        return 77
    words = sorted([token[spacy.symbols.ORTH] for token in tokens] for word, tokens in TOKENIZER.rules.items()
                   if not word.isspace())
    text = f"""# spaCy {spacy.__version__}, datatrove 0.10 and Unicode {UNICODE}, by scripts/make_english_words.py.
# CharacterFlags in base 16, then characters that have them; words, with spaces where they are split; units.
"""
    text += "".join(lines(f"{bits:x}", characters) for bits, characters in ranges())
    text += lines("words", map(" ".join, words)) + lines("units", char_classes.LIST_UNITS)
    if "--check" not in sys.argv:
        PATH.write_text(text)
        return 0
    if PATH.read_text() == text:
        return 0
    print(f"error: {PATH}: expected what scripts/make_english_words.py writes")
    return 1


if __name__ == "__main__":
    sys.exit(main())
