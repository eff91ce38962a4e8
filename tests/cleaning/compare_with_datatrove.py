#!/usr/bin/env python3
"""clean_dataset against datatrove 0.10: the same documents go, for the same reasons.

compare_with_datatrove.py CLEAN_DATASET [DOCUMENTS [SEED]]
"""
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

try:
    import datatrove  # noqa: F401
    from datatrove.data import Document
    from datatrove.pipeline import filters
    filters.GopherQualityFilter().filter(Document(text="a " * 60, id=""))
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM, DOCUMENTS, SEED = "", 400, 1
TESTDATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../testdata")
FILTERS = {"gopher_repetition": filters.GopherRepetitionFilter, "gopher_quality": filters.GopherQualityFilter,
           "c4": filters.C4QualityFilter, "fineweb": filters.FineWebQualityFilter}
ENDS = [". ", ". ", ".\n", "\n", "!\n\n", "? ", "...\n", "\u2026\n", ", ", " ", "\u3002", '."\n', " [1].\n", "\u2028", "\x0b",
        "\r\n", "; ", ": ", ".'\n"]
ODDITIES = ["lorem ipsum", "Lorem Ipsum.", "javascript", "JavaScript is off.\n", "{", "privacy policy.\n", "Use coo\u212aies.\n",
            "[citation needed].\n", "[edit]", "[]", "[12x]", "#", "###", "\u2022 ", "- ", "x" * 1001, "\u00e9" * 999, "5 ", "-- ", "\u4e2d\u6587 ",
            "\u0660 ", "[\u0661].\n", "...", " \u2026", "\n\n\n", "\t"]


def sentences():
    for name in ("english", "lambada"):
        with open(f"{TESTDATA}/quickstart/{name}.jsonl") as file:
            for line in file:
                yield from json.loads(line)["text"].replace("\n", " ").split(". ")


def documents():
    """Texts around every threshold: of sentences, words, lines that come again, and oddities."""
    random.seed(SEED)
    pool = list(sentences())
    words = " ".join(pool).split()
    with open(f"{TESTDATA}/quickstart/english.jsonl") as file:
        yield from (json.loads(line)["text"] for line in file)
    yield from ("", " ", "\n", "a", "\n\na\n\n", "." * 200, "the of " * 50_001, "zebra apple " * 40, "# the of and to " * 30)
    yield "\n".join(f"- {sentence}" for sentence in pool[:60])
    yield "\n\n".join(pool[:9] + pool[:6])  # paragraphs that come again,
    yield "\n\n".join(pool[:9] + 3 * [max(pool, key=len)])  # or long ones
    yield "\n".join(pool[:9] + 3 * [max(pool, key=len)])
    for _ in range(DOCUMENTS):
        kind = random.random()
        few = random.choices(pool if kind < 0.6 else words, k=random.choice([2, 5, 20, 60]))
        text = ""
        for _ in range(random.randrange(5, 90)):
            text += random.choice(few if random.random() < kind else pool if kind < 0.6 else words)
            text += random.choice(ENDS[:9] if kind < 0.4 else ENDS if kind < 0.8 else [" "] * 20 + ENDS)
            if random.random() < random.choice([0, 0, 0, 0.02, 0.2]):
                text += random.choice(ODDITIES)
        yield text


class Quality(unittest.TestCase):
    def clean(self, texts, *flags):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/in.jsonl", "w") as file:
                for i, text in enumerate(texts):
                    file.write(json.dumps({"id": i, "text": text}) + "\n")
            done = subprocess.run([PROGRAM, "--input", f"{folder}/in.jsonl", "--output", f"{folder}/out.jsonl", "--json",
                                   *flags], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(f"{folder}/out.jsonl") as file:
                return [json.loads(line) for line in file], json.loads(done.stdout)

    def test_quality_rules_are_those_of_datatrove(self):
        texts = list(documents())
        for name, make in FILTERS.items():
            with self.subTest(name):
                judge, expected, reasons = make(), [], collections.Counter()
                for i, text in enumerate(texts):
                    document = Document(text=text, id=str(i))
                    answer = judge.filter(document)
                    if answer is True:
                        expected.append({"id": i, "text": document.text})
                    else:
                        reasons[answer[1]] += 1
                kept, report = self.clean(texts, "--quality", name)
                print(name, len(expected), dict(reasons))
                found = collections.Counter(report["steps"][0]["reasons"])
                missing = {one["id"] for one in kept} ^ {one["id"] for one in expected}
                self.assertEqual((missing, found), (set(), reasons))
                self.assertEqual(kept, expected)

    def test_rules_run_in_the_stated_order(self):
        texts = list(documents())[:300]
        kept, report = self.clean(texts, "--quality", "fineweb", "c4", "gopher_quality", "gopher_repetition")
        self.assertEqual([step["name"] for step in report["steps"]], list(FILTERS))
        judges, expected = [make() for make in FILTERS.values()], []
        for i, text in enumerate(texts):
            document = Document(text=text, id=str(i))
            if all(judge.filter(document) is True for judge in judges):
                expected.append({"id": i, "text": document.text})
        self.assertEqual(kept, expected)


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    DOCUMENTS, SEED = (int(argument) for argument in (sys.argv[2:] + [DOCUMENTS, SEED][len(sys.argv) - 2:]))
    unittest.main(argv=sys.argv[:1])
