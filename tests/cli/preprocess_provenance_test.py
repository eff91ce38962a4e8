#!/usr/bin/env python3
"""preprocess_data --provenance, merge_datasets and dataset_inspect --trace: from documents back to their files."""
import gzip
import json
import os
import random
import struct
import subprocess

import preprocess_case
from preprocess_case import PreprocessData, lines_of


class Provenance(PreprocessData):
    def program(self, name):
        return os.path.join(os.path.dirname(preprocess_case.PROGRAM), name)

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("in"))
        self.lines = {}  # path -> its lines
        for number, name in enumerate(("a.jsonl", "b.jsonl.gz", "c.json")):
            texts = [f"text {number} {i} " + "x" * (i * 37 % 90) for i in range(300)]
            content = lines_of(texts).encode()
            if name == "c.json":
                content = b"[" + b",\n".join(content.splitlines()) + b"]"
            self.write(os.path.join("in", name), gzip.compress(content) if name.endswith(".gz") else content)
            self.lines[self.path("in", name)] = content

    def trace(self, document, prefix="out_text_document", *flags):
        return subprocess.run([self.program("dataset_inspect"), self.path(prefix), "--document", str(document), "--trace",
                               "--json", *flags], capture_output=True, text=True, check=False)

    def source(self, document, prefix="out_text_document"):
        return json.loads(self.trace(document, prefix).stdout)["trace"]["source"]

    def assert_sources(self, prefix="out_text_document"):
        for document in (0, 1, 299, 300, 450, 599, 600, 601, 899):
            source = self.source(document, prefix)
            content = self.lines[source["file"]]
            found, _ = json.JSONDecoder().raw_decode(content[source["byte"]:].decode())
            self.assertTrue(found["text"].startswith(f"text {document // 300} {document % 300} "), found)

    def test_each_document_leads_to_its_line(self):
        self.assert_done(self.run_program("--input", self.path("in"), "--provenance"))
        self.assert_sources()
        size = os.path.getsize(self.path("out_text_document.provenance"))
        names = sum(map(len, self.lines))
        self.assertEqual(size, 48 + 16 * 900 + 8 * 3 + names)
        self.assertEqual(self.trace(900).returncode, 1)
        text = subprocess.run([self.program("dataset_inspect"), self.path("out_text_document"), "--document", "0", "--trace"],
                              capture_output=True, text=True, check=True).stdout
        self.assertEqual(text, f"document 0 of {self.path('out_text_document')}: {self.path('in', 'a.jsonl')} byte 0\n")

    def test_skipped_lines_and_workers_change_nothing(self):
        file = self.write("bad.jsonl", '{"text": "a"}\n\n{]\n{"text": "b"}\n')
        for workers in ("1", "4"):
            self.assert_done(self.run_program("--input", file, "--provenance", "--on-error", "skip", "--workers", workers))
            self.assertEqual(self.source(1), {"file": file, "byte": 18})

    def test_shards_and_merges_carry_it(self):
        os.mkdir(self.path("shards"))
        for index in range(3):
            self.assert_done(self.run_program("--input", self.path("in"), "--provenance", "--shard", f"{index}/3",
                                              prefix=self.path("shards", "s")))
        merge = [self.program("merge_datasets"), "--output-prefix", self.path("all")]
        subprocess.run([*merge, "--input", self.path("shards")], check=True, capture_output=True)
        self.assert_sources("all")
        self.assert_done(self.run_program("--input", self.path("in", "a.jsonl"), prefix=self.path("plain")))
        done = subprocess.run([*merge, "--input", self.path("plain_text_document"), self.path("all")], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 1, "an output that is an input")
        merge[2] = self.path("more")
        done = subprocess.run([*merge, "--input", self.path("plain_text_document"), self.path("all")], capture_output=True,
                              text=True, check=True)
        self.assertIn("no provenance", done.stderr)
        self.assertIsNone(self.source(0, "more"))
        self.assertEqual(self.source(300 + 5, "more"), self.source(5, "all"))

    def test_a_step_leads_to_its_lines(self):
        self.assert_done(self.run_program("--input", self.path("in"), "--provenance", "--append-eod"))
        done = subprocess.run([self.program("dataset_inspect"), "--trace", "--step", "1", "--json", "--data-path",
                               self.path("out_text_document"), "--split", "1,0,0", "--seq-length", "32", "--micro-batch-size",
                               "2", "--global-batch-size", "2", "--train-iters", "3", "--data-cache-path", self.path("cache")],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for sample in json.loads(done.stdout)["trace"]["samples"]:
            for part in sample["parts"]:
                self.assertEqual(part["source"], self.source(part["document"]))

    def test_goes_on_after_kills(self):
        file = self.write("big.jsonl", lines_of([f"text {i}" for i in range(200000)]))
        self.assert_done(self.run_program("--input", file, "--provenance", prefix=self.path("expected")))
        flags = ("--input", file, "--provenance", "--resume")
        for wait in (0.1, 0.2, 0.1):
            process = self.start(*flags)
            try:
                process.wait(wait)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.assert_done(self.run_program(*flags))
        self.assert_done(self.run_program(*flags))
        self.assertEqual(self.read("out_text_document.provenance"), self.read("expected_text_document.provenance"))
        self.assertEqual(self.output(), self.output("expected"))
        self.assert_error(self.run_program("--input", file, "--resume"), 2, ".*provenance")

    def test_another_dataset_under_the_name_is_told(self):
        self.assert_done(self.run_program("--input", self.path("in"), "--provenance"))
        older = self.read("out_text_document.provenance")
        self.assert_done(self.run_program("--input", self.path("in"), "--append-eod"))
        self.assertFalse(os.path.exists(self.path("out_text_document.provenance")))
        self.write("out_text_document.provenance", older)
        done = self.trace(0)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "provenance: belongs to a different dataset")

    def test_damage_is_told(self):
        self.assert_done(self.run_program("--input", self.path("in"), "--provenance"))
        whole = self.read("out_text_document.provenance")
        source = random.Random(1)
        table = 48 + 16 * 900
        cases = [whole[:size] for size in (0, 7, 47, 48, 1000, len(whole) - 1)] + [whole + b"x"]
        for at, value in ((0, 1), (8, 2), (16, 1 << 63), (16, 899), (24, 1 << 60), (24, 4), (32, 0), (32, 1 << 62),
                          (40, 7), (table, 1 << 40), (table + 8, 0)):
            cases.append(whole[:at] + struct.pack("<Q", value) + whole[at + 8:])
        cases += [whole[:at] + bytes([whole[at] ^ 1 << source.randrange(8)]) + whole[at + 1:] for at in range(44)]
        for number, content in enumerate(cases):
            self.write("out_text_document.provenance", content)
            done = self.trace(0)
            self.assertEqual(done.returncode, 1, number)
            self.assertRegex(done.stderr, "^error: .*provenance: .*\n$")
        wrong = whole[:48 + 8] + struct.pack("<I", 3) + whole[48 + 12:]
        self.write("out_text_document.provenance", wrong)
        self.assertRegex(self.trace(0).stderr, "document 0: expected one of 3 sources, found 3")

    def test_what_it_does_not_go_with(self):
        file = self.path("in", "a.jsonl")
        for flags in (("--partitions", "2"), ("--megatron-version", "v2.6")):
            self.assert_error(self.run_program("--input", file, "--provenance", *flags), 2, "--provenance: cannot be combined with")
        self.assert_done(self.run_program("--input", file))
        self.assertEqual(self.trace(0).returncode, 2)


if __name__ == "__main__":
    preprocess_case.main()
