#!/usr/bin/env python3
"""preprocess_data as a process: files, pipes, formats, shards."""
import bz2
import csv
import gzip
import io
import json
import lzma
import os
import random
import re
import resource
import subprocess
import tarfile
import time

import preprocess_case
from preprocess_case import PreprocessData, lines_of


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

    def test_an_address_is_named(self):
        for address in "gs://bucket/in.jsonl", "https://host/*.jsonl.gz":
            result = self.run_program("--input", address)
            self.assert_error(result, 1, f".*{re.escape(address)}: expected a path on this machine or s3://: "
                                         "other addresses are not read")
        self.assertEqual(self.files(), [])

    def test_what_is_not_read_is_named(self):
        line = lines_of(["a"])
        for content, pattern in {line.encode("utf-16"): "UTF-16", line.encode("utf-32"): "UTF-16 or UTF-32",
                                 b"\xfe\xff" + line.encode("utf-16-be"): "UTF-16: expected UTF-8",
                                 bz2.compress(line.encode()): "bzip2 is not supported", b"PK\x03\x04": "zip is not",
                                 b"\x04\x22\x4d\x18": "lz4 is not", b"7z\xbc\xaf\x27\x1c": "7-Zip is not",
                                 lzma.compress(line.encode(), lzma.FORMAT_ALONE): ".lzma is not",
                                 b"LZIP\x01": "lzip is not", self.tar(line): "tar is not",
                                 gzip.compress(self.tar(line)): "tar is not", b"\x1f\x9d\x90": ".Z .compress. is not",
                                 gzip.compress(gzip.compress(line.encode())): "compressed twice"}.items():
            for name in ("in.jsonl", "in.csv", "in.txt"):
                self.assert_error(self.run_program("--input", self.write(name, content)), 1, f".*/{name}: {pattern}")
        with open(self.write("in", line.encode("utf-16")), "rb") as file:
            self.assert_error(self.run_program("--input", "-", stdin=file), 1, "standard input: UTF-16")
        result = subprocess.run(self.command("--input", "-"), input=bz2.compress(line.encode()), capture_output=True)
        self.assertIn(b"error: standard input: bzip2", result.stderr)
        self.assertEqual(self.files(), [])

    def tar(self, content):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as out:
            info = tarfile.TarInfo("in.jsonl")
            info.size = len(content)
            out.addfile(info, io.BytesIO(content.encode()))
        return packed.getvalue()

    def refuse_before_work(self, folder, name, content, pattern, code=1):
        """A last file of a folder that is no data ends the run before anything is written."""
        self.write(f"{folder}/{name}", content)
        for input in (self.path(folder), self.path(folder, "*")):
            # An output that cannot be written is found when the first document is to be written.
            result = self.run_program("--input", input, prefix=self.path("raw", "first.jsonl", "out"))
            self.assert_error(result, code, f".*{re.escape(name)}: {pattern}")
        os.unlink(self.path(folder, name))

    def test_a_file_that_is_no_data_is_found_before_work_begins(self):
        os.mkdir(self.path("raw"))
        for name in ("first.jsonl", "second.jsonl"):
            self.write("raw/" + name, lines_of(["a"]))
        pretty = json.dumps({"citation": "", "description": ""}, indent=2)
        others = re.escape(f" (a pattern such as '{self.path('raw')}/*.jsonl' leaves this file out)") + "$"
        refuse = lambda *arguments: self.refuse_before_work("raw", *arguments)
        refuse("zz.md", "---\nlicense: mit\n", r"line 1, byte 1: expected a JSON object, found .*" + others)
        refuse("zz.json", pretty, r"line 1, byte 2: .* found the end of the line .JSON lines: one object a line." + others)
        refuse("zz.info", json.dumps({"citation": ""}) + "\n", 'line 1, byte 1: key "text" is missing.*' + others)
        refuse("zz.md.gz", gzip.compress(b"\n\n# Data\n"), r"line 3, byte 1: expected a JSON object.*" + others)
        refuse("zz.list", "[1, 2]", "line 1, byte 2: expected a JSON object as the array's element.*" + others)
        refuse("zz.zip", b"PK\x03\x04", "zip is not supported: decompress it" + others)
        refuse("zz.csv", "id,words\n1,a\n", ".*expected a column text.*" + others)
        refuse("zz.txt", '{"text": "a"}\n', "its name says plain text, but its first byte JSON.*" + others, 2)
        refuse("zz.jsonl", pretty, r"line 1, byte 2: .* .if it is no data, name the other files or a pattern of them.$")
        self.write("raw/zz.md", "# Data\n")
        done = self.run_program("--input", self.path("raw"), "--on-error", "skip")
        self.assert_done(done)
        self.assertIn("skipped lines: 1", done.stdout)
        self.assertEqual(len(self.documents()), 2)

    def test_what_cannot_be_judged_early_is_read_as_before(self):
        os.mkdir(self.path("raw"))
        long = json.dumps({"text": "a " * (1 << 20)}) + "\n"
        self.write("raw/a.jsonl", b"\n" * 200000 + lines_of(["a"]).encode())
        self.write("raw/b.jsonl", long)
        self.write("raw/c.json", "[" + long + "]")
        self.write("raw/d.txt", "x" * (2 << 20))
        self.write("raw/e", "")
        self.assert_done(self.run_program("--input", self.path("raw")))
        self.assertEqual(len(self.documents()), 4)

    def test_a_window_that_is_too_large_has_a_way_out(self):
        file = self.write("in.zst", b"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00")  # as zstd --long=31 writes it
        self.assert_error(self.run_program("--input", file), 1,
                          r".*in.zst: expected a window of at most 128 MiB, found a larger one: decompress it in a "
                          r"pipe .zstd -dc --long=31 FILE . ... --input -.$")

    def test_one_share_of_one_says_its_name(self):
        done = self.run_program("--input", self.write("in", lines_of(["a"])), "--shard", "0/1")
        self.assert_done(done)
        self.assertIn("note: --shard: share 0 of 1 is all of the input; the datasets have the names that they have "
                      "without --shard\n", done.stderr)
        self.assertEqual(self.files(), preprocess_case.dataset_files("out_text_document"))

    def test_outputs_are_no_inputs(self):
        os.mkdir(self.path("raw"))
        line = lines_of(["a"])
        self.write("raw/in.jsonl", line)
        os.symlink("raw", self.path("link"))
        found = "expected inputs without the files to be written, found .*out_text_document.(bin|idx) among them"
        for input in ("raw", "link", "raw/", "raw/*", "r*/o*", "./raw/out_*"):
            result = self.run_program("--input", self.path(input), prefix=self.path("raw", "out"))
            self.assert_error(result, 2, re.escape(self.path(input)) + ": " + found)
        self.assertEqual(os.listdir(self.path("raw")), ["in.jsonl"])
        for input in ("raw", "raw/*"):
            for flags in (("--partitions", "2"), ("--shard", "1/2"), ("--resume",), ("--json-keys", "x", "text")):
                result = self.run_program("--input", input, *flags, prefix="raw/out", cwd=self.folder)
                self.assert_error(result, 2, re.escape(input) + ": expected inputs without .*found raw/out_")
        for name in ("in_text_document.bin", "in_text_document.idx"):
            file = self.write(name, line)
            self.assert_error(self.run_program("--input", file, prefix=self.path("in")), 2, f"{file}: {found[:50]}")
            self.assertEqual(self.read(name), line.encode())
        os.symlink("in_text_document.idx", self.path("other.jsonl"))
        self.assert_error(self.run_program("--input", self.path("other.jsonl"), prefix=self.path("in")), 2, ".*other.jsonl")
        for input in ("raw/*.jsonl", "raw/in.jsonl"):
            self.assert_done(self.run_program("--input", self.path(input), prefix=self.path("raw", "out")))
        self.assert_done(self.run_program("--input", self.path("raw", "in.jsonl"), prefix=self.path("raw", ".out")))

    def test_any_name_is_one_line(self):
        file = self.write("line\nend \x1b[1m.jsonl", lines_of(["a"]))
        self.assert_done(self.run_program("--input", file))
        self.write("line\nend \x1b[1m.jsonl", "bad")
        self.assert_error(self.run_program("--input", file), 1, r".*/line\\nend \\x1b\[1m\.jsonl: line 1, byte 1")

    def test_a_dataset_at_an_address_is_named(self):
        file = self.write("in.jsonl", lines_of(["a"]))
        pattern = ("s3://bucket/out.*: expected a path on this machine: only input datasets may be at addresses")
        for flags in ((), ("--resume",)):
            result = self.run_program("--input", file, *flags, prefix="s3://bucket/out", cwd=self.folder)
            self.assert_error(result, 1, pattern)
        folder = os.path.dirname(preprocess_case.PROGRAM)
        for command in (["merge_datasets", "msc://p/out", "--output-prefix", self.path("out")],
                        ["dataset_inspect", "msc://p/out"], ["verify", "dataset", "msc://p/out"]):
            result = subprocess.run([os.path.join(folder, command[0]), *command[1:]], capture_output=True, text=True)
            self.assert_error(result, 1, "msc://p/out: expected a path on this machine or s3://: datasets at other "
                                         "addresses are not supported")
        self.assertEqual(self.files("*"), ["in.jsonl"])

    def test_a_pattern_without_files_is_named(self):
        self.assert_error(self.run_program("--input", self.path("*.none")), 1, ".*none: no file")

    def test_a_folder_without_files_is_named(self):
        os.mkdir(self.path("empty"))
        self.assert_error(self.run_program("--input", self.path("empty")), 1, ".*: no file in this folder$")
        for name in ("2024", "2023", ".cache"):
            os.mkdir(self.path("empty", name))
        self.assert_error(self.run_program("--input", self.path("empty")), 1,
                          ".*: no file in this folder; folders are not read: 2 in it, such as .*/empty/2023$")
        self.write("empty/dataset_dict.json", '{"splits": ["2024", "2023"]}')  # of datasets' save_to_disk
        self.assert_error(self.run_program("--input", self.path("empty")), 1, ".*: no file in this folder; folders are")

    def test_folders_that_are_not_read_are_named(self):
        os.makedirs(self.path("raw", "more"))
        os.mkdir(self.path("raw", ".cache"))
        self.write("raw/in.jsonl", lines_of(["a"]))
        self.write("raw/more/in.jsonl", lines_of(["b"]))
        done = self.run_program("--input", self.path("raw"))
        self.assert_done(done)
        self.assertEqual(len(self.documents()), 1)
        self.assertIn(f"warning: {self.path('raw')}: folders are not read: 1 in it, such as {self.path('raw', 'more')}\n",
                      done.stderr)
        done = self.run_program("--input", self.path("raw", "*.jsonl"), self.path("raw", "more"))
        self.assert_done(done)
        self.assertNotIn("warning", done.stderr)

    def test_flags_of_a_format_that_no_input_has_are_named(self):
        file = self.write("in.tsv", lines_of(["a"]))
        for flags, named in ((["--csv-column", "text"], "--csv-column, --csv-header: no input is a csv"),
                             (["--txt-document", "line"], "--txt-document, --txt-separator: no input is plain text")):
            done = self.run_program("--input", file, *flags)
            self.assert_done(done)
            self.assertIn(f"warning: {named}, by its name\n", done.stderr)
            done = self.run_program("--input", file, self.write("in" + (".csv" if "csv" in named else ".txt"), "text\n"), *flags)
            self.assert_done(done)
            self.assertNotIn("warning", done.stderr)

    def test_leading_blanks_cost_their_bytes_once(self):
        packed = gzip.compress(b" " * (96 << 20), 1) + gzip.compress(b"\n" + lines_of(["a"]).encode())
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        self.assert_done(self.run_program("--input", self.write("blank.gz", packed)))
        # Looked at from the begin for each MiB that comes, they cost half a minute.
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, 10)
        self.assertEqual(len(self.documents()), 1)

    def test_a_file_that_is_read_twice_is_named(self):
        os.mkdir(self.path("raw"))
        for name in ("a", "b"):
            self.write(f"raw/{name}.jsonl", lines_of([name]))
        os.symlink("raw/a.jsonl", self.path("link.jsonl"))
        for extra in (self.path("raw", "a.jsonl"), self.path("link.jsonl")):
            done = self.run_program("--input", self.path("raw"), extra)
            self.assert_done(done)
            self.assertEqual(len(self.documents()), 3)
            self.assertIn(f"warning: {extra}: is read twice\n", done.stderr)
        done = self.run_program("--input", self.path("raw"), self.path("raw", "*"))
        self.assertIn(f"warning: {self.path('raw', 'a.jsonl')}: is read twice, as are others: 2 inputs in all\n",
                      done.stderr)


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
        self.assert_same("--input", self.write("IN.CSV.GZ", gzip.compress(with_header.encode())), "--csv-column", "content")

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
            result = self.run_program("--input", self.write("more", module.compress(lines) + b"\n"))
            self.assert_error(result, 1, ".*more: damaged: not an? (gzip member|xz stream) after the last one")
        bomb = self.write("bomb.xz", lzma.compress(b" " * (100 << 20), preset=0))
        self.assert_error(self.run_program("--input", bomb), 1, ".*bomb.xz: .* expected at most 2000 per byte")

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
        merge = os.path.join(os.path.dirname(preprocess_case.PROGRAM), "merge_datasets")
        subprocess.run([merge, "--input", self.path("shards"), "--key", "text",
                        "--output-prefix", self.path("out_text_document")], check=True, capture_output=True)
        self.assertEqual(self.output(), self.output("expected"))
        for shard in ("4/4", "1", "-1/2", "1/2x", "auto"):
            environment = {k: v for k, v in os.environ.items() if not k.startswith(("RANK", "OMPI", "SLURM"))}
            environment.pop("WORLD_SIZE", None)
            self.assert_error(self.run_program("--input", file, "--shard", shard, env=environment), 2, "--shard")

    def test_shards_of_other_inputs_or_flags_are_not_merged(self):
        merge = os.path.join(os.path.dirname(preprocess_case.PROGRAM), "merge_datasets")
        os.mkdir(self.path("shards"))
        os.mkdir(self.path("elsewhere"))
        command = [merge, "--input", self.path("shards"), "--key", "text", "--output-prefix", self.path("both")]
        for name, lines, flags, pattern in (
                ("in", self.texts, ["--append-eod"], ""),
                ("in", self.texts, [], "found append_eod false, there true"),
                ("in", self.texts, ["--append-eod", "--megatron-version", "v2.6"],
                 "found skip_empty_documents true, there false"),
                ("in2", self.texts, ["--append-eod"], "found inputs 1 of .*, there 1 of"),
                ("in", self.texts + ["more"], ["--append-eod"], "found inputs 1 of .*, there 1 of"),
                ("elsewhere/in", self.texts, ["--append-eod"], "")):
            first = self.write("in", lines_of(self.texts))
            self.assert_done(self.run_program("--input", first, "--shard", "0/2", "--append-eod",
                                              prefix=self.path("shards", "s")))
            self.assert_done(self.run_program("--input", self.write(name, lines_of(lines)), "--shard", "1/2", *flags,
                                              prefix=self.path("shards", "s")))
            merged = subprocess.run(command, capture_output=True, text=True)
            if not pattern:
                self.assert_done(merged)
                os.remove(self.path("both.idx"))
            else:
                self.assert_error(merged, 1, ".*s_shard00001of00002_text_document: expected a shard of the same run as "
                                             f".*s_shard00000of00002_text_document, {pattern}")
                self.assertFalse(os.path.exists(self.path("both.idx")))

    def test_the_first_documents(self):
        self.expect(lines_of(self.texts[:123]))
        self.assert_same("--input", self.write("in", lines_of(self.texts)), "--max-documents", "123")


if __name__ == "__main__":
    preprocess_case.main()
