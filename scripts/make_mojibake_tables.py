#!/usr/bin/env python3
"""Writes libmeg/cleaning/repair/mojibake.txt: what ftfy 6.3.1 (Apache-2.0) and Python's html know of characters
that come of wrong encodings and of HTML entities, from the packages themselves.

make_mojibake_tables.py [--check]
"""
import html
import pathlib
import re
import sys

try:
    from ftfy import badness, chardata
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PATH = pathlib.Path(__file__).resolve().parent.parent / "libmeg/cleaning/repair/mojibake.txt"



def codes(text):
    return " ".join(f"{ord(c):x}" for c in text)


def signs_of_mojibake():
    """The alternatives of ftfy's expression, as RE2 reads them."""
    pattern, found, in_class, in_comment = badness.BADNESS_RE.pattern, [""], False, False
    spaces = "".join(f"\\x{{{code:x}}}" for code in range(0x80, 0x3001) if chr(code).isspace())
    i = 0
    while i < len(pattern):
        c = pattern[i]
        if in_comment:
            in_comment = c != "\n"
        elif c == "\\":
            i += 1
            name = pattern[i]
            if name == "s":
                found[-1] += ("[", "")[in_class] + r"\s\x0b\x1c-\x1f" + spaces + ("]", "")[in_class]
            elif name == "w":
                found[-1] += ("[", "")[in_class] + r"\pL\pN_" + ("]", "")[in_class]
            else:
                found[-1] += "\\" + name
        elif in_class or c not in " \n#|":
            in_class = c == "[" or (in_class and c != "]")
            found[-1] += c if c.isprintable() else f"\\x{{{ord(c):x}}}"
        elif c == "#":
            in_comment = True
        elif c == "|":
            found.append("")
        i += 1
    return found


def ranges(content):
    """The characters of the inside of a class, as a string."""
    return "".join(chr(code) for code in range(0x3000) if re.match(f"[{content}]", chr(code)))


def references():
    """Numeric references that do not mean the character of that number: numbers, then what they mean."""
    found = []
    for code in [*range(0xd800), *range(0xe000, 0x110000)]:
        meaning = html.unescape(f"&#{code};")
        if meaning == chr(code) or ";" in meaning:
            continue
        if found and found[-1][1] == code - 1 and found[-1][2] == meaning == "":
            found[-1][1] = code
        else:
            found.append([code, code, meaning])
    return found


def main():
    text = "# ftfy 6.3.1 and Python's html.entities, by scripts/make_mojibake_tables.py.\n"
    text += "".join(f"sign\t{sign}\n" for sign in signs_of_mojibake())
    for name in chardata.CHARMAP_ENCODINGS:
        characters = bytes(range(0x80, 0x100)).decode(name)
        text += f"encoding\t{name}\t{codes(characters)}\n"
    for name, content in chardata.UTF8_CLUES.items():
        text += f"clue\t{name}\t{codes(ranges(content))}\n"
    for first, last, meaning in references():
        text += f"reference\t{first:x}\t{last:x}\t{codes(meaning)}\n"
    for name, meaning in sorted(chardata.HTML_ENTITIES.items()):
        text += f"entity\t{name[1:-1]}\t{codes(meaning)}\n"
    if "--check" not in sys.argv:
        PATH.write_text(text)
        return 0
    if PATH.read_text() == text:
        return 0
    print(f"error: {PATH}: expected what scripts/make_mojibake_tables.py writes")
    return 1


if __name__ == "__main__":
    sys.exit(main())
