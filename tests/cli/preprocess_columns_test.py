#!/usr/bin/env python3
"""preprocess_data of Parquet and Arrow files, written by pyarrow: the documents are those of JSON lines."""
import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys

import preprocess_case
from preprocess_case import PreprocessData, lines_of

try:
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.ipc
    import pyarrow.parquet
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

MODULE = "libmeg_arrow_module.so"


def built_module():
    """The module that reads such files, or None in a build without Arrow."""
    build = os.path.dirname(os.path.dirname(preprocess_case.PROGRAM))
    return next(iter(glob.glob(os.path.join(build, "lib*", "**", MODULE), recursive=True)), None)


def texts_of(count, seed=1):
    source = random.Random(seed)
    words = ["a", "some words", "é", "\u4e2d\n", "", "\U0001F600", "x" * 300, "the end."]
    return [" ".join(source.choice(words) for _ in range(source.randrange(12))) for _ in range(count)]


class Columns(PreprocessData):
    def setUp(self):
        super().setUp()
        self.texts = texts_of(3000)
        if built_module() is None:
            self.skipTest("built without Arrow")
        self.assert_done(self.run_program("--input", self.write("in.jsonl", lines_of(self.texts)), "--append-eod",
                                          prefix=self.path("expected")))

    def table(self, texts=None, type=None, **others):
        return pa.table({"id": range(len(self.texts)), "text": pa.array(texts or self.texts, type), **others})

    def parquet(self, table, name="in", **options):
        pa.parquet.write_table(table, self.path(name), **{"row_group_size": 700, **options})
        return self.path(name)

    def ipc(self, table, name="in", stream=False, compression=None):
        options = pa.ipc.IpcWriteOptions(compression=compression)
        new = pa.ipc.new_stream if stream else pa.ipc.new_file
        with pa.OSFile(self.path(name), "wb") as sink, new(sink, table.schema, options=options) as writer:
            writer.write_table(table, max_chunksize=700)
        return self.path(name)

    def assert_expected(self, file, *flags):
        self.assert_done(self.run_program("--input", file, "--append-eod", *flags))
        self.assertEqual(self.output(), self.output("expected"))

    def test_parquet(self):
        for compression in ("none", "snappy", "gzip", "zstd", "lz4", "brotli"):
            with self.subTest(compression):
                self.assert_expected(self.parquet(self.table(), compression=compression))
        self.assert_expected(self.parquet(self.table(), data_page_version="2.0", use_dictionary=False))
        self.assert_expected(self.parquet(self.table(), version="1.0", row_group_size=1))

    def test_pages_of_all_encodings(self):
        required = pa.schema([pa.field("text", pa.string(), nullable=False)])
        for schema in (required, pa.schema([pa.field("text", pa.string())])):
            table = pa.table({"text": self.texts}, schema=schema)
            for options in ({}, {"data_page_size": 100, "write_batch_size": 7}, {"dictionary_pagesize_limit": 2000},
                            *({"use_dictionary": False, "column_encoding": {"text": encoding}, "data_page_version": version}
                              for encoding in ("PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY")
                              for version in ("1.0", "2.0"))):
                for rows in (700, 5000):
                    with self.subTest(schema=str(schema), rows=rows, **options):
                        self.assert_expected(self.parquet(table, row_group_size=rows, **options))

    def test_row_groups_of_all_sizes_keep_their_order_and_places(self):
        table = pa.table({"text": self.texts * 8})
        flags = ("--provenance", "--workers", "5")
        for sizes in ((300, 9000), (1, 40, 5000, 2), (9000, 1, 4096, 4097)):
            with pa.parquet.ParquetWriter(self.path("in"), table.schema) as writer:
                at = 0
                while at < len(table):
                    for size in sizes:
                        writer.write_table(table.slice(at, size), row_group_size=size)
                        at += size
            lines = self.write("all.jsonl", lines_of(table["text"].to_pylist()))
            self.assert_done(self.run_program("--input", lines, prefix=self.path("all")))
            with self.subTest(sizes):
                self.assert_done(self.run_program("--input", self.path("in"), *flags))
                self.assertEqual(self.output(), self.output("all"))
                places = self.read("out_text_document.provenance")
                self.assert_done(self.run_program("--input", self.path("in"), *flags, "--max-documents", "5000"))
                self.assertEqual(len(self.documents()), 5000)
                self.assert_done(self.run_program("--input", self.path("in"), "--provenance", "--workers", "1"))
                self.assertEqual(self.read("out_text_document.provenance"), places)

    def test_arrow(self):
        for stream in (False, True):
            for compression in (None, "lz4", "zstd"):
                with self.subTest(stream=stream, compression=compression):
                    self.assert_expected(self.ipc(self.table(), stream=stream, compression=compression))
        pa.feather.write_feather(self.table(), self.path("in"))
        self.assert_expected(self.path("in"))

    def test_types(self):
        dictionary = pa.dictionary(pa.int32(), pa.string())
        for type in (pa.string(), pa.large_string(), pa.string_view(), dictionary,
                     pa.dictionary(pa.int8(), pa.large_string())):
            texts = self.texts if type != pa.dictionary(pa.int8(), pa.large_string()) else self.texts[:90]
            with self.subTest(str(type)):
                table = pa.table({"text": pa.array(texts).cast(type) if type == pa.string_view() else
                                  pa.array(texts).dictionary_encode().cast(type) if pa.types.is_dictionary(type) else
                                  pa.array(texts, type)})
                self.assert_done(self.run_program("--input", self.write("some.jsonl", lines_of(texts)),
                                                  prefix=self.path("some")))
                for file in (self.parquet(table), self.ipc(table)):
                    self.assert_done(self.run_program("--input", file))
                    self.assertEqual(self.output(), self.output("some"))

    def test_lists_of_sentences_and_several_keys(self):
        lists = [[text, "b"] if i % 3 else [] for i, text in enumerate(self.texts)]
        lines = "".join(json.dumps({"s": s, "text": t}) + "\n" for s, t in zip(lists, self.texts))
        keys = ("--json-keys", "text", "s")
        self.assert_done(self.run_program("--input", self.write("lists.jsonl", lines), *keys, prefix=self.path("lists")))
        for type in (pa.list_(pa.string()), pa.large_list(pa.large_string())):
            table = pa.table({"s": pa.array(lists, type), "id": range(len(lists)), "text": self.texts})
            for file in (self.parquet(table), self.ipc(table), self.ipc(table, stream=True)):
                self.assert_done(self.run_program("--input", file, *keys))
                for key in ("text", "s"):
                    for end in ("bin", "idx"):
                        self.assertEqual(self.read(f"out_{key}_document.{end}"), self.read(f"lists_{key}_document.{end}"))

    def test_bad_rows_have_their_place(self):
        texts = list(self.texts)
        texts[1405] = None
        for file in (self.parquet(self.table(texts)), self.ipc(self.table(texts))):
            self.assert_error(self.run_program("--input", file), 1,
                              f"{file}: row group 2, row 5: expected a string or a list of strings, found null")
            done = self.run_program("--input", file, "--on-error", "skip")
            self.assert_done(done)
            self.assertIn("skipped lines: 1", done.stdout)
        lists = pa.table({"text": pa.array([["a"], ["b", None]], pa.list_(pa.string()))})
        self.assert_error(self.run_program("--input", self.parquet(lists)), 1, ".*row group 0, row 1: .*a list with null")
        invalid = pa.table({"text": pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())})
        self.assert_error(self.run_program("--input", self.parquet(invalid)), 1, ".*row group 0, row 1: expected UTF-8")

    def test_bytes_that_are_utf8_are_texts(self):
        values = [text.encode() for text in self.texts]
        for type in (pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.binary())):
            array = pa.array(values, pa.binary())
            array = array.dictionary_encode() if pa.types.is_dictionary(type) else array.cast(type)
            table = pa.table({"text": array})
            for file in (self.parquet(table), self.parquet(table, store_schema=False), self.ipc(table)):
                with self.subTest(f"{type} {file}"):
                    self.assert_expected(file)
        wrong = pa.table({"text": pa.array([b"a", b"\xff"], pa.binary())})
        for file in (self.parquet(wrong), self.ipc(wrong)):
            self.assert_error(self.run_program("--input", file), 1, ".*row group 0, row 1: expected UTF-8")

    def test_texts_inside_structs(self):
        titles = self.texts[::-1]
        meta = pa.array([{"id": i, "text": text, "more": {"title": title}}
                         for i, (text, title) in enumerate(zip(self.texts, titles))])
        self.assert_done(self.run_program("--input", self.write("t.jsonl", lines_of(titles)), "--append-eod",
                                          prefix=self.path("titles")))
        table = pa.table({"id": range(len(self.texts)), "meta": meta})
        for file in (self.parquet(table), self.ipc(table), self.ipc(table, stream=True)):
            self.assert_done(self.run_program("--input", file, "--append-eod", "--json-keys", "meta.text",
                                              "meta.more.title"))
            for key, expected in (("meta.text", "expected"), ("meta.more.title", "titles")):
                for end in ("bin", "idx"):
                    self.assertEqual(self.read(f"out_{key}_document.{end}"), self.read(f"{expected}_text_document.{end}"))
            self.assert_error(self.run_program("--input", file), 1,
                              ".*in: expected a column text, found id, meta.id, meta.text, meta.more.title")
            self.assert_error(self.run_program("--input", file, "--json-keys", "meta.id"), 1,
                              ".*column meta.id: expected strings or lists of strings, found int64")
            self.assert_error(self.run_program("--input", file, "--json-keys", "meta"), 1, ".*column meta: expected strings")
        named = pa.table({"meta.text": self.texts, "meta": meta})
        self.assert_done(self.run_program("--input", self.parquet(named), "--append-eod", "--json-keys", "meta.text"))
        self.assertEqual(self.read("out_meta.text_document.bin"), self.read("expected_text_document.bin"))
        nothing = pa.table({"meta": pa.array([{"text": "a"}, None])})
        for file in (self.parquet(nothing), self.ipc(nothing)):
            self.assert_error(self.run_program("--input", file, "--json-keys", "meta.text"), 1,
                              ".*row group 0, row 1: expected a string or a list of strings, found null")

    def test_descriptions_beside_arrow_files_are_left_aside(self):
        os.mkdir(self.path("saved"))
        for name in ("state.json", "dataset_info.json"):
            self.write(f"saved/{name}", json.dumps({"text": "description"}, indent=2))
        self.ipc(self.table(), name="saved/data-00000-of-00001.arrow", stream=True)
        for input in (self.path("saved"), self.path("saved", "*")):
            done = self.run_program("--input", input, "--append-eod")
            self.assert_done(done)
            self.assertEqual(self.output(), self.output("expected"))
            for name in ("state.json", "dataset_info.json"):
                self.assertIn(f"{self.path('saved', name)}: left aside: it describes the .arrow files beside it\n",
                              done.stderr)
        self.assert_error(self.run_program("--input", self.path("saved", "state.json")), 1, ".*line 1, byte 2")

    def test_files_without_the_column_are_found_before_work_begins(self):
        os.mkdir(self.path("raw"))
        self.parquet(self.table(), name="raw/a.parquet")
        self.parquet(pa.table({"content": ["a"]}), name="raw/b.parquet")
        result = self.run_program("--input", self.path("raw"), prefix=self.path("raw", "a.parquet", "out"))
        self.assert_error(result, 1, ".*b.parquet: expected a column text, found content")

    def test_columns_that_are_no_text(self):
        self.assert_error(self.run_program("--input", self.parquet(self.table()), "--json-keys", "no"), 1,
                          ".*in: expected a column no, found id, text")
        self.assert_error(self.run_program("--input", self.parquet(self.table()), "--json-keys", "id"), 1,
                          ".*in: column id: expected strings or lists of strings, found int64")
        twice = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], ["text", "text"])
        self.assert_error(self.run_program("--input", self.ipc(twice)), 1, ".*expected one column text, found 2")

    def test_content_decides_and_not_the_name(self):
        self.assert_expected(self.parquet(self.table(), name="in.txt"))
        self.assert_error(self.run_program("--input", self.write("x.parquet", b"{}")), 1, ".*its name says Parquet")
        self.assert_error(self.run_program("--input", self.write("x.arrow", b"")), 1, ".*its name says Parquet")
        self.assert_error(self.run_program("--input", self.write("x", b"FEA1xxxx")), 1, ".*Feather version 1")
        self.assert_error(self.run_program("--input", self.write("x", b"PARE" * 9)), 1, ".*encrypted Parquet")
        packed = subprocess.run(["gzip", "-c", self.parquet(self.table())], check=True, stdout=subprocess.PIPE).stdout
        self.assert_error(self.run_program("--input", self.write("y", packed)), 1, ".*Parquet: expected a regular file")

    def test_shards_and_first_documents(self):
        merge = os.path.join(os.path.dirname(preprocess_case.PROGRAM), "merge_datasets")
        os.mkdir(self.path("inputs"))
        self.parquet(self.table(self.texts), name="inputs/a", row_group_size=100)
        self.ipc(self.table(self.texts), name="inputs/b")
        self.ipc(self.table(self.texts), name="inputs/c", stream=True)
        self.assert_done(self.run_program("--input", self.path("inputs"), prefix=self.path("expected")))
        for count in (2, 5):
            os.mkdir(self.path(f"shards{count}"))
            for index in range(count):
                self.assert_done(self.run_program("--input", self.path("inputs"), "--shard", f"{index}/{count}",
                                                  prefix=self.path(f"shards{count}", "s")))
            subprocess.run([merge, "--input", self.path(f"shards{count}"), "--key", "text", "--output-prefix",
                            self.path("out_text_document")], check=True, capture_output=True)
            self.assertEqual(self.output(), self.output("expected"))
        self.assert_done(self.run_program("--input", self.path("inputs"), "--max-documents", "3456"))
        self.assertEqual(len(self.documents()), 3456)

    def test_goes_on_after_kills(self):
        table = pa.table({"text": self.texts * 40})
        self.assert_done(self.run_program("--input", self.parquet(table, row_group_size=5000), prefix=self.path("expected")))
        flags = ("--input", self.path("in"), "--resume", "--workers", "2")
        for _ in range(3):
            process = self.start(*flags)
            try:
                process.wait(0.15)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
        self.assert_done(self.run_program(*flags))
        self.assertEqual(self.output(), self.output("expected"))

    def test_damage_is_one_line(self):
        source = random.Random(2)
        small = self.table()
        for file in (self.parquet(small, name="p"), self.ipc(small, name="a"), self.ipc(small, name="s", stream=True),
                     self.ipc(small, name="z", compression="zstd")):
            whole = self.read(os.path.basename(file))
            damaged = [whole[:at] for at in (7, 50, len(whole) // 2, len(whole) - 9, len(whole) - 1)]
            for _ in range(25):
                at = source.choice([source.randrange(6, len(whole)), len(whole) - 1 - source.randrange(600)])
                damaged.append(whole[:at] + bytes(source.randrange(256) for _ in range(4)) + whole[at + 4:])
            for number, content in enumerate(damaged):
                with self.subTest(f"{file} {number}"):
                    result = self.run_program("--input", self.write("damaged", content))
                    self.assertIn(result.returncode, (0, 1), result.stderr)
                    if result.returncode == 1:
                        self.assert_error(result, 1, ".")
                        others = [line for line in result.stderr.splitlines() if not line.startswith("Processed ")]
                        self.assertEqual(len(others), 1, result.stderr)

    def test_checksums_of_pages_are_compared(self):
        table = pa.table({"text": ["some words"] * 100})
        file = self.parquet(table, use_dictionary=False, compression="none", write_page_checksum=True)
        self.assert_done(self.run_program("--input", file))
        whole = self.read("in")
        at = [found.start() for found in re.finditer(b"some words", whole)][50]
        changed = whole[:at] + b"same" + whole[at + 4:]
        self.assert_error(self.run_program("--input", self.write("in", changed)), 1,
                          ".*in: Arrow: could not verify page integrity, CRC checksum")


class Module(PreprocessData):
    def assert_refused(self, found, **environment):
        result = self.run_program("--input", self.write("in", b"PAR1"), env={**os.environ, **environment})
        self.assert_error(result, 1, f"{self.path('in')}: Parquet file: expected {MODULE}, .*found .*{found}")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    def test_build_without_it_names_it(self):
        if built_module() is not None:
            self.skipTest("built with Arrow")
        self.assert_refused("No such file or directory")

    def test_module_that_does_not_load_is_one_line(self):
        self.write(MODULE, b"no library")
        self.assert_refused("file too short|invalid ELF header", LD_LIBRARY_PATH=self.folder)

    def test_library_that_is_not_it_is_refused(self):
        ours = subprocess.run(["ldd", preprocess_case.PROGRAM], check=True, capture_output=True, text=True).stdout
        other = next(line.split()[2] for line in ours.splitlines() if "libz.so" in line)
        shutil.copy(other, self.path(MODULE))
        self.assert_refused("undefined symbol: meg_column_module", LD_LIBRARY_PATH=self.folder)

    def test_programs_start_without_arrow(self):
        for program in ("preprocess_data", "train_tokenizer", "tokenizer_inspect"):
            path = os.path.join(os.path.dirname(preprocess_case.PROGRAM), program)
            libraries = subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout
            self.assertNotRegex(libraries, "libarrow|libparquet")


if __name__ == "__main__":
    preprocess_case.main()
