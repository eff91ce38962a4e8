#!/usr/bin/env python3
"""clean_dataset --repair against ftfy 6.3.1 with the same rules switched on, on made texts.

compare_with_ftfy.py CLEAN_DATASET [TEXTS [SEED]]
"""
import json
import random
import subprocess
import sys
import tempfile
import unittest

try:
    import ftfy
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM, TEXTS, SEED = "", 3000, 1
RULES = ["fix_c1_controls", "fix_latin_ligatures", "fix_character_width", "uncurl_quotes", "fix_line_breaks",
         "remove_terminal_escapes", "remove_control_chars", "nfc"]
PIECES = ["a", "b ", "\n", "\r\n", "\r", "\n\r", "\u2028", "\u2029", "\x85", "\x1b[1;31m", "\x1b[0m", "\x1b[", "\x1b[\u0661m", "\x1b", "\0",
          "\x07", "\x0b", "\x0c", "\x1f", "\x7f", "\x80", "\x81", "\x92", "\x9d", "\x9f", "\u2018x\u2019", "\u201cx\u201d", "\u02bc", "\u0149",
          "\ufb01", "\ufb05", "\u01c5", "\u0132", "\uff21", "\uff76\uff9e", "\uff76", "\uff9e", "\u3000", "\uffe3", "\uffe6", "\uffef", "e\u0301",
          "a\u0323\u0307", "a\u0307\u0323", "\u1100\u1161\u11a8", "\u0958", "\u212b", "\u2126", "\u0344", "\ufeff", "\u206a", "\ufff9", "\ufffc",
          "\ufffd", "\U0001f600", "\u4e2d", "\u00e9", "\u00a0", "\x1b\x07[1m", "\x1b[1\x07m", "\U0001d15e", "\u0338", "=\u0338", "\t"]


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

    def test_texts_are_repaired_as_by_ftfy(self):
        random.seed(SEED)
        texts = ["".join(random.choices(PIECES, k=random.randrange(1, 9))) for _ in range(TEXTS)]
        texts += ["", "x" * 1_000_000 + "\r" + "\n", "\u00e9" * 999_999 + "e\u0301\u0301"]
        for rules in (RULES, RULES[:1], RULES[4:5], RULES[5:7], RULES[7:], random.sample(RULES, 4), random.sample(RULES, 4)):
            config = ftfy.TextFixerConfig(unescape_html=False, fix_encoding=False, explain=False, fix_surrogates=False,
                                          normalization="NFC" if "nfc" in rules else None,
                                          **{rule: rule in rules for rule in RULES[:-1]})
            expected = [ftfy.fix_text(text, config) for text in texts]
            found, step = self.repair(texts, rules)
            for text, one, other in zip(texts, expected, found):
                self.assertEqual(one, other, (text[:50], rules))
            self.assertEqual(step["changed"], sum(one != text for one, text in zip(expected, texts)))


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    TEXTS, SEED = (int(argument) for argument in (sys.argv[2:] + [TEXTS, SEED][len(sys.argv) - 2:]))
    unittest.main(argv=sys.argv[:1])
