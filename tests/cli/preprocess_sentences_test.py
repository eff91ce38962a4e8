#!/usr/bin/env python3
"""preprocess_data --split-sentences as a process; that sentences are nltk's, compare_with_nltk.py shows."""
import json
import os

import preprocess_case
from preprocess_case import PreprocessData, dataset_files, lines_of

SENTENCES = [["Dr. Who came.", "He left!", "Why?"], ["One sentence"], [], ["A (small.)", "Case."]]


class Sentences(PreprocessData):
    def setUp(self):
        super().setUp()
        self.model = self.path("nltk", "tokenizers", "punkt_tab", "english")
        os.makedirs(self.model)
        for name, text in (("abbrev_types.txt", "dr\nmr"), ("sent_starters.txt", "he"), ("collocations.tab", ""),
                           ("ortho_context.tab", "he\t2\nwho\t4")):
            with open(os.path.join(self.model, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.texts = self.write("in.jsonl", lines_of([" ".join(sentences) for sentences in SENTENCES]))
        self.environment = {**os.environ, "NLTK_DATA": self.path("nltk")}

    def run_split(self, *flags, **options):
        return self.run_program("--split-sentences", *flags, env=self.environment, **options)

    def output_of(self, prefix="out"):
        return self.read(prefix + "_text_sentence.bin"), self.read(prefix + "_text_sentence.idx")

    def test_each_sentence_is_a_sequence(self):
        lists = self.write("lists.jsonl", "".join(json.dumps({"text": s}) + "\n" for s in SENTENCES))
        self.assert_done(self.run_program("--input", lists, "--append-eod", prefix=self.path("lists")))
        self.assert_done(self.run_split("--input", self.texts, "--append-eod"))
        self.assertEqual(self.files(), dataset_files("out_text_sentence"))
        self.assertEqual(self.output_of(), self.output("lists"))
        self.assert_done(self.run_split("--input", lists, "--append-eod", prefix=self.path("again")))
        self.assertEqual(self.output_of("again"), self.output("lists"))

    def test_newlines_are_kept(self):
        file = self.write("in.jsonl", lines_of(["He came.\n\nHe left."]))
        lists = self.write("lists.jsonl", json.dumps({"text": ["He came.\n\n", "He left."]}) + "\n")
        self.assert_done(self.run_program("--input", lists, prefix=self.path("lists")))
        self.assert_done(self.run_split("--input", file, "--keep-newlines"))
        self.assertEqual(self.output_of(), self.output("lists"))

    def test_partitions_leave_their_pairs(self):
        self.assert_done(self.run_split("--input", self.texts, prefix=self.path("one")))
        self.assert_done(self.run_split("--input", self.texts, "--partitions", "2", "--keep-sequential-samples"))
        self.assertEqual(self.files(), dataset_files(*(f"out{part}_text_sentence" for part in ("_0", "_1", ""))))
        self.assertEqual(self.output_of(), self.output_of("one"))

    def test_the_model_is_named_or_found(self):
        self.environment["NLTK_DATA"] = self.environment["HOME"] = self.path("nowhere")
        self.assert_error(self.run_split("--input", self.texts), 1, "nltk_data/tokenizers/punkt_tab/english: not found")
        self.assert_error(self.run_split("--input", self.texts, "--lang", "../x"), 2, "lang: expected a language")
        self.assert_done(self.run_split("--input", self.texts, "--punkt-model", self.model))
        os.remove(os.path.join(self.model, "collocations.tab"))
        self.assert_error(self.run_split("--input", self.texts, "--punkt-model", self.model), 1, ".*collocations.tab")

    def test_damaged_models_are_named(self):
        for name, text in (("ortho_context.tab", "he\t128"), ("ortho_context.tab", "he"), ("collocations.tab", "a b"),
                           ("abbrev_types.txt", "a\rb"), ("sent_starters.txt", b"\xff")):
            with self.subTest(text):
                path = os.path.join(self.model, name)
                with open(path, "rb") as file:
                    before = file.read()
                with open(path, "wb") as file:
                    file.write(text if isinstance(text, bytes) else text.encode())
                self.assert_error(self.run_split("--input", self.texts), 1, f".*{name}: line 1: expected")
                with open(path, "wb") as file:
                    file.write(before)

    def test_flags_without_sentences_are_wrong_usage(self):
        self.assert_error(self.run_program("--input", self.texts, "--keep-newlines"), 2, "--keep-newlines: requires")
        self.assert_error(self.run_program("--input", self.texts, "--punkt-model", "x"), 2, "--punkt-model: requires")

    def test_another_model_is_another_run(self):
        self.assert_done(self.run_split("--input", self.texts, "--resume"))
        self.assert_done(self.run_split("--input", self.texts, "--resume"))
        with open(os.path.join(self.model, "abbrev_types.txt"), "a", encoding="utf-8") as file:
            file.write("\nprof")
        self.assert_error(self.run_split("--input", self.texts, "--resume"), 2, ".*abbrev_types.txt")


if __name__ == "__main__":
    preprocess_case.main()
