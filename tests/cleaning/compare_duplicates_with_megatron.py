#!/usr/bin/env python3
"""find_duplicates and clean_dataset --url-groups against find_duplicates.py, group_duplicate_url.py and
remove_group_duplicates.py of Megatron-LM's tools/openwebtext, whose folder is in MEG_OPENWEBTEXT.

compare_duplicates_with_megatron.py FIND_DUPLICATES CLEAN_DATASET
"""
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = os.environ.get("MEG_OPENWEBTEXT", "")
if not os.path.exists(os.path.join(SCRIPTS, "find_duplicates.py")):
    print("skipped: no MEG_OPENWEBTEXT, the folder tools/openwebtext of a Megatron-LM")
    sys.exit(77)
if not importlib.util.find_spec("lsh"):
    print("skipped: no Python package lsh (github.com/mattilyra/LSH)")
    sys.exit(77)

FIND, CLEAN = sys.argv[1:3]
TESTDATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../testdata")

# The script compares a random document of a bucket with the others; here the first one, as ours.
WITH_FIRST = """
import runpy, sys, numpy
draw = numpy.random.randint
def first(low, high, size=None):
    if size is not None:
        return draw(low, high, size=size)
    of_bucket = sys._getframe(1).f_locals
    place = {url: i for i, url in enumerate(of_bucket["url_doc"])}
    return min(range(high), key=lambda i: place[of_bucket["items"][i]])
numpy.random.randint = first
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(*command, code=0):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def read(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def pairs_of(path):
    """Main URLs with the others and their similarities; a bucket of the script has no order."""
    return [(main, sorted(tuple(pair.items()) for pair in others)) for line in read(path) for main, others in line.items()]


class Duplicates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        random.seed(1)
        with open(f"{TESTDATA}/quickstart/english.jsonl") as file:
            texts = [json.loads(line)["text"] for line in file]
        texts = [text[:3000] for text in texts] + ["", "a", "abcd", "abcde", "abcdef", "abcdef", "é" * 5, "éa" * 40, "éa" * 41]
        documents = [(f"http://a.com/{i}/\"é\\\n\u2028", text) for i, text in enumerate(texts)]
        for i in range(160):  # near duplicates of near duplicates
            url, text = random.choice(documents)
            words = text.split(" ")
            for _ in range(random.choice([0, 1, 3, 10, 30, 100])):
                words[random.randrange(len(words))] = random.choice(["x", "changed", "ß\U0001f600", ""])
            documents.append((f"copy {i}", " ".join(words[:len(words) * random.choice([10, 10, 8, 5]) // 10])))
        cls.write("web.jsonl", "url", documents)
        cls.write("news.jsonl", "id", [(i if i % 3 else -i, text) for i, (_, text) in enumerate(documents[::7])]
                  + documents[:2])  # URLs of the first file once more, of the same texts

    @classmethod
    def write(cls, name, key, documents):
        with open(f"{cls.folder}/{name}", "w") as file:
            for url, text in documents:
                file.write(json.dumps({key: url, "text": text, "n": 1.50}, ensure_ascii=random.random() < 0.5) + "\n")
            file.write('{"other": 1}\n{"url": "u", "id": "u", "text": ["a"]}\n{"text": "no url"}\nno json\n')

    def path(self, name):
        return f"{self.folder}/{name}"

    def inputs(self):
        return ["--inputs", self.path("web.jsonl"), "url", self.path("news.jsonl"), "id"]

    def test_pairs_are_those_of_megatron(self):
        for flags in ([], ["--heuristic-iter", -1], ["--heuristic-iter", 2, "--jaccard", "min"], ["--jaccard", "max"],
                      ["--num-bands", 50, "--num-seeds", 50, "--seed", 7, "--heuristic-iter", 3, "--jaccard-parallel"]):
            run(sys.executable, "-c", WITH_FIRST, f"{SCRIPTS}/find_duplicates.py", *self.inputs(), "--output",
                self.path("theirs"), *flags)
            for workers in (1, 3):
                done = run(FIND, "pairs", *self.inputs(), "--output", self.path("ours"), "--on-error", "skip", "--json",
                           "--workers", workers, *(flag for flag in flags if flag != "--jaccard-parallel"))
                report = json.loads(done.stdout)
                self.assertEqual((report["skipped_lines"], report["repeated_urls"]), (8, 2))
                found = pairs_of(self.path("ours"))
                self.assertEqual(found, pairs_of(self.path("theirs")), flags)
                self.assertEqual(report["similar_pairs"], sum(len(others) for _, others in found))
            print(flags, len(found), "lines,", report["similar_pairs"], "pairs of", report["compared_pairs"])

    def test_groups_and_what_is_removed_are_those_of_megatron(self):
        run(FIND, "pairs", *self.inputs(), "--output", self.path("pairs"), "--on-error", "skip")
        for threshold in ([], [0.9], [0.5]):
            run(sys.executable, f"{SCRIPTS}/group_duplicate_url.py", self.path("pairs"), self.path("theirs"), *threshold)
            run(FIND, "groups", self.path("pairs"), self.path("ours"), *(["--threshold", *threshold] if threshold else []))
            ours, theirs = read(self.path("ours")), read(self.path("theirs"))
            self.assertEqual([{number: sorted(urls) for number, urls in line.items()} for line in ours],
                             [{number: sorted(urls) for number, urls in line.items()} for line in theirs])
            print(threshold, len(ours), "groups")
            for groups in ("ours", "theirs"):
                run(sys.executable, f"{SCRIPTS}/remove_group_duplicates.py", self.path(groups), self.path("web.jsonl"),
                    self.path("their left"))
                run(CLEAN, "--input", self.path("web.jsonl"), "--url-groups", self.path(groups), "--url-key", "url",
                    "--on-error", "skip", "--output", self.path("our left"))
                left = [one for one in read(self.path("their left")) if isinstance(one.get("text"), str)]
                self.assertEqual(read(self.path("our left")), left)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
