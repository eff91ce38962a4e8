#!/usr/bin/env python3
"""preprocess_data as a process: exit codes, signals, pipes, disks, memory.

preprocess_data_test.py PROGRAM TESTDATA [--slow] [unittest arguments]
--slow runs only the cases that need hundreds of megabytes.
"""
import csv
import glob
import gzip
import io
import json
import lzma
import os
import pty
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = TESTDATA = ""
MIB = 1 << 20


def tokenizer_flags(vocab=None, merges=None):
    folder = os.path.join(TESTDATA, "tokenizer")
    return ["--tokenizer-type", "GPT2BPETokenizer",
            "--vocab-file", vocab or os.path.join(folder, "vocab.json"),
            "--merge-file", merges or os.path.join(folder, "merges.txt")]


def lines_of(texts):
    return "".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(texts))


class PreprocessData(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        with open(self.path(name), "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def command(self, *flags, prefix=None, tokenizer=None):
        return [PROGRAM, *flags, "--output-prefix", prefix or self.path("out"),
                *(tokenizer or tokenizer_flags())]

    def run_program(self, *flags, prefix=None, tokenizer=None, **options):
        return subprocess.run(self.command(*flags, prefix=prefix, tokenizer=tokenizer),
                              capture_output=True, text=True, timeout=300, **options)

    def start(self, *flags, **options):
        process = subprocess.Popen(self.command(*flags), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def wait_for_partial_files(self):
        for _ in range(6000):
            if self.files("*.partial-*"):
                return
            time.sleep(0.01)
        self.fail("no partial file appeared")

    def files(self, pattern="out*"):
        return sorted(os.path.basename(path) for path in glob.glob(self.path(pattern)))

    def output(self, prefix="out"):
        return self.read(prefix + "_text_document.bin"), self.read(prefix + "_text_document.idx")

    def documents(self, prefix="out"):
        """The documents' token ids."""
        tokens, index = self.output(prefix)
        sequences, ends = struct.unpack_from("<QQ", index, 18)
        lengths = struct.unpack_from(f"<{sequences}i", index, 34)
        ends = struct.unpack_from(f"<{ends}q", index, 34 + 12 * sequences)
        starts = [0]
        for length in lengths:
            starts.append(starts[-1] + length)
        ids = memoryview(tokens).cast("H")
        return [ids[starts[a]:starts[b]] for a, b in zip(ends, ends[1:])]

    def assert_error(self, result, exit_code, pattern):
        self.assertEqual(result.returncode, exit_code, result.stderr)
        last = result.stderr.splitlines()[-1]
        self.assertRegex(last, "^error: " + pattern)

    def assert_done(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)


class Resume(PreprocessData):
    def kill_after_a_checkpoint(self, *flags):
        """Whether it was killed with a checkpoint written; on a very slow machine it may end before."""
        process = self.start(*flags)
        while process.poll() is None and not self.files("out.resume"):
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
                          ".*out.resume: its run had append_eod false, this one has true")
        merges = self.write("merges.txt", "#version: 0.2\n")
        self.assert_error(self.run_program(*flags, "--resume", tokenizer=tokenizer_flags(merges=merges)),
                          2, ".*merge_file")
        self.assert_done(self.run_program(*flags, "--resume"))
        self.assertEqual(self.output(), self.output("whole"))
        again = self.run_program(*flags, "--resume")
        self.assert_done(again)
        self.assertIn("finished before: nothing to do", again.stdout)
        self.assertEqual(self.output(), self.output("whole"))
        self.assertEqual(self.files("out*"), ["out.resume", "out_text_document.bin", "out_text_document.idx"])

    def test_an_error_is_the_same_each_time(self):
        file = self.write("in.jsonl", lines_of(["a"] * 30) + "{\n")
        for _ in range(2):
            self.assert_error(self.run_program("--input", file, "--resume"), 1, ".*in.jsonl: line 31, byte")
        self.assert_error(self.run_program("--input", "-", "--resume"), 1, "resume: expected files")


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
                         r"tokens/s: \d+" "\nblank lines: 1\n$")
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
                         ["out_text_document.bin", "out_text_document.idx"])

    def test_every_key_gets_an_index(self):
        file = self.write("in.jsonl", '{"title": "t", "text": "x", "n": {"text": 1}}\n')
        self.assert_done(self.run_program("--input", file, "--json-keys", "title", "text"))
        self.assertEqual(self.files(), ["out_text_document.bin", "out_text_document.idx",
                                        "out_title_document.bin", "out_title_document.idx"])


class Inputs(PreprocessData):
    def test_content_decides_and_not_the_name(self):
        file = self.write("merged_json.json", lines_of(["a", "b"]))
        self.assert_done(self.run_program("--input", file))
        self.assertEqual(len(self.documents()), 2)

    def test_the_last_line_needs_no_end(self):
        self.assert_done(self.run_program("--input", self.write("in", lines_of(["a", "b"])[:-1])))
        self.assertEqual(len(self.documents()), 2)

    def test_files_and_globs_in_order(self):
        for name in ("b2", "b10", "b1", "a"):
            self.write(name + ".jsonl", lines_of([name]))
        everything = self.write("all", lines_of(["b1", "b10", "b2", "a"]))
        self.assert_done(self.run_program("--input", everything, prefix=self.path("expected")))
        self.assert_done(self.run_program("--input", self.path("b*.jsonl"), self.path("a.jsonl")))
        self.assertEqual(self.output(), self.output("expected"))

    def test_standard_input(self):
        text = lines_of(["one", "two"])
        self.assert_done(self.run_program("--input", self.write("in", text),
                                          prefix=self.path("expected")))
        self.assert_done(self.run_program("--input", "-", input=text))
        self.assertEqual(self.output(), self.output("expected"))

    def test_a_slow_pipe_gives_the_same(self):
        text = lines_of(["one", "two", "three"]).encode()
        self.assert_done(self.run_program("--input", self.write("in", text),
                                          prefix=self.path("expected")))
        process = self.start("--input", "-", "--workers", "3")
        for i in range(0, len(text), 5):
            process.stdin.write(text[i:i + 5])
            process.stdin.flush()
            time.sleep(0.01)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(self.output(), self.output("expected"))

    def test_a_missing_file_is_named(self):
        file = self.write("in.jsonl", lines_of(["a"]))
        result = self.run_program("--input", file, self.path("nowhere.jsonl"))
        self.assert_error(result, 1, ".*nowhere.jsonl: No such file or directory")
        self.assertEqual(self.files(), [])

    def test_a_pattern_without_files_is_named(self):
        self.assert_error(self.run_program("--input", self.path("*.none")), 1, ".*none: no file")

    def test_a_folder_without_files_is_named(self):
        os.mkdir(self.path("empty"))
        self.assert_error(self.run_program("--input", self.path("empty")), 1, ".*: no file in this folder")


class Formats(PreprocessData):
    """What Python's own modules write, against the same texts as JSON lines."""

    def setUp(self):
        super().setUp()
        draw = random.Random(7)
        pieces = ["word ", "\u00e9t\u00e9 ", "\n", "\r\n", ",", '"', '""', "{", "]", "\\", "'", "\t", " "]
        self.texts = ["".join(draw.choices(pieces, k=draw.randrange(30))) for _ in range(500)]
        self.expect(lines_of(self.texts))

    def expect(self, text):
        self.assert_done(self.run_program("--input", self.write("plain.jsonl", text),
                                          prefix=self.path("expected")))

    def assert_same(self, *flags, **options):
        self.assert_done(self.run_program(*flags, "--workers", "2", **options))
        self.assertEqual(self.output(), self.output("expected"))

    def csv_of(self, rows, **options):
        text = io.StringIO(newline="")
        csv.writer(text, **options).writerows(rows)
        return text.getvalue()

    def test_json_arrays(self):
        for indent in (None, 2):
            array = json.dumps([{"text": text, "n": [{}]} for text in self.texts], indent=indent)
            self.assert_same("--input", self.write("in.jsonl", array))
            self.assert_same("--input", "-", input=array)

    def test_csv(self):
        rows = [[i, text] for i, text in enumerate(self.texts)]
        for options in ({}, {"quoting": csv.QUOTE_ALL}, {"lineterminator": "\n"}):
            with_header = self.csv_of([["id", "content"], *rows], **options)
            self.assert_same("--input", self.write("in.csv", with_header), "--csv-column", "content")
            self.assert_same("--input", "-", "--input-format", "csv", "--csv-column", "1",
                             "--csv-header", input=with_header)
            self.assert_same("--input", self.write("in.csv", self.csv_of(rows, **options)),
                             "--csv-column", "1")

    def test_the_tutorials_six_files(self):
        os.mkdir(self.path("parts"))
        for k in range(6):
            rows = [["id", "content"], *([0, text] for text in self.texts[k * 80:(k + 1) * 80])]
            self.write(f"parts/{k}.csv", self.csv_of(rows))
        self.expect(lines_of(self.texts[:480]))
        self.assert_same("--input", self.path("parts"), "--csv-column", "content")
        self.assert_same("--input", self.path("parts", "*.csv"), "--csv-column", "content")

    def test_compressed(self):
        lines = lines_of(self.texts).encode()
        for module, name in ((gzip, "in.gz"), (lzma, "in.xz")):
            self.assert_same("--input", self.write(name, module.compress(lines)))
            parts = [module.compress(lines[i:i + 999]) for i in range(0, len(lines), 999)]
            self.assert_same("--input", self.write("no_ending", b"".join(parts)))
            result = self.run_program("--input", self.write("cut", module.compress(lines)[:-20]))
            self.assert_error(result, 1, ".*cut: the compressed data ends in the middle")
        bomb = self.write("bomb.xz", lzma.compress(b" " * (100 << 20), preset=0))
        self.assert_error(self.run_program("--input", bomb), 1, ".*bomb.xz: .* expected at most 2000 for one")

    def test_plain_text(self):
        texts = [text for text in self.texts if text.strip()]
        self.expect(lines_of(texts))
        joined = "\n<|end|>\n".join(texts)
        self.assert_same("--input", self.write("in.txt", joined.encode()),
                         "--txt-separator", "\\n<|end|>\\n")
        self.expect(lines_of([joined]))
        self.assert_same("--input", self.path("in.txt"))
        lines = [line for line in re.split("\r\n|\r|\n", joined) if line.strip(" \t")]
        self.expect(lines_of(lines))
        self.assert_same("--input", self.path("in.txt"), "--txt-document", "line")
        result = self.run_program("--input", self.path("in.txt"), "--txt-separator", "\\x")
        self.assert_error(result, 2, "--txt-separator: expected n, r, t or a backslash")

    def test_shards(self):
        file = self.write("in", lines_of(self.texts))
        os.mkdir(self.path("shards"))
        launchers = (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
                     ("SLURM_PROCID", "SLURM_NTASKS"), None)
        for rank, names in enumerate(launchers):
            environment = {**os.environ, **(dict(zip(names, (str(rank), "4"))) if names else {})}
            self.assert_done(self.run_program("--input", file, "--shard", "auto" if names else "3/4",
                                              prefix=self.path("shards", "s"), env=environment))
        merge = os.path.join(os.path.dirname(PROGRAM), "merge_datasets")
        subprocess.run([merge, "--input", self.path("shards"), "--key", "text",
                        "--output-prefix", self.path("out_text_document")], check=True, capture_output=True)
        self.assertEqual(self.output(), self.output("expected"))
        for shard in ("4/4", "1", "-1/2", "1/2x", "auto"):
            environment = {k: v for k, v in os.environ.items() if not k.startswith(("RANK", "OMPI", "SLURM"))}
            environment.pop("WORLD_SIZE", None)
            self.assert_error(self.run_program("--input", file, "--shard", shard, env=environment), 2, "--shard")

    def test_the_first_documents(self):
        self.expect(lines_of(self.texts[:123]))
        self.assert_same("--input", self.write("in", lines_of(self.texts)), "--max-documents", "123")


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
        self.assertIn("warning: 1.00 tokens a byte: no merge was used", result.stderr)

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
        self.assert_error(self.run_program("--input", file, "--dataset-impl", "lazy"), 1,
                          "--dataset-impl lazy: not supported yet")
        self.assert_error(self.run_program("--input", file, "--split-sentences"), 1,
                          "--split-sentences: not supported yet")
        self.assert_error(subprocess.run([PROGRAM], capture_output=True, text=True), 2, "--")
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
        self.assertIn("note: ignored: --padded-vocab-size (only the model's side of the vocabulary)",
                      result.stderr)

    def test_versions_decide_about_empty_documents(self):
        file = self.write("in.jsonl", lines_of(["a", "", "b"]))
        self.assert_done(self.run_program("--input", file, "--megatron-version", "v2.6"))
        self.assertEqual(len(self.documents()), 2)
        self.assert_done(self.run_program("--input", file, "--megatron-version", "6ef5bdc"))
        self.assertEqual(len(self.documents()), 3)


class Endings(PreprocessData):
    def test_signals_leave_nothing_even_while_a_pipe_is_silent(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start("--input", "-")
            process.stdin.write(lines_of(["a"] * 100).encode())
            process.stdin.flush()
            self.wait_for_partial_files()
            process.send_signal(number)
            errors = process.stderr.read().decode()
            self.assertEqual(process.wait(timeout=60), -number)
            self.assertEqual(errors.splitlines()[-1], "error: interrupted")
            self.assertEqual(self.files(), [])

    def test_options_that_cannot_be_met_are_wrong_usage(self):
        data = self.write("in.jsonl", lines_of(["hello"]))
        vocab = ["--vocab-file", os.path.join(TESTDATA, "tokenizer", "vocab.json")]
        for flags, tokenizer, words in (
                (["--json-keys", "text", "text"], None, "found text twice"),
                ([], ["--tokenizer-type", "GPT2BPE"], "found \"GPT2BPE\""),
                ([], ["--tokenizer-type", "GPT2BPETokenizer"], "GPT2BPETokenizer needs --vocab-file"),
                ([], ["--tokenizer-type", "GPT2BPETokenizer", *vocab], "GPT2BPETokenizer needs --merge-file")):
            done = self.run_program("--input", data, *flags, tokenizer=tokenizer)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr.splitlines()[-1])
        done = self.run_program("--input", data, tokenizer=tokenizer_flags(vocab=self.path("missing")))
        self.assertEqual(done.returncode, 1, "a file that is not there is no wrong usage")
        done = self.run_program("--input", data, tokenizer=["--tokenizer-type", "MultimodalTokenizer"])
        self.assertEqual(done.returncode, 1, "nor is what is not done")
        self.assertIn("not supported yet", done.stderr)

    def test_kill_leaves_only_partial_files_and_the_next_start_removes_them(self):
        process = self.start("--input", "-")
        self.wait_for_partial_files()
        process.kill()
        process.wait()
        left = self.files()
        self.assertTrue(left)
        for name in left:
            self.assertRegex(name, r"\.(partial-|lock$)")
        self.assert_done(self.run_program("--input", self.write("in", lines_of(["a"]))))
        self.assertEqual(self.files(), ["out_text_document.bin", "out_text_document.idx"])

    def two_datasets(self):
        """Inputs of datasets of equal counts, and what each of them becomes."""
        texts, inputs, outputs = ["word " * (i % 9) for i in range(300)], [], []
        for name, order in (("a", texts), ("b", texts[::-1])):
            inputs.append(self.write(name + ".jsonl", lines_of(order)))
            self.assert_done(self.run_program("--input", inputs[-1], prefix=self.path(name)))
            outputs.append(self.output(name))
        self.assertNotEqual(outputs[0], outputs[1])
        self.assertEqual(len(outputs[0][0]), len(outputs[1][0]))
        return inputs, outputs

    def test_kills_leave_a_whole_dataset_or_none(self):
        inputs, outputs = self.two_datasets()
        whole, caught = 60.0, 0
        for _ in range(3):
            start = time.monotonic()
            self.assert_done(self.run_program("--input", inputs[0]))
            whole = min(whole, time.monotonic() - start)
        choice = random.Random(os.getpid())
        for turn in range(60):
            process = subprocess.Popen(self.command("--input", inputs[turn % 2]),
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(whole * choice.uniform(0.2, 1.1))
            process.kill()
            caught += process.wait() == -signal.SIGKILL
            if os.path.exists(self.path("out_text_document.idx")):
                self.assertTrue(self.output() in outputs, f"turn {turn}: a mixed dataset")
        self.assertGreater(caught, 5)
        self.assert_done(self.run_program("--input", inputs[0]))
        self.assertEqual(self.files(), ["out_text_document.bin", "out_text_document.idx"])

    def test_of_two_at_once_one_is_refused_or_comes_after_the_other(self):
        inputs, outputs = self.two_datasets()
        for _ in range(10):
            both = [subprocess.Popen(self.command("--input", file), stdout=subprocess.DEVNULL,
                                     stderr=subprocess.PIPE, text=True) for file in inputs]
            errors = [process.communicate(timeout=60)[1] for process in both]
            done = [process.returncode == 0 for process in both]
            self.assertTrue(any(done), errors)
            for process, error in zip(both, errors):
                if process.returncode != 0:
                    self.assertEqual(process.returncode, 1)
                    self.assertRegex(error, "error: .*: another process is writing this dataset")
            self.assertTrue(self.output() in [o for o, ended in zip(outputs, done) if ended])

    def test_the_second_run_says_so_before_it_writes(self):
        first = self.start("--input", "-")
        self.wait_for_partial_files()
        before = self.files()
        second = self.run_program("--input", self.write("in", lines_of(["a"])))
        self.assert_error(second, 1, ".*out_text_document: another process is writing this dataset")
        self.assertEqual(self.files(), before)
        first.communicate(lines_of(["b"]).encode(), timeout=60)
        self.assertEqual(first.returncode, 0)

    def test_an_older_dataset_survives_a_failure(self):
        self.assert_done(self.run_program("--input", self.write("in", lines_of(["a"]))))
        before = self.output()
        self.assertEqual(self.run_program("--input", self.write("bad", "x\n")).returncode, 1)
        self.assertEqual(self.output(), before)

    def test_a_folder_that_cannot_be_created(self):
        file = self.write("in.jsonl", lines_of(["a"]))
        result = self.run_program("--input", file, prefix=os.path.join(file, "sub", "out"))
        self.assert_error(result, 1, "cannot create folder .*: Not a directory")

    def test_a_folder_that_may_not_be_written(self):
        if os.geteuid() == 0:
            self.skipTest("root may write everywhere")
        file = self.write("in.jsonl", lines_of(["a"]))
        os.mkdir(self.path("locked"), 0o500)
        result = self.run_program("--input", file, prefix=self.path("locked", "out"))
        self.assert_error(result, 1, "cannot create .*: Permission denied")

    def small_disk(self):
        """A folder on a disk of 1 MiB, or the test is skipped."""
        disk = self.path("disk")
        os.mkdir(disk)
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk],
                               capture_output=True, text=True)
        if mount.returncode != 0:
            self.skipTest("needs to mount a tmpfs: " + mount.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", disk])
        return disk

    def test_a_full_disk_leaves_nothing(self):
        disk = self.small_disk()
        file = self.write("in.jsonl", lines_of(f"{i} some text" for i in range(200000)))
        result = self.run_program("--input", file, prefix=os.path.join(disk, "out"))
        self.assert_error(result, 1, ".*No space left on device")
        self.assertEqual(os.listdir(disk), [])

    def test_a_disk_that_fills_up_while_partitions_are_merged_leaves_nothing(self):
        disk = self.small_disk()
        file = self.write("in.jsonl", lines_of(["1 " * 4000] * 40))
        self.assert_done(self.run_program("--input", file))
        fits = os.path.getsize(self.path("out_text_document.bin"))
        self.assertLess(fits, 1 << 20)
        self.assertGreater(2 * fits, 1 << 20)
        result = self.run_program("--input", file, "--partitions", "2",
                                  prefix=os.path.join(disk, "out"))
        self.assert_error(result, 1, ".*No space left on device")
        self.assertEqual(os.listdir(disk), [])

    def test_a_user_s_own_files_stay(self):
        own = self.write("out_text_document.bin.partial-backup", "mine")
        self.assert_done(self.run_program("--input", self.write("in", lines_of(["a"]))))
        self.assertEqual(self.read(own), b"mine")

    def test_links_to_outputs_are_followed(self):
        os.mkdir(self.path("disk"))
        for end in ("bin", "idx"):
            os.symlink(f"disk/set.{end}", self.path("out_text_document." + end))
        self.assert_done(self.run_program("--input", self.write("in", lines_of(["a", "b"]))))
        self.assertEqual(sorted(os.listdir(self.path("disk"))), ["set.bin", "set.idx"])
        self.assertEqual(len(self.documents()), 2)
        self.assertTrue(os.path.islink(self.path("out_text_document.bin")))

    def test_a_disk_that_fills_up_at_the_end_leaves_nothing_of_any_key(self):
        disk = self.small_disk()
        # 30,000 sequences of one token: twice 60 KB of .bin, but 600 KB of .idx each at the end.
        file = self.write("in.jsonl", '{"a": "x", "b": "y"}\n' * 30000)
        result = self.run_program("--input", file, "--json-keys", "a", "b",
                                  prefix=os.path.join(disk, "out"))
        self.assert_error(result, 1, ".*No space left on device")
        self.assertEqual(os.listdir(disk), [])


class Slow(PreprocessData):
    def run_and_measure(self, *flags):
        """Peak resident memory of a run that must end well, bytes.

        A process inherits its parent's peak, so a small one stands between."""
        between = ("import resource, subprocess, sys; "
                   "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
                   "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        result = subprocess.run([sys.executable, "-c", between, *self.command(*flags)],
                                capture_output=True, text=True, timeout=600)
        self.assert_done(result)
        return int(result.stdout) * 1024

    def test_a_line_of_300_megabytes(self):
        paragraph = "the quick brown fox, 12345. " * 64 + "\\n\\u00e9 "
        file = self.path("in.jsonl")
        with open(file, "w") as out:
            out.write('{"text": "short"}\n{"text": "')
            for _ in range(300 * 1000 * 1000 // len(paragraph)):
                out.write(paragraph)
            out.write('"}\n{"text": "short"}\n')
        longest = os.path.getsize(file)
        self.assertGreater(longest, 290 * 1000 * 1000)
        for workers in (1, 2):
            peak = self.run_and_measure("--input", file, "--workers", str(workers))
            bound = 128 * MIB + workers * 64 * MIB + 6 * longest
            print(f"line of {longest / MIB:.0f} MiB, {workers} workers: "
                  f"peak {peak / MIB:.0f} MiB, bound {bound / MIB:.0f} MiB")
            self.assertLess(peak, bound)
            self.assertEqual([len(d) > 1000 for d in self.documents()], [False, True, False])

    def test_a_line_of_millions_of_short_texts(self):
        texts = 95 * MIB // 4
        file = self.path("in.jsonl")
        with open(file, "w") as out:
            out.write('{"text": ["a"' + ',"b"' * (texts - 1) + "]}\n")
        for workers in (1, 2):
            peak = self.run_and_measure("--input", file, "--workers", str(workers))
            bound = 128 * MIB + workers * 64 * MIB + 3 * os.path.getsize(file)
            print(f"{texts} texts, {workers} workers: "
                  f"peak {peak / MIB:.0f} MiB, bound {bound / MIB:.0f} MiB")
            self.assertLess(peak, bound)
            tokens, index = self.output()
            self.assertEqual(len(tokens), 2 * texts)
            self.assertEqual(struct.unpack_from("<QQ", index, 18), (texts, 2))


def main():
    global PROGRAM, TESTDATA
    arguments = sys.argv[1:]
    PROGRAM, TESTDATA = arguments[:2]
    slow = "--slow" in arguments
    rest = [a for a in arguments[2:] if a != "--slow"]
    names = [c.__name__ for c in PreprocessData.__subclasses__() if (c is Slow) == slow]
    unittest.main(argv=[sys.argv[0], *(rest or ["-v", *names])])


if __name__ == "__main__":
    main()
