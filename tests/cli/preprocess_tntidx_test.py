#!/usr/bin/env python3
"""preprocess_data --dataset-impl lazy and cached: TNTIDX with what --dataset-impl mmap --dtype int32 holds, in every way
of writing a dataset. That Megatron writes the same, preprocess_golden_test shows."""
import json
import os
import subprocess

import preprocess_case
from preprocess_case import PreprocessData, dataset_files, lines_of, tntidx


class Tntidx(PreprocessData):
    def setUp(self):
        super().setUp()
        self.file = self.write("in.jsonl", lines_of([[], "one", "", ["two three", "", "four"], "five " * 50] * 40))

    def program(self, name, *arguments):
        return subprocess.run([os.path.join(os.path.dirname(preprocess_case.PROGRAM), name), *arguments],
                              capture_output=True, text=True, timeout=300, check=False)

    def write_mmap(self, *flags, file=None):
        """Writes "mmap", and gives what --dataset-impl lazy should write."""
        self.assert_done(self.run_program("--input", file or self.file, "--dtype", "int32", *flags, prefix=self.path("mmap")))
        tokens, index = self.output("mmap")
        return tokens, tntidx(index)

    def assert_written(self, expected, *flags, impl="lazy", prefix="out"):
        self.assert_done(self.run_program("--input", self.file, "--dataset-impl", impl, *flags, prefix=self.path(prefix)))
        self.assertEqual(self.output(prefix), expected, flags)
        report = self.program("verify", "dataset", self.path(prefix + "_text_document"))
        self.assertRegex(report.stdout, r": ok \(.*, int32, TNTIDX\)\n$")

    def test_holds_what_mmap_holds(self):
        for flags in ((), ("--append-eod",), ("--append-eod", "--megatron-version", "v2.6"),
                      ("--partitions", "3", "--keep-sequential-samples")):
            expected = self.write_mmap(*flags)
            for impl in ("lazy", "cached"):
                for workers in ("1", "5"):
                    self.assert_written(expected, *flags, "--workers", workers, impl=impl)
        for part in range(3):
            self.assertEqual(self.read(f"out_{part}_text_document.idx"), tntidx(self.read(f"mmap_{part}_text_document.idx")))

    def test_holds_no_document(self):
        self.file = self.write("empty.jsonl", "")
        self.assert_written(self.write_mmap())

    def test_each_key_and_sentence_is_written(self):
        file = self.write("keys.jsonl", json.dumps({"title": "Dr. A", "text": "He left! Why?"}) + "\n")
        model = self.path("model")
        os.mkdir(model)
        for name, text in (("abbrev_types.txt", "dr"), ("sent_starters.txt", ""), ("collocations.tab", ""),
                           ("ortho_context.tab", "")):
            self.write(os.path.join("model", name), text)
        for name, flags in (("mmap", ("--dtype", "int32")), ("out", ("--dataset-impl", "cached"))):
            self.assert_done(self.run_program("--input", file, "--json-keys", "title", "text", "--split-sentences", "--punkt-model",
                                              model, *flags, prefix=self.path(name)))
        self.assertEqual(self.files(), dataset_files("out_text_sentence", "out_title_sentence"))
        for key in ("title", "text"):
            self.assertEqual(self.read(f"out_{key}_sentence.bin"), self.read(f"mmap_{key}_sentence.bin"))
            self.assertEqual(self.read(f"out_{key}_sentence.idx"), tntidx(self.read(f"mmap_{key}_sentence.idx")))

    def test_shards_are_merged_with_their_sources(self):
        expected = self.write_mmap("--provenance")
        os.mkdir(self.path("shards"))
        for shard in range(3):
            self.assert_done(self.run_program("--input", self.file, "--dataset-impl", "lazy", "--provenance", "--shard",
                                              f"{shard}/3", prefix=self.path("shards", "s")))
        self.assert_done(self.program("merge_datasets", "--input", self.path("shards"), "--output-prefix",
                                      self.path("out_text_document")))
        self.assertEqual(self.output(), expected)
        self.assertEqual(self.read("out_text_document.libmeg"), self.read("mmap_text_document.libmeg"))
        shown = [self.program("dataset_inspect", self.path(name + "_text_document"), "--document", "157", "--trace")
                 for name in ("mmap", "out")]
        for result in shown:
            self.assert_done(result)
        self.assertEqual(shown[0].stdout.split(":", 1)[1], shown[1].stdout.split(":", 1)[1])
        self.assert_done(self.run_program("--input", self.file, "--shard", "2/3", "--dtype", "int32", "--provenance",
                                          prefix=self.path("shards", "s")))
        self.assert_error(self.program("merge_datasets", "--input", self.path("shards"), "--output-prefix", self.path("out")), 1,
                          ".*format")

    def test_goes_on_after_kills(self):
        self.file = self.write("big.jsonl", lines_of(["some words " * 20] * 60000))
        expected = self.write_mmap("--provenance")
        flags = ("--input", self.file, "--dataset-impl", "lazy", "--provenance", "--resume")
        for wait in (0.1, 0.3, 0.2):
            process = self.start(*flags)
            try:
                process.wait(wait)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.assert_written(expected, "--provenance", "--resume")
        self.assertIn("already finished", self.run_program(*flags).stdout)
        self.assertEqual(len(self.read("out_text_document.provenance")), len(self.read("mmap_text_document.provenance")))
        self.assertEqual(self.files("out*.resume"), ["out.resume"])
        self.assert_error(self.run_program("--input", self.file, "--dtype", "int32", "--provenance", "--resume"), 2,
                          ".*out.resume/journal: its run had format TNTIDX, this one has MMIDIDX")

    def test_other_types_are_refused(self):
        for impl in ("lazy", "cached"):
            self.assert_error(self.run_program("--input", self.file, "--dataset-impl", impl, "--dtype", "uint16"), 2,
                              "--dtype uint16: expected int32, the type of datasets of --dataset-impl lazy and cached")
        self.assertEqual(self.files(), [])
        self.assert_written(self.write_mmap(), "--dtype", "int32")


if __name__ == "__main__":
    preprocess_case.main()
