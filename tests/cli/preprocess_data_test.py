#!/usr/bin/env python3
"""preprocess_data as a process: output, flags, exit codes, going on after a kill."""
import json
import os
import pty
import re
import signal
import subprocess
import time

import preprocess_case
from preprocess_case import PreprocessData, dataset_files, lines_of, tokenizer_flags


class Resume(PreprocessData):
    def kill_after_a_checkpoint(self, *flags):
        """Whether it was killed with a checkpoint written; on a very slow machine it may end before."""
        process = self.start(*flags)
        while process.poll() is None and not self.files("out.resume/journal"):
            time.sleep(0.001)
        process.kill()
        process.wait()
        return process.returncode == -signal.SIGKILL

    def test_goes_on_after_a_kill_and_names_what_changed(self):
        file = self.write("in.jsonl", lines_of(["some words " * 20] * 60000))
        flags = ["--input", file, "--workers", "1"]
        self.assert_done(self.run_program(*flags, prefix=self.path("whole")))
        self.kill_after_a_checkpoint(*flags, "--resume")
        self.assert_error(self.run_program(*flags, "--resume", "--append-eod"), 2,
                          ".*out.resume/journal: its run had append_eod false, this one has true")
        merges = self.write("merges.txt", "#version: 0.2\n")
        self.assert_error(self.run_program(*flags, "--resume", tokenizer=tokenizer_flags(merges=merges)),
                          2, ".*merge_file")
        self.assert_done(self.run_program(*flags, "--resume"))
        self.assertEqual(self.output(), self.output("whole"))
        again = self.run_program(*flags, "--resume")
        self.assert_done(again)
        self.assertIn("already finished: nothing to do", again.stdout)
        self.assertEqual(self.output(), self.output("whole"))
        self.assertEqual(self.files("out*"), ["out.resume", *dataset_files("out_text_document")])
        # Megatron's tools/merge_datasets.py takes each regular file of a folder for one of a pair, also an .idx.
        for name in self.files("out*"):
            if os.path.isfile(self.path(name)):
                self.assertIn(os.path.splitext(name)[0] + ".idx", self.files("out*"))

    def test_an_error_is_the_same_each_time(self):
        file = self.write("in.jsonl", lines_of(["a"] * 30) + "{\n")
        for _ in range(2):
            self.assert_error(self.run_program("--input", file, "--resume"), 1, ".*in.jsonl: line 31, byte")
        self.assert_error(self.run_program("--input", "-", "--resume"), 1, "--resume: expected files")


class Output(PreprocessData):
    def test_prints_megatrons_lines_and_a_summary(self):
        file = self.write("in.jsonl", lines_of(["one", "two", "", "four", "five"]) + "\n")
        result = self.run_program("--input", file, "--append-eod", "--log-interval", "2")
        self.assert_done(result)
        self.assertRegex(result.stdout, "^Opening " + re.escape(file) + "\n"
                         "> building GPT2BPETokenizer tokenizer ...\n"
                         r" > padded vocab \(size: \d+\) with \d+ dummy tokens \(new size: \d+\)" "\n"
                         r"Time to startup: [\d.e-]+" "\n"
                         r"documents: 5\ntokens: \d+\nbytes: \d+\nseconds: [\d.]+\n"
                         r"tokens/s: \d+" "\nblank lines: 1\n"
                         r"wrote .*out_text_document\.\{bin,idx\} \(154 bytes\)" "\n$")
        self.assertRegex(result.stderr, r"^Processed 2 documents \([\d.]+ docs/s, [\d.]+ MB/s\).\n"
                         r"Processed 4 documents \([\d.]+ docs/s, [\d.]+ MB/s\).\n$")

    def test_shows_a_bar_on_a_terminal(self):
        file = self.write("in.jsonl", lines_of(["some text"] * 1000))
        terminal, program_side = pty.openpty()
        result = subprocess.run(self.command("--input", file), stdout=subprocess.DEVNULL,
                                stderr=program_side, timeout=60)
        os.close(program_side)
        shown = os.read(terminal, 1 << 16).decode()
        os.close(terminal)
        self.assertEqual(result.returncode, 0)
        for field in ("docs/s", "MB/s", "tokens"):
            self.assertIn(field, shown)
        self.assertNotIn("Processed", shown)

    def test_workers_do_not_change_a_byte(self):
        file = self.write("in.jsonl", lines_of(f"text {i} " * (i % 50) for i in range(60000)))
        self.assert_done(self.run_program("--input", file, "--workers", "1", prefix=self.path("a")))
        self.assert_done(self.run_program("--input", file, "--workers", "7", prefix=self.path("b")))
        self.assertEqual(self.output("a"), self.output("b"))

    def test_missing_folders_are_created(self):
        file = self.write("in.jsonl", lines_of(["a"]))
        self.assert_done(self.run_program("--input", file, prefix=self.path("new/deep/out")))
        self.assertEqual(sorted(os.listdir(self.path("new/deep"))),
                         dataset_files("out_text_document"))

    def test_every_key_gets_an_index(self):
        file = self.write("in.jsonl", '{"title": "t", "text": "x", "n": {"text": 1}}\n')
        self.assert_done(self.run_program("--input", file, "--json-keys", "title", "text"))
        self.assertEqual(self.files(), dataset_files("out_text_document", "out_title_document"))

    def test_megatron_s_merge_of_a_folder_finds_pairs_alone(self):
        """tools/merge_datasets.py --input FOLDER of core_v0.9.0 takes each name without its last ending for a dataset
        and asks for the other half: that of what is no .idx is the .idx."""
        file = self.write("in.jsonl", '{"title": "t", "text": "x"}\n')
        for shard in ("0/2", "1/2"):
            self.assert_done(self.run_program("--input", file, "--json-keys", "title", "text", "--provenance", "--shard", shard,
                                              prefix=self.path("new", "out")))
        names = os.listdir(self.path("new"))
        self.assertEqual({os.path.splitext(name)[1] for name in names}, {".bin", ".idx", ".libmeg", ".provenance"})
        found = set()
        for name in names:
            prefix, ending = os.path.splitext(name)
            other = ".bin" if ending == ".idx" else ".idx"
            self.assertTrue(os.path.isfile(self.path("new", prefix + other)), name)
            found.add(prefix)
        self.assertEqual(len(found), 4)


class MinTokens(PreprocessData):
    def setUp(self):
        super().setUp()
        texts = ["word " * (i * 7 % 23) for i in range(3000)]
        self.file = self.write("in.jsonl", lines_of(texts))
        self.assert_done(self.run_program("--input", self.file, prefix=self.path("all")))
        kept = [i for i, document in enumerate(self.documents("all")) if len(document) >= 20]
        self.short = 3000 - len(kept)
        self.assertTrue(kept and self.short)
        self.long = self.write("long.jsonl", lines_of(texts[i] for i in kept))
        self.flags = ("--input", self.file, "--append-eod", "--min-tokens", "20")

    def expected(self, *flags):
        self.assert_done(self.run_program("--input", self.long, "--append-eod", *flags, prefix=self.path("expected")))
        return self.output("expected")

    def test_leaves_short_documents_out_and_counts_them(self):
        result = self.run_program(*self.flags)
        self.assert_done(result)
        self.assertIn(f"\nshort documents: {self.short}\n", result.stdout)
        self.assertIn(f"\ndocuments: {3000 - self.short}\n", result.stdout)
        self.assertEqual(self.output(), self.expected())
        result = self.run_program("--input", self.long, "--min-tokens", "20")
        self.assert_done(result)
        self.assertNotIn("short documents", result.stdout)

    def test_goes_with_the_other_ways_of_writing(self):
        for flags in (("--partitions", "3"), ("--dataset-impl", "lazy"), ("--max-documents", "100"), ("--workers", "5"),
                      ("--megatron-version", "v2.6")):
            self.assert_done(self.run_program(*self.flags, *flags))
            self.assertEqual(self.output(), self.expected(*flags), flags)

    def test_shards_leave_out_the_same(self):
        os.mkdir(self.path("shards"))

        def merge():
            return subprocess.run([os.path.join(os.path.dirname(preprocess_case.PROGRAM), "merge_datasets"), "--input",
                                   self.path("shards"), "--output-prefix", self.path("out_text_document")],
                                  capture_output=True, text=True)
        for shard in ("0/2", "1/2"):
            self.assert_done(self.run_program(*self.flags, "--shard", shard, prefix=self.path("shards", "s")))
        self.assert_done(merge())
        self.assertEqual(self.output(), self.expected())
        self.assert_done(self.run_program(*self.flags[:-1], "21", "--shard", "1/2", prefix=self.path("shards", "s")))
        self.assert_error(merge(), 1, ".*min_tokens")

    def test_sources_are_those_of_the_documents(self):
        self.assert_done(self.run_program(*self.flags, "--provenance"))
        inspect = os.path.join(os.path.dirname(preprocess_case.PROGRAM), "dataset_inspect")
        with open(self.long, encoding="utf-8") as file:
            texts = [json.loads(line)["text"] for line in file]
        lines = self.read("in.jsonl")
        for document in (0, 7, len(texts) - 1):
            shown = subprocess.run([inspect, self.path("out_text_document"), "--document", str(document), "--trace", "--json"],
                                   capture_output=True, text=True, check=True).stdout
            line = lines[json.loads(shown)["trace"]["source"]["byte"]:].split(b"\n")[0]
            self.assertEqual(json.loads(line)["text"], texts[document])

    def test_numbers_out_of_range_are_wrong_usage(self):
        for number in ("0", "-1", "x", "9223372036854775808"):
            self.assert_error(self.run_program("--input", self.file, "--min-tokens", number), 2, "--min-tokens")


class BadLines(PreprocessData):
    def test_the_error_says_where(self):
        file = self.write("in.jsonl", lines_of(["a"]) + '{"text": "b"\n')
        result = self.run_program("--input", file)
        self.assert_error(result, 1, re.escape(file) + r": line 2, byte \d+: ")
        self.assertEqual(self.files(), [])

    def test_skip_counts_and_reports(self):
        file = self.write("in.jsonl", lines_of(["a"]) + '{"id": 1}\nno json\n' + lines_of(["b"]))
        result = self.run_program("--input", file, "--on-error", "skip")
        self.assert_done(result)
        self.assertIn("\nskipped lines: 2\n", result.stdout)
        self.assertRegex(result.stderr, r"note: skipped .*in.jsonl: line 2, byte \d+: ")
        self.assertRegex(result.stderr, r"note: skipped .*in.jsonl: line 3, byte \d+: ")
        self.assertEqual(len(self.documents()), 2)

    def test_text_without_a_merge_is_a_warning(self):
        merges = self.write("merges.txt", "#version: 0.2\n")
        file = self.write("in.jsonl", lines_of(["word " * 1000] * 250))
        result = self.run_program("--input", file, tokenizer=tokenizer_flags(merges=merges))
        self.assert_done(result)
        self.assertIn("warning: 1.00 tokens per byte: no merge was used", result.stderr)

    def test_a_web_page_is_no_merges_file(self):
        merges = self.write("merges.txt", "<!DOCTYPE html>\n<html><body>404</body></html>\n")
        file = self.write("in.jsonl", lines_of(["a"]))
        result = self.run_program("--input", file, tokenizer=tokenizer_flags(merges=merges))
        self.assert_error(result, 1, ".*merges.txt: ")
        self.assertEqual(self.files(), [])


class CommandLine(PreprocessData):
    def test_exit_codes(self):
        file = self.write("in.jsonl", lines_of(["a"]))
        self.assert_error(self.run_program("--input", file, "--apend-eod"), 2,
                          "unknown flag --apend-eod: did you mean --append-eod")
        self.assert_error(self.run_program("--input", file, "--workers", "0"), 2, "--workers")
        self.assert_error(self.run_program("--input", file, "--megatron-version", "core_v9"), 2,
                          ".*expected one of v2.6, 6ef5bdc, core_v0.4.0")
        self.assert_error(self.run_program("--input", file, "--dataset-impl", "fast"), 2, "--dataset-impl")
        self.assert_error(subprocess.run([preprocess_case.PROGRAM], capture_output=True, text=True), 2, "--")
        self.assertEqual(self.run_program("--help").returncode, 0)
        self.assertEqual(self.files(), [])

    def test_underscores_and_equals_signs(self):
        file = self.write("in.jsonl", lines_of(["a"]))
        self.assert_done(self.run_program(f"--input={file}", "--append_eod", "--json_keys", "text"))
        self.assertEqual(len(self.documents()[0]), 2)

    def test_flags_without_effect_get_a_note(self):
        file = self.write("in.jsonl", lines_of(["a"]))
        result = self.run_program("--input", file, "--padded-vocab-size", "64")
        self.assert_done(result)
        self.assertIn("note: ignored: --padded-vocab-size (only affects the model's vocabulary)",
                      result.stderr)

    def test_takes_the_command_line_of_megatrons_fast_path(self):
        file = self.write("in.jsonl", lines_of(["a", "b"]))
        self.assert_done(self.run_program("--input", file, "--append-eod", prefix=self.path("expected")))
        result = self.run_program("--use-gigatoken", "--input", file, "--json-keys", "text", "--append-eod",
                                  "--no-pad-vocab-size", "--vocab-extra-ids", "7")
        self.assert_done(result)
        self.assertIn("note: ignored: --use-gigatoken (another implementation of the same tokenizer)", result.stderr)
        self.assertEqual(self.output(), self.output("expected"))

    def test_a_search_for_the_best_number_of_workers_is_refused(self):
        file = self.write("in.jsonl", lines_of(["a", "b"]))
        result = self.run_program("--input", file, "--find-optimal-num-workers", "--workers-to-check", "2", "4")
        self.assert_error(result, 1, "--find-optimal-num-workers: not supported yet")
        self.assertEqual(self.files(), [])

    def test_a_shortened_dataset_gets_a_note(self):
        file = self.write("in.jsonl", lines_of(["a", "b"]))
        result = self.run_program("--input", file, "--max-documents", "1")
        self.assert_done(result)
        self.assertIn("note: --max-documents: the dataset ends after 1 documents", result.stderr)
        self.assertEqual(len(self.documents()), 1)

    def test_further_tokens_are_none_as_in_megatron(self):
        vocabulary = self.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n<\n>\nextra\n_\nid\n0\n")
        file = self.write("in.jsonl", lines_of(["a <extra_id_0> a"]))
        tokenizer = ["--tokenizer-type", "BertWordPieceCase", "--vocab-file", vocabulary,
                     "--megatron-version", "core_v0.12.0"]
        self.assert_done(self.run_program("--input", file, tokenizer=tokenizer))
        plain = self.output(), self.read("out_text_document.libmeg")
        result = self.run_program("--input", file, "--vocab-extra-ids", "100", tokenizer=tokenizer)
        self.assert_done(result)
        self.assertIn("note: ignored: --vocab-extra-ids (preprocess_data.py sets it to 0)", result.stderr)
        self.assertEqual((self.output(), self.read("out_text_document.libmeg")), plain)

    def test_the_revision_decides_whether_flags_add_what_stands_around_a_text(self):
        model = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "Whitespace"},
                 "decoder": None, "truncation": None, "padding": None,
                 "model": {"type": "WordLevel", "vocab": {"<s>": 0, "a": 1, "[UNK]": 2}, "unk_token": "[UNK]"},
                 "post_processor": {"type": "TemplateProcessing",
                                    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                                               {"Sequence": {"id": "A", "type_id": 0}}],
                                    "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                                             {"Sequence": {"id": "B", "type_id": 0}}],
                                    "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}}}
        tokenizer = ["--tokenizer-type", "HuggingFaceTokenizer",
                     "--tokenizer-model", self.write("tokenizer.json", json.dumps(model))]
        file = self.write("in.jsonl", lines_of(["a a"]))
        with_them, without = [0, 1, 1], [1, 1]
        for version, flags, expected in [("core_v0.16.0", [], without),
                                         ("core_v0.16.0", ["--tokenizer-hf-include-special-tokens"], with_them),
                                         ("core_v0.17.0", [], with_them),
                                         ("core_v0.17.0", ["--tokenizer-hf-include-special-tokens"], with_them),
                                         ("core_v0.17.0", ["--tokenizer-hf-no-include-special-tokens"], without)]:
            with self.subTest(version=version, flags=flags):
                self.assert_done(self.run_program("--input", file, "--megatron-version", version, *flags,
                                                  tokenizer=tokenizer))
                self.assertEqual(list(self.documents()[0]), expected)

    def test_versions_decide_about_empty_documents(self):
        file = self.write("in.jsonl", lines_of(["a", "", "b"]))
        self.assert_done(self.run_program("--input", file, "--megatron-version", "v2.6"))
        self.assertEqual(len(self.documents()), 2)
        self.assert_done(self.run_program("--input", file, "--megatron-version", "6ef5bdc"))
        self.assertEqual(len(self.documents()), 3)

    def warnings(self, *flags):
        done = self.run_program(*flags)
        self.assert_done(done)
        return [line for line in done.stderr.splitlines() if line.startswith("warning: ")]

    def test_an_empty_dataset_is_warned_of_with_what_was_left_out(self):
        dataset = self.path("out_text_document")
        nothing = self.write("nothing.jsonl", "")
        self.assertEqual(self.warnings("--input", nothing),
                         [f"warning: no documents: {dataset} is empty (the input has none)"])
        bad = self.write("bad.jsonl", "\n\n{\"txet\": 1}\nx\n" + lines_of(["ab", "c"]))
        self.assertEqual(self.warnings("--input", bad, "--on-error", "skip", "--min-tokens", "100"),
                         [f"warning: no documents: {dataset} is empty (2 with fewer than --min-tokens 100, "
                          "2 invalid lines skipped, 2 blank lines)"])
        empty = self.write("empty.jsonl", lines_of(["", ""]))
        self.assertEqual(self.warnings("--input", empty, "--megatron-version", "v2.6"),
                         [f"warning: no documents: {dataset} is empty (2 without tokens)"])
        self.assertEqual(self.warnings("--input", empty),
                         [f"warning: no tokens: the 2 documents of {dataset} are empty"])
        self.assertEqual(self.warnings("--input", self.write("in.jsonl", lines_of(["a"]))), [])

    def test_a_key_without_documents_is_warned_of(self):
        file = self.write("in.jsonl", '{"text": "a", "title": ""}\n')
        self.assertEqual(self.warnings("--input", file, "--json-keys", "text", "title", "--megatron-version", "v2.6"),
                         [f"warning: no documents: {self.path('out_title_document')} is empty (1 without tokens)"])

    def test_more_new_folders_than_one_are_noted(self):
        file = self.write("in.jsonl", lines_of(["a"]))
        for flags in ([], ["--resume"], ["--partitions", "2"]):
            with self.subTest(flags=flags):
                folder = self.path(f"mistyped{len(flags)}{''.join(flags)}")
                for name in ("one/two/out", "one/two/again", "three/out"):
                    done = self.run_program("--input", file, *flags, prefix=os.path.join(folder, name))
                    self.assert_done(done)
                    notes = [line for line in done.stderr.splitlines() if "folder" in line]
                    self.assertEqual(notes, [f"note: {folder}/one/two: a new folder, as are those above it from "
                                             f"{folder} on"] if name == "one/two/out" else [])


if __name__ == "__main__":
    preprocess_case.main()
