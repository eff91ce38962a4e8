#!/usr/bin/env python3
"""clean_dataset --near-duplicates against the four stages of datatrove 0.10: the same documents survive.

compare_with_minhash.py CLEAN_DATASET [DOCUMENTS [SEED]]
"""
import contextlib
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

try:
    from datatrove.data import Document
    from datatrove.pipeline.dedup import minhash
    from datatrove.utils.word_tokenizers import load_word_tokenizer
    import xxhash  # noqa: F401
    load_word_tokenizer("en").word_tokenize("a")
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM, DOCUMENTS, SEED = "", 800, 1
TESTDATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../testdata")
OTHERS = ("ΟΔΟΣ. ΣΟΦΟΣ στη 中文文本 한국어 문장 İstanbul ŞİŞLİ naïve École ÉCOLE Привет МИР 12.5 1,000 ٣٫٥ ३४ 5km don't "
          "cannot İ ẞ straße ﬁne ½ Ⅷ \u0958 \u1e9b\u0323 a\u0323\u0307 \u212a \U0001f600 \u20ac5 ¿Qué? e.g. U.S.A. \u00b0C \u3002 "
          "\U0001d15e \u302e\u0301 _x_ `y` \x07z \x85 \u2028 \u00ad soft\u00adhyphen \u200bzero").split(" ")


def documents():
    random.seed(SEED)
    sentences = []
    for name in ("english", "lambada"):
        with open(f"{TESTDATA}/quickstart/{name}.jsonl") as file:
            for line in file:
                sentences += json.loads(line)["text"].split(". ")
    pool, texts = [], []
    for _ in range(DOCUMENTS):
        kind = random.random()
        if kind < 0.3 or not pool:
            text = ". ".join(random.choices(sentences, k=random.randrange(1, 12)))
            words = text.split(" ")
            for _ in range(random.choice([0, 0, 3, 20])):
                words.insert(random.randrange(len(words) + 1), random.choice(OTHERS))
            text = " ".join(words)
        elif kind < 0.34:
            text = " ".join(random.choices(OTHERS + ["", "a"], k=random.randrange(9)))
        else:  # a document of before with changes, so that clusters are long chains
            words = random.choice(pool[-60:]).split(" ")
            for _ in range(random.choice([0, 1, 1, 2, 4, 9])):
                words[random.randrange(len(words))] = random.choice(random.choice(sentences).split(" "))
            text = " ".join(words)
            if random.random() < 0.3:
                text = text.upper() if random.random() < 0.5 else text.replace(".", "!").replace(" ", "  ")
        pool.append(text)
        texts.append(text)
    return texts


def survivors(texts):
    """Of datatrove, by number."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        of = [Document(text=text, id=str(i)) for i, text in enumerate(texts)]
        minhash.MinhashDedupSignature(f"{folder}/1").run(of, 0, 1)
        for rank in range(14):
            minhash.MinhashDedupBuckets(f"{folder}/1", f"{folder}/2").run(None, rank, 14)
        minhash.MinhashDedupCluster(f"{folder}/2", f"{folder}/3").run(None, 0, 1)
        return [int(document.id) for document in minhash.MinhashDedupFilter(f"{folder}/3").run(of, 0, 1)]


class NearDuplicates(unittest.TestCase):
    def clean(self, texts, *flags):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/in.jsonl", "w") as file:
                for i, text in enumerate(texts):
                    file.write(json.dumps({"id": i, "text": text}) + "\n")
            done = subprocess.run([PROGRAM, "--input", f"{folder}/in.jsonl", "--output", f"{folder}/out.jsonl", "--json",
                                   *flags], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(os.listdir(folder)), ["in.jsonl", "out.jsonl"])
            with open(f"{folder}/out.jsonl") as file:
                return [json.loads(line)["id"] for line in file], json.loads(done.stdout)

    def test_the_survivors_are_those_of_datatrove(self):
        texts = documents()
        expected = survivors(texts)
        for flags in ([], ["--workers", "1"], ["--workers", "5", "--memory", "1MiB"]):
            kept, report = self.clean(texts, "--near-duplicates", *flags)
            self.assertEqual(kept, expected)
        print(len(texts), "documents,", len(kept), "kept,", report["clusters"], "clusters", report["largest_clusters"])
        self.assertGreater(report["clusters"], 10)
        self.assertEqual(report["steps"][0]["removed"], len(texts) - len(expected))
        # Exact duplicates that are decided at the end do not count among the near ones.
        texts = [text for text in texts for _ in range(2)]
        seen = {text: i for i, text in reversed(list(enumerate(texts)))}
        first = sorted(seen.values())
        expected = [first[i] for i in survivors([texts[i] for i in first])]
        kept, _ = self.clean(texts, "--exact-duplicates", "--near-duplicates")
        self.assertEqual(kept, expected)


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    DOCUMENTS, SEED = (int(argument) for argument in (sys.argv[2:] + [DOCUMENTS, SEED][len(sys.argv) - 2:]))
    unittest.main(argv=sys.argv[:1])
