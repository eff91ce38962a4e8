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


class Reference:
    """Pairs, verified by the Jaccard similarity of 5-grams, and clusters, with datatrove's words, hashes and signatures."""

    def __init__(self, texts):
        self.texts = texts
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
            signer = minhash.MinhashDedupSignature(folder)
            shingles = [signer.get_shingles(text) for text in texts]
            self.sets = [set(one.ravel().tolist()) for one in shingles]
            self.signatures = [signer.get_signature(one) if one.size else None for one in shingles]

    def pairs(self, bucket, least):
        """Of documents, in the order in which they are joined, and how many were compared."""
        groups, compared, pairs = {}, 0, []
        for i, signature in enumerate(self.signatures):
            if signature:
                groups.setdefault(tuple(signature[bucket]), []).append(i)
        for _, group in sorted(groups.items()):
            leaders = []
            for i in group:
                for leader in leaders:
                    compared += 1
                    if len(self.sets[i] & self.sets[leader]) / len(self.sets[i] | self.sets[leader]) >= least:
                        pairs.append((leader, i))
                        break
                else:
                    leaders += [i] if len(leaders) < 16 else []
        return pairs, compared

    def clusters(self, least):
        """The documents of each, and the root, which is that of the larger tree."""
        root, members, compared = {}, {i: [i] for i in range(len(self.texts))}, 0
        for bucket in range(14):
            pairs, count = self.pairs(bucket, least)
            compared += count
            for a, b in pairs:
                a, b = root.get(a, a), root.get(b, b)
                if a != b:
                    a, b = (b, a) if len(members[a]) < len(members[b]) else (a, b)
                    members[a] += members.pop(b)
                    root.update((i, a) for i in members[a])
        return members, compared


class NearDuplicates(unittest.TestCase):
    def clean(self, texts, *flags, more=lambda i: {}):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/in.jsonl", "w") as file:
                for i, text in enumerate(texts):
                    file.write(json.dumps({"id": i, "text": text, **more(i)}) + "\n")
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
        print(len(texts), "documents,", len(kept), "kept,", report["clusters"], "clusters",
              [cluster["documents"] for cluster in report["largest_clusters"]])
        self.assertGreater(report["clusters"], 10)
        self.assertEqual(report["steps"][0]["removed"], len(texts) - len(expected))
        # Exact duplicates that are decided at the end do not count among the near ones.
        texts = [text for text in texts for _ in range(2)]
        seen = {text: i for i, text in reversed(list(enumerate(texts)))}
        first = sorted(seen.values())
        expected = [first[i] for i in survivors([texts[i] for i in first])]
        kept, _ = self.clean(texts, "--exact-duplicates", "--near-duplicates")
        self.assertEqual(kept, expected)

    def test_pairs_are_verified_by_their_jaccard_similarity(self):
        texts = documents()
        # Documents that agree by chance in what they have most of, so that buckets hold different ones.
        for i in range(0, len(texts), 3):
            texts[i] = "one two three four five six " * 3 + texts[i][: i % 200]
        reference = Reference(texts)
        unverified, _ = self.clean(texts, "--near-duplicates")
        for least in (1e-9, 0.5, 0.8, 0.95, 1):
            members, compared = reference.clusters(least)
            kept, report = self.clean(texts, "--near-duplicates", "--verify-jaccard", repr(least))
            self.assertEqual(kept, sorted(members))
            self.assertEqual(report["candidate_pairs"], compared)
            self.assertLessEqual(compared, 14 * 16 * len(texts))
            sizes = sorted((len(one) for one in members.values() if len(one) > 1), reverse=True)
            self.assertEqual([one["documents"] for one in report["largest_clusters"]], sizes[:10])
            print(least, len(kept), "kept,", compared, "pairs compared,", report["joined_pairs"], "joined")
            self.assertGreaterEqual(len(kept), len(unverified))
        self.assertGreater(len(kept), len(unverified))
        bounded, _ = self.clean(texts, "--near-duplicates", "--verify-jaccard", "0.8", "--memory", "1MiB", "--workers", "5")
        self.assertEqual(bounded, self.clean(texts, "--near-duplicates", "--verify-jaccard", "0.8", "--workers", "1")[0])

    def test_the_rule_says_which_document_of_a_cluster_stays(self):
        texts = documents()
        random.seed(SEED)
        scores = [random.choice([None, "7", [1], -3, 2, 2.5, 1e3, 17, 2**40]) for _ in texts]
        numbers = [score if isinstance(score, (int, float)) else None for score in scores]

        def more(i):
            return {} if scores[i] is None else {"score": scores[i]}

        for least in (None, 0.7):
            verify = [] if least is None else ["--verify-jaccard", str(least)]
            # Without verification what is joined makes the same clusters as with no limit, but for chains.
            members, _ = Reference(texts).clusters(least or 0)
            rules = {"first": lambda i: 0, "longest": lambda i: len(texts[i].encode()),
                     "highest": lambda i: float("-inf") if numbers[i] is None else numbers[i],
                     "lowest": lambda i: float("-inf") if numbers[i] is None else -numbers[i]}
            for rule, rank in rules.items():
                key = ["--keep-key", "score"] if rule in ("highest", "lowest") else []
                kept, _ = self.clean(texts, "--near-duplicates", *verify, "--keep-duplicate", rule, *key, more=more)
                expected = sorted(min(one, key=lambda i: (-rank(i), i)) for one in members.values())
                self.assertEqual(kept, expected, (rule, least))


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    DOCUMENTS, SEED = (int(argument) for argument in (sys.argv[2:] + [DOCUMENTS, SEED][len(sys.argv) - 2:]))
    unittest.main(argv=sys.argv[:1])
