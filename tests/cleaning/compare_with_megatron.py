#!/usr/bin/env python3
"""clean_dataset against the scripts of Megatron-LM's tools/openwebtext, whose folder is in MEG_OPENWEBTEXT.

compare_with_megatron.py CLEAN_DATASET
"""
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = os.environ.get("MEG_OPENWEBTEXT", "")
if not os.path.exists(os.path.join(SCRIPTS, "filter_ngrams.py")):
    print("skipped: no MEG_OPENWEBTEXT, the folder tools/openwebtext of a Megatron-LM")
    sys.exit(77)

PROGRAM = ""
FILES = ("vocab.json", "merges.txt")
TESTDATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../testdata")


def texts_of(name):
    with open(f"{TESTDATA}/quickstart/{name}.jsonl") as file:
        return [json.loads(line)["text"] for line in file]


class OpenWebText(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, texts):
        with open(f"{self.folder}/{name}", "w") as file:
            for i, text in enumerate(texts):
                file.write(json.dumps({"id": i, "text": text}) + "\n")
        return f"{self.folder}/{name}"

    def clean(self, *flags):
        output = f"{self.folder}/out.jsonl"
        done = subprocess.run([PROGRAM, *map(str, flags), "--output", output, "--json"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(output) as file:
            return [json.loads(line) for line in file], json.loads(done.stdout)

    def test_ngrams_of_test_sets_are_cut_as_there(self):
        random.seed(1)
        tests = texts_of("lambada")[:60] + ["Only seven words are in this one", "a b c d e f g h", "Ten words make one n-gram "
                                            "as a whole 9 10", "é è à ö ü ß ñ ç å", "\u0130stanbul und andere W\u00f6rter "
                                            "stehen hier in einer Zeile f\u00fcr sich", "½ ² Ⅷ x_y _ 4 5 6 7 8 9 10 11 12 13 14"]
        sentences = ". ".join(texts_of("english")).split(". ")
        documents = []
        for _ in range(250):
            parts = random.choices(sentences, k=random.randrange(1, 40))
            for _ in range(random.choice([0, 0, 1, 1, 2, 4, 14])):
                test = random.choice(tests if random.random() < 0.8 else tests[-8:])
                change = random.choice([str, str.upper, lambda text: text.replace(" ", ", "), lambda text: text[9:]])
                parts.insert(random.randrange(len(parts) + 1), change(test))
            documents.append(random.choice([". ", "! ", " \u0130 ", "\n"]).join(parts) + random.choice(["", ".", " ."]))
        documents += ["", "a", "a b c d e f g h", *tests]
        source, task = self.write("in.jsonl", documents), self.write("task.jsonl", tests)
        for threshold in (10, 2, 1000):
            script = f"{self.folder}/script.jsonl"
            subprocess.run([sys.executable, f"{SCRIPTS}/filter_ngrams.py", "--tasks", "lambada", "--lambada-path", task,
                            "--dedup-dataset", source, "text", "--output", script, "--num-threads", "2",
                            "--key-threshold", str(threshold)], check=True, capture_output=True)
            with open(script) as file:
                expected = [(one["id"], one["text"]) for one in map(json.loads, file)]
            kept, report = self.clean("--input", source, "--decontaminate", task, "--key-threshold", threshold)
            self.assertEqual([(one["id"], one["text"]) for one in kept], expected)
            step, = report["steps"]
            print(threshold, len(documents), "documents,", len(expected), "kept,", step["changed"], step["reasons"])
        whole, report = self.clean("--input", source, "--decontaminate", task, "--key-threshold", 1000, "--contaminated",
                                   "drop")
        untouched = [(i, text) for i, text in enumerate(documents) if (i, text) in expected]
        self.assertEqual([(one["id"], one["text"]) for one in whole], untouched)

    def test_documents_are_cleaned_up_as_there(self):
        # Its tokenizer and langdetect are not at hand: all documents are English here.
        with open(f"{self.folder}/tokenizer.py", "w") as file:
            file.write("from tokenizers import ByteLevelBPETokenizer\n"
                       "class Tokenizer:\n"
                       "    def __init__(self, cache_dir):\n"
                       f"        self.encoder = ByteLevelBPETokenizer(*{[f'{TESTDATA}/tokenizer/{n}' for n in FILES]!r})\n"
                       "    def tokenize_document(self, text):\n"
                       "        return self.encoder.encode(text).ids + [0]\n")
        with open(f"{self.folder}/langdetect.py", "w") as file:
            file.write("def detect(text):\n    return 'en'\n")
        random.seed(3)
        words = " ".join(texts_of("english")).split(" ")
        texts = [" ".join(words[at:at + random.randrange(60, 240)]) for at in range(0, 20000, 77)]
        texts = [text.replace("'", "\u2019") if i % 3 else f"\u00e2\u20ac\u0153{text}&amp;\r\n" for i, text in enumerate(texts)]
        source, script, output = self.write("in.jsonl", texts), f"{self.folder}/script.jsonl", f"{self.folder}/shim.jsonl"
        with open(source, "a") as file:
            file.write('{"id": 1}\nno json\n')
        subprocess.run([sys.executable, f"{SCRIPTS}/cleanup_dataset.py", source, script], check=True, capture_output=True,
                       env={**os.environ, "PYTHONPATH": self.folder})
        shim = os.path.join(os.path.dirname(PROGRAM), "../share/libmeg/megatron/tools/openwebtext/cleanup_dataset.py")
        subprocess.run([sys.executable, shim, source, output, "--vocab-file", f"{TESTDATA}/tokenizer/vocab.json", "--merge-file",
                        f"{TESTDATA}/tokenizer/merges.txt"], check=True, capture_output=True)
        with open(script) as expected, open(output) as found:
            expected, found = [json.loads(line) for line in expected], [json.loads(line) for line in found]
        self.assertEqual(found, expected)
        self.assertTrue(0 < len(found) < len(texts))
        print(len(texts), "documents,", len(found), "kept,", sum(one["text"] != texts[one["id"]] for one in found), "repaired")

    def test_ids_are_added_as_there(self):
        documents = [{"text": text} for text in texts_of("english")[:50]] + [
            {"text": "a \" \\ \u0001 \u2028 \U0001f600", "adlr_id": "old", "z": [1, {"adlr_id": 2}]}, {"adlr_id": None, "text": ""}]
        source, script = f"{self.folder}/in.jsonl", f"{self.folder}/script.jsonl"
        with open(source, "w") as file:
            file.write("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in documents))
        for prefix in ("web", "\u00e9 \"q\" \\ \t"):
            subprocess.run([sys.executable, f"{SCRIPTS}/add_id.py", "--input-file", source, "--output-file", script,
                            "--id-prefix", prefix], check=True, capture_output=True)
            for flags in ([], ["--near-duplicates"]):  # None is alike.
                kept, _ = self.clean("--input", source, "--id-prefix", prefix, *flags)
                with open(script, "rb") as expected, open(f"{self.folder}/out.jsonl", "rb") as found:
                    self.assertEqual(found.read(), expected.read())
                self.assertEqual(len(kept), len(documents))

    def test_the_same_urls_stay(self):
        random.seed(2)
        names = ["example", "google", "news.bbc", "youtu", "i.imgur", "www.redd", "a-b", "-a", "a_b", "x" * 64, "xkcd", "", "reddit",
                 "new.reddit-stream", "t", "puu", "\u017fite", "\u00fcber", "1", "10.0.0.1", "1.2.3", "999.1.1.1", "1.2.3.4444"]
        ends = ["com", "co.uk", "org", "be", "it", "sh", "c", "museum", "com.", "io", "com.au", "net"]
        paths = ["", "/", "/a", "/a.jpg", "/a.JPG?x=1", "/x.7z", "/x.7z.ai", "?", "?q", "/a b", ":80", ":80/", ":", ":x", "/f.tar.gz",
                 "/a.py#b", "#b", "//", "/a.html", "/\u00e9", "/page"]
        urls = ["", "a", "http://a", "http://", "12345678", "123456789"]
        for _ in range(4000):
            scheme = random.choice(["http://"] * 6 + ["https://", "HTTP://", "ftp://", "", "http:/"])
            name = random.choice(names)
            dot = random.choice([".", ""]) if name in ("example", "a-b", "1", "t") else "."
            urls.append(scheme + name + dot + random.choice(ends) + random.choice(paths))
        os.mkdir(f"{self.folder}/urls")
        for i in range(2):
            with open(f"{self.folder}/urls/{i}.txt", "w") as file:
                file.write("".join(f" {url}\n" for url in urls[i::2]))
        output = f"{self.folder}/script.txt"
        subprocess.run([sys.executable, f"{SCRIPTS}/blacklist_urls.py", f"{self.folder}/urls", output], check=True,
                       capture_output=True)
        done = subprocess.run([PROGRAM, "--input", f"{self.folder}/urls", "--txt-document", "line", "--url-filters", "domain",
                               "extension", "short", "malformed", "--exact-duplicates", "--output", f"{self.folder}/out.txt"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(output) as expected, open(f"{self.folder}/out.txt") as found:
            found, expected = found.read().split("\n")[:-1], expected.read().split("\n")[:-1]
            found = [url.strip() for url in found]
            self.assertEqual((len(found), set(found) ^ set(expected)), (len(expected), set()))


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
