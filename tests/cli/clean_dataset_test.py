#!/usr/bin/env python3
"""clean_dataset: what comes in goes out as it was, in order, but for what the flags remove.

clean_dataset_test.py CLEAN_DATASET TESTDATA
"""
import gzip
import importlib.util
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, TESTDATA = "", ""
TOKENIZER = ["--tokenizer-type", "GPT2BPETokenizer"]


def lines_of(documents):
    return "".join(json.dumps(document, ensure_ascii=False) + "\n" for document in documents)


class CleanDataset(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return self.path(name)

    def run_program(self, *flags, output="out.jsonl", **options):
        command = [PROGRAM, *map(str, flags), "--output", self.path(output)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)

    def clean(self, documents, *flags, workers=2):
        """What a run makes of documents, and its report."""
        source = self.write("in.jsonl", documents if isinstance(documents, (str, bytes)) else lines_of(documents))
        done = self.run_program("--input", source, "--workers", workers, "--json", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("out.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file], json.loads(done.stdout)

    def fails_with(self, pattern, *flags, code=2):
        done = self.run_program(*flags, output="none.jsonl")
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertRegex(done.stderr, pattern)
        self.assertEqual(done.stderr.count("error: "), 1)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("none")], [])

    def corpus(self, count=5000, seed=1):
        random.seed(seed)
        words = "the of and Ångström 中文 \U0001f600 \\ \" \n \t tab\u0001 longerword".split(" ")
        return [{"id": i, "meta": {"a": [1, 2.5e3, None]},
                 "text": " ".join(random.choices(words, k=random.randrange(40)))} for i in range(count)]

    def test_lines_are_written_as_they_were_read(self):
        text = '{"id": 7,  "text":"\\u00e9 \\/ x",\t"k": {"a": [1.0, "]}"]}, "z": NaN}\n\n  {"text": ""}\r\n{"text": "b"}'
        source = self.write("in.jsonl", text)
        self.assertEqual(self.run_program("--input", source).returncode, 0)
        with open(self.path("out.jsonl")) as file:
            self.assertEqual(file.read(), '{"id": 7,  "text":"\\u00e9 \\/ x",\t"k": {"a": [1.0, "]}"]}, "z": NaN}\n'
                                          '  {"text": ""}\n{"text": "b"}\n')

    def test_order_and_bytes_do_not_depend_on_workers(self):
        documents = self.corpus()
        expected = [document for document in documents if len(document["text"]) >= 100]
        for workers in (1, 2, 7):
            kept, report = self.clean(documents, "--min-chars", 100, workers=workers)
            self.assertEqual(kept, expected)
        self.assertEqual((report["documents"], report["kept"]), (len(documents), len(expected)))
        step, = report["steps"]
        size = sum(len(document["text"].encode()) for document in documents)
        self.assertEqual(step["documents"], len(documents))
        self.assertEqual(step["removed"], len(documents) - len(expected))
        self.assertEqual((step["bytes"], report["bytes"]), (size, size))
        self.assertEqual(size - step["removed_bytes"], report["kept_bytes"])
        self.assertEqual(report["output_bytes"], os.path.getsize(self.path("out.jsonl")))

    def test_characters_are_code_points(self):
        kept, report = self.clean([{"text": "é中\U0001f600"}, {"text": "ab"}, {"text": "abcd"}],
                                  "--min-chars", 3, "--max-chars", 3)
        self.assertEqual([document["text"] for document in kept], ["é中\U0001f600"])
        self.assertEqual(report["steps"][0]["reasons"], {"max_chars": 1, "min_chars": 1})

    def test_tokens_are_those_of_the_tokenizer(self):
        flags = [*TOKENIZER, "--vocab-file", f"{TESTDATA}/tokenizer/vocab.json", "--merge-file",
                 f"{TESTDATA}/tokenizer/merges.txt"]
        documents = self.corpus(300)
        source = self.write("in.jsonl", lines_of(documents))
        prefix = self.path("tokens")
        subprocess.run([os.path.join(os.path.dirname(PROGRAM), "preprocess_data"), "--input", source,
                        "--output-prefix", prefix, *flags, "--min-tokens", "30"], check=True, capture_output=True)
        listed = subprocess.run([os.path.join(os.path.dirname(PROGRAM), "dataset_inspect"), prefix + "_text_document",
                                 "--json"], check=True, capture_output=True, text=True)
        kept, report = self.clean(documents, *flags, "--min-tokens", 30)
        self.assertEqual(len(kept), json.loads(listed.stdout)["documents"])
        self.assertTrue(0 < len(kept) < len(documents))
        self.fails_with("--tokenizer-type", "--input", source, "--min-tokens", 3)

    def test_keys_must_match_or_be_in_range(self):
        documents = [{"text": "a", "lang": "en", "score": 0.5}, {"text": "b", "lang": "de", "score": 0.9},
                     {"text": "c", "score": 0.9}, {"text": "d", "lang": "en", "score": "0.9"},
                     {"text": "e", "lang": "en", "score": 3}, {"text": "f", "l\u0061ng": "\u0065n", "score": -1e3},
                     {"text": "g", "lang": 5, "score": 0.5}]
        kept, report = self.clean(documents, "--require-match", "lang=^en$", "--require-range", "score=..1")
        self.assertEqual([document["text"] for document in kept], ["a", "f"])
        self.assertEqual(report["steps"][0]["reasons"], {"lang": 3, "score": 2})
        source = self.write("in.jsonl", lines_of(documents))
        for flag, value, message in (("--require-match", "lang", "KEY=REGEX"), ("--require-match", "lang=(", "regular"),
                                     ("--require-range", "a=1", "KEY=MIN..MAX"), ("--require-range", "a=x..", "number")):
            self.fails_with(message, "--input", source, flag, value)

    def test_exact_duplicates_keep_the_first(self):
        documents = self.corpus(3000)
        for i, document in enumerate(documents):
            document["text"] = documents[i % 700]["text"]
        seen, expected = set(), []
        for document in documents:
            if document["text"] not in seen:
                expected.append(document)
            seen.add(document["text"])
        for workers in (1, 5):
            kept, report = self.clean(documents, "--exact-duplicates", workers=workers)
            self.assertEqual(kept, expected)
        self.assertEqual(report["steps"][0]["removed"], len(documents) - len(expected))

    def test_duplicates_are_found_in_bounded_memory(self):
        documents = [{"text": f"{i * 7919 % 20011} of many"} for i in range(60000)]
        expected = documents[:20011]
        source = self.write("in.jsonl", lines_of(documents))
        for name in ("out.jsonl", "out.jsonl.gz"):  # 6144 texts fit into memory.
            done = self.run_program("--input", source, "--exact-duplicates", "--memory", "1MiB", "--json", output=name)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["steps"][0]["removed"], 60000 - 20011)
            with (open if name == "out.jsonl" else gzip.open)(self.path(name), "rt") as file:
                self.assertEqual([json.loads(line) for line in file], expected)
        for most in (9999, 6145, 6144, 6143):
            kept, _ = self.clean(documents, "--exact-duplicates", "--memory", "1MiB", "--max-documents", most)
            self.assertEqual(kept, expected[:most])
        self.assertEqual(sorted(os.listdir(self.folder)), ["in.jsonl", "out.jsonl", "out.jsonl.gz"])
        self.fails_with("--memory: expected|memory", "--input", source, "--memory", "1KiB")

    def without_repeated(self, documents, separator):
        """What stays of documents without repeated lines or paragraphs, and the counts of the step."""
        seen, kept, changed, removed = set(), [], 0, 0
        for document in documents:
            parts = ["", *re.split(f"({separator})", document["text"])]  # each piece after what is before it
            stays = []
            for gap, piece in zip(parts[::2], parts[1::2]):
                if piece.strip() == "" or piece not in seen:
                    stays.append((gap if stays else "", piece))
                seen.add(piece)
            removed += len(parts) // 2 - len(stays)
            if len(stays) < len(parts) // 2:
                if not any(piece.strip() for _, piece in stays):
                    continue
                changed += 1
                document = {**document, "text": "".join(gap + piece for gap, piece in stays)}
            kept.append(document)
        return kept, {"removed": len(documents) - len(kept), "changed": changed, "removed_pieces": removed}

    def test_repeated_lines_and_paragraphs_go(self):
        random.seed(3)
        pieces = ["", "  ", "one\r", "\u00e9 \"quoted\" \\", "\U0001f600", *(f"line {i}" for i in range(15000))]
        documents = [{"id": i, "text": "".join(random.choice(pieces) + random.choice(["\n", "\n\n", "\n\n\n"])
                                               for _ in range(random.randrange(6))) + random.choice(pieces)}
                     for i in range(8000)]
        documents += [{"id": "again", "text": documents[4000]["text"]}, {"id": "blank", "text": "\n \n\n"}]
        source = self.write("in.jsonl", "".join(json.dumps(one, ensure_ascii=one["id"] != 7) + "\n" for one in documents))
        for unit, separator in (("lines", "\n"), ("paragraphs", "\n{2,}")):
            expected, counts = self.without_repeated(documents, separator)
            self.assertTrue(all(count > 100 for count in counts.values()), counts)
            flags = ["--exact-duplicates", "--duplicates-of", unit]
            shuffled = {}
            for memory in ("1GiB", "1MiB"):  # 6144 pieces fit into the latter.
                for workers in (1, 5):
                    kept, report = self.clean(documents, *flags, "--memory", memory, workers=workers)
                    self.assertEqual(kept, expected)
                    step, = report["steps"]
                    self.assertEqual({name: step[name] for name in counts}, counts)
                    size = sum(len(document["text"].encode()) for document in expected)
                    self.assertEqual((report["kept_bytes"], step["bytes"] - step["removed_bytes"]), (size, size))
                most, _ = self.clean(documents, *flags, "--memory", memory, "--max-documents", 900)
                self.assertEqual(most, expected[:900])
                shuffled[memory], report = self.clean(documents, *flags, "--memory", memory, "--shuffle")
                self.assertEqual({name: report["steps"][0][name] for name in counts}, counts)
            self.assertEqual(shuffled["1GiB"], shuffled["1MiB"])
            self.assertNotEqual(shuffled["1MiB"], expected)
            self.assertEqual(sorted(shuffled["1MiB"], key=lambda one: str(one["id"])),
                             sorted(expected, key=lambda one: str(one["id"])))
            self.assertEqual(sorted(os.listdir(self.folder)), ["in.jsonl", "out.jsonl"])
        self.write("lines.txt", "b\na\nb\na\n")
        self.assertEqual(self.run_program("--input", self.path("lines.txt"), "--txt-document", "line", *flags,
                                          output="out.txt").returncode, 0)
        with open(self.path("out.txt")) as file:
            self.assertEqual(file.read(), "b\na\n")
        for more in (["--near-duplicates"], ["--duplicates-by", "id"]):
            self.fails_with("duplicates.of.*: paragraphs and lines require", "--input", source, *flags, *more)
        self.fails_with("duplicates.of.*: paragraphs and lines require", "--input", source, "--duplicates-of", "lines")

    def test_ids_count_what_is_written(self):
        documents = [{"text": f"{i % 9000} of them"} for i in range(20000)]
        for memory in ("1GiB", "1MiB"):
            kept, _ = self.clean(documents, "--exact-duplicates", "--memory", memory, "--id-prefix", "a", workers=5)
            self.assertEqual(kept, [{**document, "adlr_id": f"a-{i:010}"} for i, document in enumerate(documents[:9000], 1)])
        kept, _ = self.clean(documents, "--exact-duplicates", "--shuffle", "--id-prefix", "a")
        self.assertEqual([one["adlr_id"] for one in kept], [f"a-{i:010}" for i in range(1, 9001)])
        self.assertNotEqual(kept[0]["text"], documents[0]["text"])
        source = self.write("in.jsonl", lines_of(documents))
        done = self.run_program("--input", source, "--id-prefix", "a", output="none.txt.gz")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "expected JSON lines as output, found")
        self.fails_with("id.prefix", "--input", source, "--id-prefix", "a", "--minhash-stage", "filter", "--minhash-folder",
                        self.folder)

    def test_one_of_near_duplicates_stays(self):
        words = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(200)]
        documents = [{"text": " ".join(words)}, {"text": "short"}, {"text": " ".join(words + ["more", "of", "it"])},
                     {"text": " ".join(words[:150] + ["other"] + words[151:])}, {"text": "short"}]
        for keep, stays in (("root", 0), ("first", 0), ("longest", 2)):
            kept, report = self.clean(documents, "--near-duplicates", "--keep-duplicate", keep)
            self.assertEqual(kept, [document for i, document in enumerate(documents) if i in (stays, 1, 4)])
        self.assertEqual(report["clusters"], 1)
        cluster, = report["largest_clusters"]
        self.assertEqual((cluster["documents"], cluster["kept"], cluster["removed"]),
                         (3, *(json.dumps(documents[i])[:300] for i in (2, 0))))

    def test_one_bucket_with_all_documents_is_not_quadratic(self):
        equal = [{"text": "a " * 200_000}] + [{"text": "one bucket has all of them"}] * 50_000
        # All of these have the 5-grams with the least hashes in common, and are different nevertheless.
        common = " ".join(f"common{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(500))
        different = [{"text": common + " " + " ".join(f"own{chr(97 + i % 26)}{chr(97 + i // 26 % 26)}{chr(97 + i // 676)}{j % 9}x"
                                                      for j in range(2))} for i in range(4000)]
        for documents, most in ((equal, 1), (different, 16)):
            for flags, each in (([], 1), (["--verify-jaccard", "0.5"], 1), (["--verify-jaccard", "0.999"], most)):
                kept, report = self.clean(documents, "--near-duplicates", *flags)
                self.assertLess(report["candidate_pairs"], 14 * each * len(documents))
                self.assertGreater(report["candidate_pairs"], 14 * each * len(documents) * 0.8)
                if each == 1:
                    self.assertEqual([one["documents"] for one in report["largest_clusters"]],
                                     [50_000 if documents is equal else 4000])
                else:
                    self.assertEqual(len(kept), len(documents))

    def test_signatures_do_not_depend_on_the_processor(self):
        documents = self.corpus(2000)
        random.seed(1)
        for document in documents[1000:]:
            words = documents[random.randrange(1000)]["text"].split()
            document["text"] = " ".join(words[1:] + ["x"])
        outputs = set()
        for instructions in ("portable", "avx2", "avx512"):
            source = self.write("in.jsonl", lines_of(documents))
            done = self.run_program("--input", source, "--near-duplicates",
                                    env={**os.environ, "MEG_INSTRUCTION_SET": instructions})
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(self.path("out.jsonl")) as file:
                outputs.add(file.read())
        self.assertEqual(len(outputs), 1)

    def test_ngrams_of_test_sets_are_cut_or_dropped(self):
        random.seed(3)
        words = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(300)]
        test = "This is the Last sentence, of a TEST set; nobody should train on."
        around = [". ".join(" ".join(random.choices(words, k=8)) for _ in range(30)) for _ in range(2)]
        documents = [{"id": 0, "text": around[0]}, {"id": 1, "text": f"{around[0]}. {test.lower()} {around[1]}", "k": [1]},
                     {"id": 2, "text": test}]
        tests = self.write("tests.jsonl", lines_of([{"question": test}, {"question": "too short"}]))
        flags = ["--decontaminate", tests, "--decontaminate-key", "question"]
        kept, report = self.clean(documents, *flags)
        self.assertEqual([(one["id"], one.get("k")) for one in kept], [(0, None), (1, [1]), (1, [1])])
        self.assertTrue(documents[1]["text"].startswith(kept[1]["text"]) and documents[1]["text"].endswith(kept[2]["text"]))
        step, = report["steps"]
        self.assertEqual((step["documents"], step["changed"], step["removed"]), (3, 1, 1))
        self.assertEqual(step["bytes"] - step["removed_bytes"], report["kept_bytes"])
        kept, _ = self.clean(documents, *flags, "--contaminated", "drop")
        self.assertEqual(kept, documents[:1])
        # What ten documents have is taken for a common phrase.
        kept, _ = self.clean(documents + documents[2:] * 9, *flags)
        self.assertEqual(len(kept), 12)
        kept, _ = self.clean(documents + documents[2:] * 9, *flags, "--key-threshold", 0)
        self.assertEqual(len(kept), 3)
        self.fails_with("expected files, which are read twice", "--input", "-", *flags, code=1)
        self.fails_with("expected texts of at least 8 words", "--input", tests, "--json-keys", "question", "--decontaminate",
                        self.write("few.jsonl", '{"text": "a b"}\n'))

    def dataset_files(self, prefix):
        """The files of a dataset, by their endings."""
        found = {}
        for name in os.listdir(self.folder):
            if name.startswith(prefix + "_text_document."):
                with open(self.path(name), "rb") as file:
                    found[name[len(prefix):]] = file.read()
        return found

    def test_datasets_are_those_of_preprocess_data(self):
        tokenizer = [*TOKENIZER, "--vocab-file", f"{TESTDATA}/tokenizer/vocab.json", "--merge-file",
                     f"{TESTDATA}/tokenizer/merges.txt"]
        documents = self.corpus(3000) + [{"text": ""}]
        random.seed(2)
        for document in documents[1000:3000]:
            document["text"] = documents[random.randrange(1000)]["text"] + random.choice(["", "\nx"])
        source = self.write("in.jsonl", lines_of(documents))
        preprocess = os.path.join(os.path.dirname(PROGRAM), "preprocess_data")
        for steps in ([], ["--exact-duplicates"], ["--exact-duplicates", "--near-duplicates", "--shuffle"],
                      ["--exact-duplicates", "--duplicates-of", "lines", "--memory", "1MiB", "--max-documents", 700],
                      ["--repair", "remove_control_chars", "--sample", 0.5]):
            for flags in (["--append-eod"], ["--dtype", "int32"], ["--dataset-impl", "lazy"]):
                done = self.run_program("--input", source, *steps)
                self.assertEqual(done.returncode, 0, done.stderr)
                subprocess.run([preprocess, "--input", self.path("out.jsonl"), "--output-prefix", self.path("expected"), *tokenizer,
                                *flags], check=True, capture_output=True)
                command = [PROGRAM, "--input", source, "--output-prefix", self.path("found"), *steps, *tokenizer, *flags, "--workers",
                           random.choice([1, 3])]
                done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stdout, r"wrote .*found_text_document.\{bin,idx\}")
                self.assertEqual(self.dataset_files("found"), self.dataset_files("expected"))
                self.assertEqual(len(self.dataset_files("found")), 3)
        done = subprocess.run([PROGRAM, "--input", source, "--output-prefix", self.path("{split}"), "--split", "a=0.5", "b=0.5",
                               *tokenizer], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(self.dataset_files("a") and self.dataset_files("b"))
        for flags, message in ((["--input", source, "--id-prefix", "a"], "id-prefix: expected JSON lines"),
                               (["--input", source, "--output", self.path("none")], "expected one"),
                               (["--provenance", "--minhash-stage", "filter", "--minhash-folder", self.folder], "provenance")):
            done = subprocess.run([PROGRAM, "--output-prefix", self.path("none"), *tokenizer, *flags], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, message)
        for flag in ("--provenance", "--append-eod"):
            self.fails_with("requires --output-prefix", "--input", source, flag)

    def test_provenance_says_where_documents_were_read(self):
        tokenizer = [*TOKENIZER, "--vocab-file", f"{TESTDATA}/tokenizer/vocab.json", "--merge-file",
                     f"{TESTDATA}/tokenizer/merges.txt"]
        sources = [self.write(f"{i}.jsonl", lines_of(self.corpus(400, seed=i))) for i in range(3)]
        flags = ["--append-eod", "--provenance", "--workers", "2", *tokenizer]
        preprocess = os.path.join(os.path.dirname(PROGRAM), "preprocess_data")
        subprocess.run([preprocess, "--input", *sources, "--output-prefix", self.path("expected"), *flags], check=True,
                       capture_output=True)
        command = [PROGRAM, "--input", *sources, "--output-prefix", self.path("found"), *flags]
        subprocess.run(command, check=True, capture_output=True)
        self.assertEqual(self.dataset_files("found"), self.dataset_files("expected"))
        for steps in (["--exact-duplicates"], ["--shuffle"], ["--exact-duplicates", "--near-duplicates", "--memory", "1MiB"]):
            subprocess.run([*command, *steps], check=True, capture_output=True)
            with open(self.path("found_text_document.provenance"), "rb") as file:
                places = file.read()[48:]
            lines = self.run_program("--input", *sources, *steps)
            self.assertEqual(lines.returncode, 0, lines.stderr)
            with open(self.path("out.jsonl"), "rb") as file:
                for number, line in enumerate(file):
                    at, source, _ = struct.unpack_from("<QII", places, 16 * number)
                    with open(sources[source], "rb") as read:
                        read.seek(at)
                        self.assertEqual(read.readline(), line)

    def test_urls_are_filtered_and_listed(self):
        urls = ["http://a.com/x", "http://www.google.co.uk/", "http://a.com/x", "http://a.com/b.JPG?q", "x.y", "http://nodot/page",
                "http://b.org/private/1", " http://c.de "]
        os.mkdir(self.path("urls"))
        for name, part in (("1.txt", urls[:5]), ("2.txt", urls[5:])):
            self.write(f"urls/{name}", "\n".join(part) + "\n")
        patterns = self.write("patterns", "# what is not public\n/private/\n\n")
        flags = ["--txt-document", "line", "--url-filters", "malformed", "short", "extension", "domain", "--url-patterns", patterns,
                 "--exact-duplicates"]
        for inputs in ([self.path("urls")], [self.path("urls/1.txt"), self.path("urls/2.txt")]):
            done = self.run_program("--input", *inputs, *flags, "--json", output="out.txt")
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(self.path("out.txt")) as file:
                self.assertEqual(file.read(), "http://a.com/x\n http://c.de \n")
            self.assertEqual(json.loads(done.stdout)["steps"][0]["reasons"],
                             {"domain": 1, "extension": 1, "short": 1, "malformed": 1, "pattern": 1})
        # Documents with a URL, and a blacklist of one's own.
        documents = [{"text": "a", "url": "https://sub.mine.net/"}, {"text": "b", "url": "http://google.com/"}, {"text": "c"},
                     {"text": "d", "url": "http://google.com/"}, {"text": "e", "url": "http://x.org/y.xyz"}]
        blacklist = self.write("blacklist", "domain mine\nextension .xyz\n")
        kept, report = self.clean(documents, "--url-key", "url", "--url-filters", "domain", "extension", "--url-blacklist",
                                  blacklist, "--exact-duplicates", "--duplicates-by", "url")
        self.assertEqual(kept, documents[1:2])
        self.assertEqual(report["steps"][0]["reasons"], {"domain": 1, "extension": 1, "no_url": 1})
        kept, _ = self.clean(documents, "--exact-duplicates", "--duplicates-by", "url")
        self.assertEqual(kept, documents[:3] + documents[4:])  # What has no such key is no duplicate.
        source = self.write("in.jsonl", lines_of(documents))
        done = self.run_program("--input", source, "--exact-duplicates", "--duplicates-by", "url")
        self.assertIn("warning: --duplicates-by: 1 of 5 documents have no key url, and stay\n", done.stderr)
        self.fails_with("expected regular expressions, found none", "--input", source, "--url-key", "url", "--url-filters",
                        "short", "--url-patterns", self.write("patterns", "# none\n\n"))
        self.fails_with("require --url-filters", "--input", source, "--url-key", "url")
        self.fails_with("requires --exact-duplicates", "--input", source, "--duplicates-by", "url")
        self.fails_with("line 1: expected `domain NAME`", "--input", source, "--url-filters", "domain", "--url-blacklist", source)
        done = self.run_program("--input", self.write("in.jsonl", '{"text": "a\\nb"}\n'), output="two.txt")
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected texts of one line", done.stderr)

    def test_samples_and_splits_do_not_change_when_documents_are_added(self):
        documents = self.corpus(4000)
        for document in documents:
            document["text"] += str(document["id"])
        sample, _ = self.clean(documents[::2], "--sample", 0.25)
        more, _ = self.clean(documents, "--sample", 0.25)
        self.assertEqual([one for one in more if one["id"] % 2 == 0], sample)
        self.assertTrue(0.2 < len(more) / 4000 < 0.3)
        other, _ = self.clean(documents, "--sample", 0.25, "--seed", 5)
        self.assertNotEqual(other, more)
        source = self.write("in.jsonl", lines_of(documents))
        for flags, name in (([], "a_{split}.jsonl"), (["--near-duplicates"], "b_{split}.jsonl.gz")):
            done = self.run_program("--input", source, "--split", "train=0.9", "valid=0.09", "test=0.01", "--json", *flags,
                                    output=name)
            self.assertEqual(done.returncode, 0, done.stderr)
            counts = [output["documents"] for output in json.loads(done.stdout)["outputs"]]
            found = []
            for split, count in zip(("train", "valid", "test"), counts):
                path = self.path(name.replace("{split}", split))
                with (gzip.open if path.endswith("gz") else open)(path, "rt") as file:
                    part = [json.loads(line)["id"] for line in file]
                self.assertEqual((len(part), part), (count, sorted(part)))
                found += part
            self.assertEqual(len(found), len(set(found)))
            if not flags:
                self.assertEqual(sorted(found), [document["id"] for document in documents])
            self.assertTrue(counts[0] > 9 * counts[2] > 0 and counts[1] > counts[2])
        # Documents with the same value at a key stay together.
        kept, _ = self.clean([{"text": str(i), "site": i % 100} for i in range(1000)], "--sample", 0.5, "--hash-key", "site")
        self.assertEqual(len(kept), 10 * len({one["site"] for one in kept}))
        for flags, message in ((["--verify-jaccard", 0], "--verify-jaccard: expected more than 0, up to 1, found 0"),
                               (["--keep-duplicate", "highest"], "highest and lowest require --keep-key"),
                               (["--keep-key", "k"], "--keep-key: requires --keep-duplicate highest or lowest")):
            self.fails_with(message, "--input", source, "--near-duplicates", *flags)
        self.fails_with("require --near-duplicates", "--input", source, "--keep-duplicate", "first")
        for flags, message in ((["--sample", 0], "sample"), (["--split", "a=1"], "{split}"), (["--split", "a"], "NAME=SHARE")):
            self.fails_with(message, "--input", source, *flags)
        done = self.run_program("--input", source, "--split", "a=0.5", "b=0.4", output="c_{split}.jsonl")
        self.assertEqual((done.returncode, done.stderr), (2, "error: --split: expected shares that make 1, found 0.9\n"))

    def test_shuffling_does_not_depend_on_workers_or_memory(self):
        documents = [{"id": i, "text": f"{i} " + "x" * (i % 3000)} for i in range(5000)]
        orders = [self.clean(documents, "--shuffle", *flags)[0] for flags in (
            [], ["--workers", 7], ["--memory", "1MiB"], ["--seed", 9], ["--max-documents", 100])]
        self.assertEqual(sorted(one["id"] for one in orders[0]), list(range(5000)))
        self.assertEqual(orders[1:3], orders[:1] * 2)
        self.assertNotIn(orders[0], (documents, orders[3]))
        self.assertEqual(orders[4], orders[0][:100])

    @unittest.skipUnless(importlib.util.find_spec("xxhash"), "xxhash is not installed")
    def test_the_stated_rules_give_the_same_order_and_sample(self):
        import xxhash
        documents = [{"id": i, "text": f"{i} é"} for i in range(3000)]
        kept, _ = self.clean(documents, "--shuffle", "--seed", 77)
        order = sorted(range(3000), key=lambda i: (xxhash.xxh3_64_intdigest(struct.pack("<Q", i), seed=77), i))
        self.assertEqual([one["id"] for one in kept], order)
        kept, _ = self.clean(documents, "--sample", 0.3, "--seed", 77)
        hashes = [xxhash.xxh3_128_intdigest(one["text"].encode(), seed=77) for one in documents]
        self.assertEqual([one["id"] for one in kept],
                         [i for i, one in enumerate(hashes) if (one & (1 << 64) - 1) / 2**64 < 0.3])
        source = self.write("in.jsonl", lines_of(documents))
        done = self.run_program("--input", source, "--split", "a=0.3", "b=0.7", "--seed", 77, output="{split}.jsonl")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("a.jsonl")) as file:
            self.assertEqual([json.loads(line)["id"] for line in file],
                             [i for i, one in enumerate(hashes) if (one >> 64) / 2**64 < 0.3])
        # By the value at a key: a string as it is meant, anything else as it is written, nothing where it is missing.
        values = ['"\\u00e9 \\" /\\/"', '"plain"', "12.50", "-3e2", "true", "null", '[1,  "a"]', '{"b": {}}', None]
        meant = ["\u00e9 \" //", "plain", *values[2:-1], ""]
        lines = [f'{{"id": {i}, "text": "x"' + ("" if value is None else f', "site": {value}') + "}" for i, value in enumerate(values)]
        source = self.write("in.jsonl", "\n".join(lines) + "\n")
        for seed in range(40):
            hashes = [xxhash.xxh3_128_intdigest(one.encode(), seed=seed) for one in meant]
            flags = ["--input", source, "--seed", seed, "--hash-key", "site"]
            done = self.run_program(*flags, "--sample", 0.4)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(self.path("out.jsonl")) as file:
                self.assertEqual([json.loads(line)["id"] for line in file],
                                 [i for i, one in enumerate(hashes) if (one & (1 << 64) - 1) / 2**64 < 0.4])
            done = self.run_program(*flags, "--split", "a=0.2", "b=0.5", "c=0.3", output="{split}.jsonl")
            self.assertEqual(done.returncode, 0, done.stderr)
            for name, begin, end in (("a", 0, 0.2), ("b", 0.2, 0.7), ("c", 0.7, 1)):
                with open(self.path(f"{name}.jsonl")) as file:
                    self.assertEqual([json.loads(line)["id"] for line in file],
                                     [i for i, one in enumerate(hashes) if begin <= (one >> 64) / 2**64 < end])

    def test_a_report_shows_what_each_step_removed(self):
        documents = [{"text": "<b>short & \"sweet\"</b> \u00e9"}] * 2 + self.corpus(300) + [{"text": "same " * 99}] * 7
        _, report = self.clean(documents, "--min-chars", 30, "--exact-duplicates", "--near-duplicates", "--report",
                               self.path("report.html"))
        with open(self.path("report.html"), encoding="utf-8") as file:
            page = file.read()
        self.assertIn("<pre>min_chars: &lt;b&gt;short &amp; &quot;sweet&quot;&lt;/b&gt; \u00e9</pre>", page)
        self.assertNotIn("<b>short", page)
        for step in report["steps"]:
            self.assertIn(f"<tr><th>{step['name']}<td class=n>{step['documents']}<td class=n>{step['removed']}<td", page)
        self.assertGreater(page.count("<svg"), 5)
        self.assertNotIn("http", page)  # It is complete in itself.
        source = self.write("in.jsonl", lines_of(documents))
        self.fails_with("is a directory|Is a directory", "--input", source, "--report", self.folder, code=1)

    def test_stages_on_shards_give_the_same_survivors(self):
        documents = self.corpus(3000)
        random.seed(4)
        for document in documents[1000:]:
            words = documents[random.randrange(document["id"])]["text"].split(" ")
            words[random.randrange(len(words))] = "changed"
            document["text"] = " ".join(words)
            document["score"] = random.randrange(9)
        for keep, least in (("root", None), ("lowest", "0.8"), ("longest", None)):
            key = ["--keep-key", "score"] if keep == "lowest" else []
            verify = ["--verify-jaccard", least] if least else []
            expected, report = self.clean(documents, "--min-chars", 40, "--near-duplicates", "--keep-duplicate", keep, *key, *verify)
            source = self.path("in.jsonl")
            for shards in (1, 3, 7):
                folder = ["--near-duplicates", "--minhash-folder", self.path(f"{keep}{shards}"), "--minhash-stage"]

                def stage(*flags):
                    done = subprocess.run([PROGRAM, *folder, *flags], capture_output=True, text=True)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    return done

                for shard in random.sample(range(shards), shards):
                    stage("signatures", "--input", source, "--shard", f"{shard}/{shards}", "--min-chars", "40", *verify, *key)
                # The buckets are divided by another number.
                joined, divided = 0, {1: 1, 3: 5, 7: 20}[shards]
                for shard in random.sample(range(divided), divided):
                    done = stage("buckets", "--shard", f"{shard}/{divided}", "--memory", "1MiB", "--json", *verify)
                    self.assertEqual("warning: shard" in done.stderr, shard >= 14)
                    joined += json.loads(done.stdout)["joined_pairs"]
                done = json.loads(stage("clusters", "--keep-duplicate", keep, *key, "--json").stdout)
                self.assertEqual(joined, report["joined_pairs"])
                for name in ("clusters", "candidate_pairs", "joined_pairs"):
                    self.assertEqual(done[name], report[name])
                self.assertEqual([one["documents"] for one in done["largest_clusters"]],
                                 [one["documents"] for one in report["largest_clusters"]])
                found = []
                for shard in range(shards):
                    stage("filter", "--shard", f"{shard}/{shards}", "--output", self.path("part.jsonl"))
                    with open(self.path("part.jsonl")) as file:
                        found += [json.loads(line) for line in file]
                self.assertEqual(found, expected)

        def fails(message, *flags, code=2):
            done = subprocess.run([PROGRAM, *folder, *flags], capture_output=True, text=True)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(message, done.stderr)

        fails("expected --input and other steps with signatures", "clusters", "--min-chars", "3")
        fails("expected --input and other steps with signatures", "filter", "--input", source, "--output", self.path("x.jsonl"))
        fails("have no --output", "signatures", "--input", source, "--output", self.path("x.jsonl"))
        fails("needs all documents", "signatures", "--input", source, "--exact-duplicates")
        fails("expected --keep-duplicate with clusters", "signatures", "--input", source, "--keep-duplicate", "first")
        fails("expected --verify-jaccard with signatures and buckets", "clusters", "--verify-jaccard", "0.8")
        fails("--verify-jaccard: expected it with signatures, too", "buckets", "--verify-jaccard", "0.8")
        fails("--keep-key: expected the same key with signatures", "clusters", "--keep-duplicate", "highest", "--keep-key", "score")
        with open(self.path("longest7/bucket03.pairs"), "r+b") as file:
            pairs = file.read()
            file.seek(0)
            file.write(pairs[:-4] + b"\xff\xff\xff\x7f")
            file.flush()
            fails("bucket03.pairs: document 2147483647: expected 0 to", "clusters", code=1)
            file.truncate(len(pairs) - 1)
            fails("bucket03.pairs: expected a file of pairs", "clusters", code=1)
        os.remove(self.path("longest7/bucket03.pairs"))
        fails("bucket03.pairs: No such file", "clusters", code=1)
        with open(self.path("longest7/shard00002of00007.signatures"), "r+b") as file:
            file.truncate(1000)
        fails("shard00002of00007.signatures: expected a file of signatures", "clusters", code=1)
        os.remove(self.path("longest7/shard00002of00007.signatures"))
        fails("expected signatures of 7 shards, found none of shard00002of00007", "clusters", code=1)
        with open(self.path("longest7/shard00001of00007.documents"), "r+b") as file:
            file.truncate(1000)
        fails("ends in a document", "filter", "--shard", "1/7", "--output", self.path("x.jsonl"), code=1)
        with open(self.path("longest7/shard00003of00007.documents"), "ab") as file:
            file.write(b"more")
        fails("found more", "filter", "--shard", "3/7", "--output", self.path("x.jsonl"), code=1)
        # New signatures are not filtered by what was found of old ones, nor are their pairs those of old ones.
        for shard in ("1/7", "2/7", "4/7"):
            subprocess.run([PROGRAM, *folder, "signatures", "--input", source, "--shard", shard], check=True, capture_output=True)
        fails("bucket00.pairs: expected pairs of the signatures that are here", "clusters", code=1)
        fails("shard00004of00007.removed: No such file", "filter", "--shard", "4/7", "--output", self.path("x.jsonl"), code=1)
        fails("No such file", "filter", "--shard", "1/8", "--output", self.path("x.jsonl"), code=1)

    def test_nothing_half_written_remains(self):
        source = self.write("in.jsonl", lines_of(self.corpus(4000)))
        flags = ["--input", source, "--input-format", "json", "--near-duplicates", "--exact-duplicates", "--shuffle", "--memory", "1MiB"]
        self.assertEqual(self.run_program(*flags).returncode, 0)
        with open(self.path("out.jsonl")) as file:
            expected = file.read()
        os.mkfifo(self.path("pipe"))
        command = [PROGRAM, *flags, "--output", self.path("killed.jsonl")]
        command[2] = self.path("pipe")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGKILL):
            process = subprocess.Popen(command, stderr=subprocess.PIPE)
            pipe = os.open(self.path("pipe"), os.O_WRONLY)
            # Until documents are held, and then some.
            deadline = time.monotonic() + 60
            while not any(".held." in name for name in os.listdir(self.folder)) and time.monotonic() < deadline:
                os.write(pipe, b'{"text": "more of it"}\n' * 10000)
            process.send_signal(number)
            process.communicate(timeout=60)
            os.close(pipe)
            self.assertEqual(process.returncode, -number)
            left = [name for name in os.listdir(self.folder) if name.startswith("killed")]
            self.assertEqual(left != [], number == signal.SIGKILL, left)
        # The next run for this output takes them away.
        done = self.run_program(*flags, output="killed.jsonl")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("killed")], ["killed.jsonl"])
        with open(self.path("killed.jsonl")) as file:
            self.assertEqual(file.read(), expected)

    def test_a_full_disk_is_an_error(self):
        source = self.write("in.jsonl", lines_of(self.corpus(4000)))
        for flags in ([], ["--near-duplicates"]):
            command = f"ulimit -f 100; exec {PROGRAM} --input {source} --output {self.path('none.jsonl')} {' '.join(flags)}"
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, "^error: .*none.jsonl.*: File too large\n$")
            self.assertEqual(os.listdir(self.folder), ["in.jsonl"])

    def test_max_documents_counts_what_is_written(self):
        documents = self.corpus(20000)
        expected = [document for document in documents if len(document["text"]) >= 100][:777]
        for workers in (1, 4):
            kept, _ = self.clean(documents, "--min-chars", 100, "--max-documents", 777, workers=workers)
            self.assertEqual(kept, expected)
        # A bad line after them is none, one before them is.
        lines = lines_of(documents[:50])
        kept, _ = self.clean(lines + "no json\n", "--max-documents", 50)
        self.assertEqual(len(kept), 50)
        source = self.write("in.jsonl", lines + "no json\n")
        self.fails_with("line 51, byte 1", "--input", source, "--max-documents", 51, code=1)

    def test_compressed_outputs_and_other_inputs(self):
        documents = self.corpus(3000)
        source = self.write("in.jsonl", lines_of(documents))
        for name in ("out.jsonl.gz", "out.jsonl.zst"):
            done = self.run_program("--input", source, output=name)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.run_program("--input", self.path(name)).returncode, 0)
            with open(self.path("out.jsonl")) as file:
                self.assertEqual(file.read(), lines_of(documents))
        with gzip.open(self.path("out.jsonl.gz"), "rt", encoding="utf-8") as file:
            self.assertEqual(file.read(), lines_of(documents))
        table = self.write("in.csv", 'text,url\n"a ""b""\nc",http://x\nd,http://y\n')
        done = self.run_program("--input", table, "--json-keys", "text", "url")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("out.jsonl")) as file:
            self.assertEqual([json.loads(line) for line in file],
                             [{"text": 'a "b"\nc', "url": "http://x"}, {"text": "d", "url": "http://y"}])
        array = self.write("in.json", json.dumps(documents[:9], indent=1))
        self.assertEqual(self.run_program("--input", array).returncode, 0)
        with open(self.path("out.jsonl")) as file:
            self.assertEqual([json.loads(line) for line in file], documents[:9])

    def test_bad_lines_are_those_of_preprocess_data(self):
        good = '{"text": "a"}\n'
        for line, place in (("x\n", "line 2, byte 1: "), ('{"t": "a"}\n', "line 2, byte 1: .*text"),
                            ('{"text": 5}\n', 'line 2, byte 10: key "text": expected a string'),
                            (b'{"text": "\xff"}\n', "line 2, byte 11: "),
                            ('{"text": ["a"]}\n', "line 2, byte 1: expected a string, found a list")):
            source = self.write("in.jsonl", good.encode() + (line if isinstance(line, bytes) else line.encode())
                                + good.encode())
            self.fails_with(place, "--input", source, code=1)
            done = self.run_program("--input", source, "--on-error", "skip")
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(self.path("out.jsonl")) as file:
                self.assertEqual(file.read(), good * 2)

    def test_an_empty_result_says_why(self):
        done = self.run_program("--input", self.write("in.jsonl", '{"text": "a"}\n'), "--min-chars", 5)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"^warning: no documents: .*out.jsonl is empty \(1 removed by chars\)\n$")
        self.assertEqual(os.path.getsize(self.path("out.jsonl")), 0)

    def test_wrong_command_lines(self):
        source = self.write("in.jsonl", '{"text": "a"}\n')
        self.fails_with("min_chars|--min-chars", "--input", source, "--min-chars", 9, "--max-chars", 3)
        self.fails_with("--append-eod", "--input", source, "--append-eod")
        done = self.run_program("--input", source, output="in.jsonl")
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected inputs without the files to be written", done.stderr)
        self.assertTrue(os.path.getsize(source) > 0)
        packed = self.write("in.gz", gzip.compress(b'{"text": "a"}\n' * 999)[:-20])
        self.fails_with("ends in the middle", "--input", packed, code=1)


if __name__ == "__main__":
    PROGRAM, TESTDATA = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
