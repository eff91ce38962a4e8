#!/usr/bin/env python3
"""dataset_tool provenance: documents of datasets without a record, found in their inputs again.

The judge is what preprocess_data --provenance recorded of the same dataset.
"""
import json
import os
import random
import struct
import subprocess

import preprocess_case
from preprocess_case import PreprocessData, lines_of, tokenizer_flags


class FindProvenance(PreprocessData):
    def setUp(self):
        super().setUp()
        generator = random.Random(4)
        words = "the of and a to in is it you that he was for on are as with his they at".split()
        self.texts = [" ".join(generator.choices(words, k=generator.randint(1, 40))) + ". More!" for _ in range(1500)]
        # Equal, empty and one-token documents.
        self.texts[100:103] = [self.texts[7], "", "a"]
        self.texts[900:903] = [self.texts[7], "", ""]
        self.inputs = self.write("a.jsonl", lines_of(self.texts[:800])), self.write("b.jsonl", lines_of(self.texts[800:]))

    def tool(self, *arguments, environment=None):
        return subprocess.run([os.path.join(os.path.dirname(preprocess_case.PROGRAM), "dataset_tool"), *arguments],
                              capture_output=True, text=True, timeout=300, env=environment)

    def find(self, *flags, prefix="out_text_document", inputs=None, tokenizer=None, environment=None):
        """The answer, or the last line of an error."""
        done = self.tool("provenance", self.path(prefix), "--input", *(inputs or self.inputs), *flags,
                         *(tokenizer or tokenizer_flags()), "--json", environment=environment)
        if done.returncode:
            self.assertEqual(done.stdout, "")
            return done.stderr.splitlines()[-1]
        return json.loads(done.stdout)

    def forget(self, prefix="out_text_document"):
        """Removes what libmeg wrote beside the pair; returns the record."""
        record = self.read(prefix + ".provenance")
        for ending in (".provenance", ".libmeg"):
            os.remove(self.path(prefix + ending))
        return record

    def sources(self, prefix="out_text_document"):
        """File and byte of each document; None where it is not known."""
        data = self.read(prefix + ".provenance")
        documents, files = struct.unpack_from("<2Q", data, 16)
        ends = [0, *struct.unpack_from(f"<{files}Q", data, 48 + 16 * documents)]
        names = data[48 + 16 * documents + 8 * files:]
        places = []
        for i in range(documents):
            at, file, _ = struct.unpack_from("<QII", data, 48 + 16 * i)
            places.append(None if file == 2**32 - 1 else (names[ends[file]:ends[file + 1]].decode(), at))
        return places

    def test_the_record_is_the_one_that_was_lost(self):
        punkt = self.path("nltk", "tokenizers", "punkt_tab", "english")
        os.makedirs(punkt)
        for name, text in (("abbrev_types.txt", "dr"), ("sent_starters.txt", "he"), ("collocations.tab", ""),
                           ("ortho_context.tab", "he\t2")):
            with open(os.path.join(punkt, name), "w", encoding="utf-8") as file:
                file.write(text)
        environment = {**os.environ, "NLTK_DATA": self.path("nltk")}
        for flags in ((), ("--append-eod",), ("--split-sentences",), ("--split-sentences", "--append-eod", "--workers", "3")):
            for more in ((), ("--dtype", "int32"), ("--dataset-impl", "lazy")):
                with self.subTest(flags=flags, more=more):
                    made = self.run_program("--input", *self.inputs, "--provenance", *flags, *more, env=environment)
                    self.assertEqual(made.returncode, 0, made.stderr)
                    prefix = "out_text_sentence" if "--split-sentences" in flags else "out_text_document"
                    record = self.forget(prefix)
                    answer = self.find(*flags, prefix=prefix, environment=environment)
                    self.assertEqual(self.read(prefix + ".provenance"), record)
                    self.assertEqual((answer["missing_documents"], answer["shared_places"], answer["unused_documents"]), (0, 0, 0))

    def test_sentences_are_missed(self):
        lists = self.write("lists.jsonl", "".join(json.dumps({"text": t.split(". ")}) + "\n" for t in self.texts))
        whole = self.write("whole.jsonl", "".join(json.dumps({"text": t.replace(". ", "! ")}) + "\n" for t in self.texts[:50]))
        for made, found, wanted in ((lists, whole, "sequences, none of the inputs: it was made with --split-sentences"),
                                    (whole, lists, "sequences, and some of the inputs: it was made without --split-sentences")):
            self.assertEqual(self.run_program("--input", made).returncode, 0)
            os.remove(self.path("out_text_document.libmeg"))
            self.assertIn(wanted, self.find(inputs=[found]))

    def test_each_key_is_a_dataset(self):
        lines = [json.dumps({"title": f"title {i % 50}", "text": text}) + "\n" for i, text in enumerate(self.texts)]
        file = self.write("c.jsonl", "".join(lines))
        made = self.run_program("--input", file, "--json-keys", "title", "text", "--provenance")
        self.assertEqual(made.returncode, 0, made.stderr)
        for key in ("title", "text"):
            record = self.forget(f"out_{key}_document")
            self.find("--json-keys", key, prefix=f"out_{key}_document", inputs=[file])
            self.assertEqual(self.read(f"out_{key}_document.provenance"), record)
        self.assertIn("--json-keys: expected one, found 2", self.find("--json-keys", "title", "text", inputs=[file]))

    def test_what_is_not_found_is_counted_and_listed(self):
        self.assertEqual(self.run_program("--input", *self.inputs, "--append-eod").returncode, 0)
        os.remove(self.path("out_text_document.libmeg"))
        # The inputs have neither the first document nor the 40th to 49th, and one that the dataset has not.
        kept = self.texts[1:40] + ["another one"] + self.texts[50:800]
        answer = self.find("--append-eod", "--missing-list", self.path("missing.txt"),
                           inputs=[self.write("kept.jsonl", lines_of(kept)), self.inputs[1]])
        self.assertEqual((answer["missing_documents"], answer["unused_documents"]), (11, 1))
        self.assertEqual(self.read("missing.txt"), b"0\n40:50\n")
        places = self.sources()
        self.assertEqual([i for i, place in enumerate(places) if place is None], [0, *range(40, 50)])
        self.assertEqual(places[50][0], self.path("kept.jsonl"))
        traced = subprocess.run([os.path.join(os.path.dirname(preprocess_case.PROGRAM), "dataset_inspect"),
                                 self.path("out_text_document"), "--trace", "--document", "800"], capture_output=True, text=True)
        self.assertEqual(traced.stdout, f"document 800 of {self.path('out_text_document')}: {self.inputs[1]} byte 0\n")
        # The list is one that the other commands take.
        view = self.tool("exclude", self.path("out_text_document"), "--document-list", self.path("missing.txt"),
                         "--output-prefix", self.path("v"))
        self.assertEqual(view.returncode, 0, view.stderr)
        self.assertNotIn(None, self.sources("v"))

    def test_the_list_takes_the_place_of_no_input(self):
        self.assertEqual(self.run_program("--input", *self.inputs, "--append-eod").returncode, 0)
        for file in (self.inputs[0], self.path("out_text_document.bin")):
            with open(file, "rb") as opened:
                before = opened.read()
            done = self.tool("provenance", self.path("out_text_document"), "--input", *self.inputs, "--append-eod", *tokenizer_flags(),
                             "--missing-list", file)
            self.assertEqual(done.returncode, 2)
            self.assertIn("expected inputs without the files to be written", done.stderr)
            with open(file, "rb") as opened:
                self.assertEqual(opened.read(), before)

    def test_equal_documents_share_places_where_the_inputs_have_fewer(self):
        self.assertEqual(self.run_program("--input", *self.inputs).returncode, 0)
        os.remove(self.path("out_text_document.libmeg"))
        done = self.tool("concat", *[self.path("out_text_document")] * 2, "--output-prefix", self.path("twice"))
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = self.find(prefix="twice")
        self.assertEqual((answer["missing_documents"], answer["shared_places"]), (0, 1500))
        for place, text in zip(self.sources("twice"), self.texts * 2):
            with open(place[0], encoding="utf-8") as file:
                file.seek(place[1])
                self.assertEqual(json.loads(file.readline())["text"], text)

    def test_a_wrong_command_line_is_explained_before_the_inputs_end(self):
        many = self.write("many.jsonl", lines_of(self.texts[:7] + self.texts[8:90]) * 400 + "no JSON\n")
        small = self.path("small")
        os.mkdir(small)
        vocabulary = {chr(c): i for i, c in enumerate([*range(33, 127), *range(161, 173), *range(174, 256),
                                                       *range(256, 324)])}
        with open(os.path.join(small, "vocab.json"), "w", encoding="utf-8") as file:
            json.dump({**vocabulary, "he": 256, "<|endoftext|>": 257}, file)
        with open(os.path.join(small, "merges.txt"), "w", encoding="utf-8") as file:
            file.write("#version: 0.2\nh e\n")
        other = tokenizer_flags(os.path.join(small, "vocab.json"), os.path.join(small, "merges.txt"))
        for made, found, wanted in (
                (["--append-eod"], [], "have one token more: it was made with --append-eod"),
                ([], ["--append-eod"], "have one token less: it was made without --append-eod")):
            self.assertEqual(self.run_program("--input", many, "--on-error", "skip", *made).returncode, 0)
            os.remove(self.path("out_text_document.libmeg"))
            self.assertIn(wanted, self.find(*found, inputs=[many]))
        # Ids that the tokenizer has, of other texts; and ids that it does not have.
        self.assertIn("expected ids of the tokenizer, 0 to 257, found", self.find(tokenizer=other, inputs=[many]))
        self.assertEqual(self.run_program("--input", many, "--on-error", "skip", tokenizer=other).returncode, 0)
        self.assertIn("it was made with another tokenizer", self.read_libmeg_away(many))
        # Texts that are not in the dataset, which is no wrong command line.
        lists = self.write("lists.jsonl", "".join(json.dumps({"text": t.split(". ")}) + "\n" for t in self.texts))
        joined = self.write("joined.jsonl", "".join(json.dumps({"text": [t, "x"]}) + "\n" for t in self.texts[:90]))
        self.assertEqual(self.run_program("--input", lists).returncode, 0)
        os.remove(self.path("out_text_document.libmeg"))
        self.assertIn("expected documents of the inputs, found none", self.find(inputs=[joined]))
        self.assertFalse(os.path.exists(self.path("out_text_document.provenance")))

    def read_libmeg_away(self, many):
        # With the record of the tokenizer the error is immediate.
        self.assertIn("tokenizer", self.find(inputs=[many]))
        os.remove(self.path("out_text_document.libmeg"))
        return self.find(inputs=[many])

    def test_a_record_is_not_replaced(self):
        self.assertEqual(self.run_program("--input", *self.inputs, "--provenance").returncode, 0)
        self.assertIn("out_text_document.provenance: expected no such file, found one", self.find())


if __name__ == "__main__":
    preprocess_case.main()
