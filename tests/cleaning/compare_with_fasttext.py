#!/usr/bin/env python3
"""clean_dataset --language-model against fastText 0.9.2, on models of every kind that are trained here, and what the rule
of scripts and stop words says of sentences.

compare_with_fasttext.py CLEAN_DATASET
"""
import json
import random
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import fasttext
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM = ""
fasttext.FastText.eprint = lambda *_: None
SENTENCES = {
    "en": "the quick brown fox jumps over the lazy dog and that was the end of it for this year with all of them",
    "de": "der schnelle braune Fuchs springt \u00fcber den faulen Hund und das war auch schon das Ende von der Geschichte",
    "fr": "le renard brun et rapide saute par dessus le chien paresseux et ce fut la fin de cette histoire pour les \u00e9l\u00e8ves",
    "ru": "\u0431\u044b\u0441\u0442\u0440\u0430\u044f \u043b\u0438\u0441\u0430 \u043d\u0435 \u043f\u0440\u044b\u0433\u0430\u043b\u0430 \u043d\u0430"
          " \u0441\u043e\u0431\u0430\u043a\u0443 \u0438 \u044d\u0442\u043e \u043a\u043e\u043d\u0435\u0446 \u0432\u0441\u0435\u0439"
          " \u0438\u0441\u0442\u043e\u0440\u0438\u0438",
    "ja": "\u7d20\u65e9\u3044\u8336\u8272\u306e\u72d0\u304c\u306e\u308d\u307e\u306a\u72ac\u3092\u98db\u3073\u8d8a\u3048\u308b",
    "zh": "\u654f\u6377\u7684\u68d5\u8272\u72d0\u72f8\u8df3\u8fc7\u61d2\u72d7",
}
# fastText 0.9.2 gives each thread a tenth of the first matrix to fill and leaves the rest as memory had it: fewer threads
# than that train on numbers of chance, and often on ones that are none ("Encountered NaN").
THREADS = 11
KINDS = {
    "softmax": {"loss": "softmax"},
    "hierarchical": {"loss": "hs"},
    "one_vs_all": {"loss": "ova", "wordNgrams": 3},
    "negatives": {"loss": "ns", "minn": 0, "maxn": 0},
    "words_alone": {"loss": "softmax", "minn": 0, "maxn": 0, "wordNgrams": 1},
}


def text_of(language, words):
    parts = SENTENCES[language].split() if " " in SENTENCES[language] else list(SENTENCES[language])
    return " ".join(random.choice(parts) for _ in range(words))


class Languages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        random.seed(1)
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        with open(f"{cls.folder.name}/train.txt", "w") as file:
            for _ in range(1200):
                language = random.choice(list(SENTENCES))
                file.write(f"__label__{language} {text_of(language, 12)}\n")
        cls.texts = []
        for _ in range(400):
            text = " ".join(text_of(random.choice(list(SENTENCES)), random.randrange(1, 9)) for _ in range(random.randrange(1, 4)))
            if random.random() < 0.5:  # Words that the model does not know, and marks.
                at = random.randrange(len(text))
                text = text[:at] + random.choice(["\u00fcnbekannt", "\n", "\t\r\n", "</s>", "__label__de", "__label__", "\U0001f600", ",", "\0"]) + text[at:]
            cls.texts.append(text)
        cls.texts += ["", " ", "\n", "x"]

    def model(self, kind, quantize=False, **options):
        model = fasttext.train_supervised(f"{self.folder.name}/train.txt", thread=THREADS, seed=3, verbose=0, epoch=4,
                                          **{"dim": 10, "bucket": 5000, "minn": 2, "maxn": 4, "wordNgrams": 2, **KINDS[kind], **options})
        path = f"{self.folder.name}/{kind}.{'ftz' if quantize else 'bin'}"
        if quantize:
            model.quantize(f"{self.folder.name}/train.txt", **quantize)
        model.save_model(path)
        return path, fasttext.load_model(path)

    def run_program(self, texts, *flags):
        source, output = f"{self.folder.name}/in.jsonl", f"{self.folder.name}/out.jsonl"
        with open(source, "w") as file:
            file.writelines(json.dumps({"text": text, "id": i}) + "\n" for i, text in enumerate(texts))
        return subprocess.run([PROGRAM, "--input", source, "--output", output, "--json", *map(str, flags)], capture_output=True, text=True)

    def kept(self, texts, *flags):
        done = self.run_program(texts, *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(f"{self.folder.name}/out.jsonl") as file:
            return [json.loads(line)["id"] for line in file], json.loads(done.stdout)

    def compare(self, path, judge):
        def scores(text):  # As datatrove's FastTextLID.
            names, values = judge.predict(text.replace("\n", " "), k=-1)
            return {name.removeprefix("__label__"): float(value) for name, value in zip(names, values)}
        judged = [scores(text) for text in self.texts]
        counts = {}
        for one in judged:
            best = max(one, key=one.get) if one else "unknown"
            counts[best] = counts.get(best, 0) + 1
        for languages in (["en"], ["de", "ru"], ["all"]):
            for threshold in (0.3, 0.65, 0.95):
                wanted = [[value for name, value in one.items() if name in languages or languages == ["all"]] for one in judged]
                # The order of additions differs in the last bits.
                close = {i for i, values in enumerate(wanted) if any(abs(value - threshold) < 1e-5 for value in values)}
                expected = [i for i, values in enumerate(wanted) if any(value > threshold for value in values)]
                found, report = self.kept(self.texts, "--languages", *languages, "--language-model", path, "--language-threshold", threshold)
                self.assertEqual([i for i in found if i not in close], [i for i in expected if i not in close])
                self.assertEqual(sum(report["languages"].values()), len(self.texts))
                difference = sum(abs(report["languages"].get(name, 0) - counts.get(name, 0)) for name in counts | report["languages"])
                self.assertLessEqual(difference, 2 * sum(len(set(round(v, 5) for v in one.values())) < len(one) for one in judged))

    def test_documents_are_those_of_fasttext(self):
        for kind in KINDS:
            with self.subTest(kind=kind):
                self.compare(*self.model(kind))

    def test_documents_are_those_of_fasttext_with_quantized_models(self):
        for name, quantize in {"plain": {"dsub": 3}, "norms": {"qnorm": True}, "pruned": {"cutoff": 400, "qnorm": True},
                               "output": {"qout": True, "qnorm": True, "dsub": 2}}.items():
            for kind in ("softmax", "hierarchical"):
                with self.subTest(name=name, kind=kind):
                    # Quantized outputs need as many rows as centroids.
                    if name == "output":
                        continue
                    self.compare(*self.model(kind, quantize))

    def test_broken_models_are_errors(self):
        for quantize in (False, {"qnorm": True, "cutoff": 400}):
            path, _ = self.model("softmax", quantize)
            with open(path, "rb") as file:
                whole = file.read()
            broken = f"{self.folder.name}/broken"
            sizes = [0, 3, 4, 8, 30, 55, 60, 64, 80, 92, 200, len(whole) // 2, len(whole) - 1]
            for size in sizes:
                with open(broken, "wb") as file:
                    file.write(whole[:size])
                done = self.run_program(["a"], "--languages", "en", "--language-model", broken)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
                self.assertIn(f"{broken}: expected", done.stderr)
            # A number that says more than there is, at each place of the head.
            for at in range(0, 92, 4):
                for number in (-1, 0, 2**31 - 1, 2**30):
                    with open(broken, "wb") as file:
                        file.write(whole[:at] + struct.pack("<i", number) + whole[at + 4:])
                    done = self.run_program(["a b c d"], "--languages", "en", "--language-model", broken)
                    self.assertIn(done.returncode, (0, 1, 2), done.stderr)
        vectors = fasttext.train_unsupervised(f"{self.folder.name}/train.txt", dim=4, bucket=100, epoch=1, verbose=0, thread=THREADS)
        vectors.save_model(f"{self.folder.name}/vectors.bin")
        done = self.run_program(["a"], "--languages", "en", "--language-model", f"{self.folder.name}/vectors.bin")
        self.assertIn("expected a classifier (supervised), found vectors of words", done.stderr)
        path, _ = self.model("softmax")
        done = self.run_program(["a"], "--languages", "xx", "--language-model", path)
        self.assertRegex(done.stderr, r"^error: .*--languages: expected those of .*, found xx\n$")

    def test_the_rule_tells_languages(self):
        for language, text in SENTENCES.items():
            found, report = self.kept([text], "--languages", language)
            self.assertEqual((found, report["languages"]), ([0], {language: 1}))
        found, report = self.kept(["123 !", "", "xyzzy plugh"], "--languages", "en")
        self.assertEqual((found, report["languages"]), ([], {"unknown": 3}))


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
