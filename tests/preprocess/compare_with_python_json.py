#!/usr/bin/env python3
"""Good, damaged and hostile JSON lines: libmeg's verdict and texts against Python's json.loads.

usage: compare_with_python_json.py READ_JSON_LINES [LINES [SEED]]
"""
import json
import random
import struct
import subprocess
import sys

LINES = 20000
KEYS = ["text", "b"]
PIECES = [
    "a", "the quick brown ", "\\n", '\\"', "\\\\", "\\/", "\\t\\r\\b\\f", "\\u0041", "\\u00e9", "\\u043F\\u0440",
    "\\u20ac", "\\u0000", "\\ud83d\\ude00", "\\uD7FF\\uE000", "\\ufffe\\uffff", "é", "€", "\U0001F600", "\x7f",
    "\u2028\u0085\ufeff", "{}[],:", "'", "\\u0430\\u0431 \\u0432", "\\u1234\\u5678\\u9aBc\\uDeF0"[:18],
]
RARE = ["\\ud83d", "\\ude00", "\\ude00\\ud83d", "\\ud83d\\ud83d\\ude00", "\\ud83d\\n", "\\ud83d\\u12", "\\x41",
        "\\u12g4", "\\u 123", "\\u+123", "\\u1_23", "\\U0041", "\x01", "\x1f", "\t", "\n", '"', "\\"]
NUMBERS = ["0", "-0", "1", "-1", "0.5", "1e5", "1E+400", "-1.5e-400", "123456789012345678901234567890", "9" * 5000,
           "0.1e1", "NaN", "Infinity", "-Infinity"]
BAD_VALUES = ["01", "-", "+1", ".5", "1.", "1.e5", "1e", "1e+", "0x10", "1_000", "--1", "-NaN", "nan", "inf", "infinity",
              "Inf", "None", "True", "nul", "nulll", "tru", "truee", "fals", "'a'", "", "[1,]", "[,1]", "[1 2]", "{\"a\"}",
              "{\"a\":}", "{\"a\":1,}", "{1:2}", "{a:1}", "[", "{", "]", "/**/1", "1//", "\ufeff", "\u00a01", "\x0b1", "\x0c1",
              "\u06f1", "1\u0663"]
SPACES = ["", "", "", " ", "\t", "\r\n", "  "]
BAD_SPACES = ["\x0b", "\x0c", "\u00a0", "\u2003", "\x00", "\ufeff"]
DAMAGE = [b'"', b"\\", b"{", b"}", b"[", b"]", b":", b",", b"0", b"-", b"e", b".", b" ", b"\n", b"\r", b"\x00", b"\x1f",
          b"\x7f", b"\x80", b"\xc0\x80", b"\xe2\x82", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff", b"\xef\xbb\xbf", b"u"]


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def chance(self, probability):
        return self.random.random() < probability

    def pick(self, choices):
        return self.random.choice(choices)

    def space(self):
        return self.pick(BAD_SPACES) if self.chance(0.001) else self.pick(SPACES)

    def string(self):
        parts = []
        for _ in range(self.random.randrange(8)):
            if self.chance(0.01):
                parts.append(self.pick(RARE))
            elif self.chance(0.15):
                parts.append("x" * self.random.randrange(130))
            elif self.chance(0.1):
                parts.append("".join("\\u%04x" % self.random.randrange(0x10000)
                                     for _ in range(self.random.randrange(1, 15))))
            else:
                parts.append(self.pick(PIECES))
        return '"' + "".join(parts) + '"'

    def key(self):
        if self.chance(0.2):
            return self.string()
        return self.pick(['"id"', '"url"', '""', '"te\\u0078t"', '"text "', '"TEXT"', '"b\\u0000"', '"\\ud800"'])

    def value(self, depth):
        if self.chance(0.01):
            return self.pick(BAD_VALUES)
        kind = self.random.randrange(8 if depth < 4 else 5)
        if kind < 2:
            return self.string()
        if kind < 4:
            return self.pick(NUMBERS)
        if kind == 4:
            return self.pick(["null", "true", "false"])
        if kind == 5:
            return self.listing(depth)
        return self.mapping([(self.key(), self.value(depth + 1)) for _ in range(self.random.randrange(4))])

    def listing(self, depth):
        values = (self.space() + self.value(depth + 1) + self.space() for _ in range(self.random.randrange(4)))
        return "[" + ",".join(values) + self.space() + "]"

    def texts(self):
        if self.chance(0.03):
            return self.value(1)
        if self.chance(0.7):
            return self.string()
        return "[" + ",".join(self.space() + self.string() for _ in range(self.random.randrange(4))) + "]"

    def mapping(self, members):
        space = self.space
        return "{" + ",".join(space() + key + space() + ":" + space() + value + space()
                              for key, value in members) + space() + "}"

    def deep(self):
        depth = self.pick([10, 300, 900, 1100, 5000])
        opening, closing = self.pick([("[", "]"), ('{"a":', "}")])
        inner = opening * depth + ("1" if opening != "[" else "") + closing * depth
        return '{"text":"x","b":[],"d":' + inner + "}"

    def line(self):
        if self.chance(0.002):
            return self.deep()
        members = [('"text"', self.texts()), ('"b"', self.texts())]
        for _ in range(self.random.randrange(3)):
            members.append((self.key(), self.value(1)))
        if self.chance(0.1):
            members.append((self.pick(['"text"', '"te\\u0078t"']), self.texts()))
        if self.chance(0.02):
            members.pop(0)
        self.random.shuffle(members)
        return self.space() + self.mapping(members) + self.space()

    def damaged(self, line):
        for _ in range(self.random.randrange(1, 3)):
            at = self.random.randrange(len(line) + 1)
            kind = self.random.randrange(4)
            if kind == 0:
                line = line[:at]
            elif kind == 1:
                line = line[:at] + line[at + 1:]
            elif kind == 2:
                line = line[:at] + self.pick(DAMAGE) + line[at:]
            else:
                line = line[:at] + self.pick(DAMAGE) + line[at + 1:]
        return line

    def bytes_of_line(self):
        line = self.line().encode("utf-8")
        return self.damaged(line) if self.chance(0.5) else line


def texts_by_python(line):
    """For each key its texts in UTF-8; None where Megatron could not use the line."""
    try:
        document = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    found = []
    for key in KEYS:
        value = document.get(key)
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            return None
        try:
            found.append([text.encode("utf-8") for text in texts])
        except UnicodeEncodeError:
            return None
    return found


class Answers:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, size):
        self.at += size
        return self.data[self.at - size:self.at]

    def number(self):
        return struct.unpack("<I", self.take(4))[0]

    def next(self):
        if self.take(1) == b"\x00":
            return None
        return [[self.take(self.number()) for _ in range(self.number())] for _ in KEYS]


def main():
    program = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else LINES
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    sys.set_int_max_str_digits(0)  # libmeg takes integers of any size.
    generator = Generator(seed)
    lines = [generator.bytes_of_line() for _ in range(count)]
    request = b"".join(struct.pack("<I", len(line)) + line for line in lines)
    result = subprocess.run([program], input=request, stdout=subprocess.PIPE, check=False)
    if result.returncode != 0:
        sys.exit(f"error: {program} ended with {result.returncode}")
    answers = Answers(result.stdout)
    accepted = 0
    for line in lines:
        expected = texts_by_python(line)
        found = answers.next()
        accepted += expected is not None
        if found != expected:
            sys.exit(f"error: line {line!r}: expected {expected!r}, found {found!r}")
    if answers.at != len(answers.data) or not count / 10 < accepted < count * 9 / 10:
        sys.exit(f"error: {accepted} of {count} lines accepted, {len(answers.data) - answers.at} bytes left")
    print(f"{count} lines, {accepted} of them accepted: as Python's json")


if __name__ == "__main__":
    main()
