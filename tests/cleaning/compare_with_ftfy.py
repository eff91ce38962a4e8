#!/usr/bin/env python3
"""clean_dataset --repair against ftfy 6.3.1 with the same rules switched on, on made texts and on real ones that
were read in the wrong encoding.

compare_with_ftfy.py CLEAN_DATASET [TEXTS [SEED]]
"""
import json
import random
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import ftfy
    from ftfy import chardata
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM, TEXTS, SEED = "", 1000, 1
RULES = ["unescape_html", "fix_encoding", "fix_c1_controls", "fix_latin_ligatures", "fix_character_width", "uncurl_quotes", "fix_line_breaks",
         "remove_terminal_escapes", "remove_control_chars", "nfc"]
PIECES = ["a", "b ", "\n", "\r\n", "\r", "\n\r", "\u2028", "\u2029", "\x85", "\x1b[1;31m", "\x1b[0m", "\x1b[", "\x1b[\u0661m", "\x1b", "\0",
          "\x07", "\x0b", "\x0c", "\x1f", "\x7f", "\x80", "\x81", "\x92", "\x9d", "\x9f", "\u2018x\u2019", "\u201cx\u201d", "\u02bc", "\u0149",
          "\ufb01", "\ufb05", "\u01c5", "\u0132", "\uff21", "\uff76\uff9e", "\uff76", "\uff9e", "\u3000", "\uffe3", "\uffe6", "\uffef", "e\u0301",
          "a\u0323\u0307", "a\u0307\u0323", "\u1100\u1161\u11a8", "\u0958", "\u212b", "\u2126", "\u0344", "\ufeff", "\u206a", "\ufff9", "\ufffc",
          "\ufffd", "\U0001f600", "\u4e2d", "\u00e9", "\u00a0", "\x1b\x07[1m", "\x1b[1\x07m", "\U0001d15e", "\u0338", "=\u0338", "\t"]


SENTENCES = ["d\u00e9j\u00e0 vu \u00e0 la carte", "l\u2019\u00e9t\u00e9 \u2014 \u201c\u00e7a\u201d", "Gr\u00fc\u00dfe aus K\u00f6ln",
             "\u0440\u0443\u0441\u0441\u043a\u0438\u0439 \u0442\u0435\u043a\u0441\u0442", "\u0627\u0644\u0639\u0631\u0628\u064a\u0629",
             "\u4e2d\u6587 \u65e5\u672c\u8a9e \u304b\u306a", "\u0395\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac", "\u0e44\u0e17\u0e22",
             "\U0001f600\U0001f1e9\U0001f1ea", "\u00bfQu\u00e9? \u00a1Ol\u00e9! \u00b0\u00bd", "\u20ac 5 \u00a3 6 \u00a7 7 \u2122\u00ae\u00a9",
             "Za\u017c\u00f3\u0142\u0107 g\u0119\u015bl\u0105", "P\u0159\u00edli\u0161 \u017elu\u0165ou\u010dk\u00fd", "\u0100bele \u0161\u0137\u012bvis",
             "\u0130stanbul \u015fi\u015fe \u011fa", "\u0915\u093e \u0c95\u0ca8", "voil\u00e0 le travail \u00e0quele", "\u2026\u2022\u2013 \u00c5 \u00d8 \u00c3 o",
             "plain words only. ", "\uac00\ub098 \ud55c\uad6d", "\u2713\u2714\ufe0f \u00d7\u00b2", "o\u0301 n\u0303"]
MARKS = ["&eacute;", "&amp;", "<p>", " ", "\n", "\x92", "\ufffd", "\x1a", "?", "\xa0", "\xad", "\u00c3\u00a9", "\u00e2\u20ac\u2122", "\u00c2 ", "\u00c3 la"]


class Repair(unittest.TestCase):
    def repair(self, texts, rules):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/in.jsonl", "w") as file:
                file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
            done = subprocess.run([PROGRAM, "--input", f"{folder}/in.jsonl", "--output", f"{folder}/out.jsonl", "--json",
                                   "--repair", *rules], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(f"{folder}/out.jsonl") as file:
                return [json.loads(line)["text"] for line in file], json.loads(done.stdout)["steps"][0]

    def in_wrong_encodings(self):
        """Real sentences of many scripts, and what programs make of their UTF-8."""
        texts = []
        for _ in range(TEXTS):
            text = "".join(random.choice(SENTENCES) if random.random() < 0.6 else random.choice(MARKS)
                           for _ in range(random.randrange(1, 5)))
            begin = random.randrange(len(text) + 1)
            part, rest = text[begin:], text[:begin] if random.random() < 0.4 else ""
            for _ in range(random.choice([1, 1, 1, 2, 3])):
                encoding = random.choice(chardata.CHARMAP_ENCODINGS + ["sloppy-windows-1252"] * 4)
                data = part.encode("utf-8" if random.random() < 0.8 else "utf-16", "surrogatepass")
                if random.random() < 0.1:  # CESU-8
                    data = b"".join(c.encode() if c < "\U00010000" else "".join(
                        chr(unit) for unit in struct.unpack("<2H", c.encode("utf-16-le"))).encode("utf-8", "surrogatepass")
                                    for c in part)
                part = data.decode(encoding, random.choice(["replace", "ignore"]))
                part = random.choice([str, str, str, lambda text: text.replace("\xa0", " "), lambda text: text.replace("\ufffd", "?"),
                                      lambda text: text.replace("\u0080", "\ufffd")])(part)
            texts.append(random.choice(["{}{}", "{} {}", "{}\n{}"]).format(rest, part))
        return texts

    def test_entities_are_those_of_ftfy(self):
        names = [*chardata.HTML_ENTITIES, *(f"&#{random.choice(['x', 'X', ''])}{code};" for code in range(0, 70000, 37)),
                 *(f"&#{code};" for code in range(300)), *(f"&#x{code:x};" for code in range(0, 0x110000, 0x3ff)), "&#xd800;",
                 "&#x110000;", "&#99999999999999999999999;", "&#x;", "&#;", "&amp", "&amp;lt;", "&amp;amp;amp;lt;", "&nosuch;", "&#12ab;",
                 "&NTILDE;", "&nTILDE;", "&#x3b;", "&#59;", "&&gt;;", "&" + "a" * 25 + ";", "&\u00e9;", "&#\u0661;"]
        texts = [f"a{name}b" for name in names] + ["&lt;\n<b>\n&lt;", "a &lt; b\n&amp;\nc < &lt;", "&lt;&#60;p"]
        found, _ = self.repair(texts, ["unescape_html"])
        config = ftfy.TextFixerConfig(
            unescape_html="auto", explain=False, fix_encoding=False, fix_surrogates=False, normalization=None,
            **{rule: False for rule in RULES[2:-1]})
        for text, one in zip(texts, found):
            self.assertEqual(one, ftfy.fix_text(text, config), text)

    def test_texts_are_repaired_as_by_ftfy(self):
        random.seed(SEED)
        texts = ["".join(random.choices(PIECES, k=random.randrange(1, 9))) for _ in range(TEXTS)]
        texts += self.in_wrong_encodings()
        texts += ["", "x" * 1_000_000 + "\r" + "\n", "\u00e9" * 999_999 + "e\u0301\u0301"]
        for rules in (["all"], RULES[:1], RULES[1:2], RULES[:4], RULES[2:3], RULES[6:7], RULES[7:9], RULES[9:],
                      random.sample(RULES, 4), random.sample(RULES, 4)):
            config = ftfy.TextFixerConfig(explain=False)
            if rules != ["all"]:
                config = ftfy.TextFixerConfig(explain=False, fix_surrogates=False, normalization="NFC" if "nfc" in rules else None,
                                              **{rule: rule in rules for rule in RULES[1:-1]},
                                              unescape_html="auto" if "unescape_html" in rules else False)
            expected = [ftfy.fix_text(text, config) for text in texts]
            found, step = self.repair(texts, rules)
            for text, one, other in zip(texts, expected, found):
                self.assertEqual(one, other, (text[:50], rules))
            self.assertEqual(step["changed"], sum(one != text for one, text in zip(expected, texts)))


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    TEXTS, SEED = (int(argument) for argument in (sys.argv[2:] + [TEXTS, SEED][len(sys.argv) - 2:]))
    unittest.main(argv=sys.argv[:1])
