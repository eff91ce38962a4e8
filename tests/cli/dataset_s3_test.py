#!/usr/bin/env python3
"""Datasets in a store that moto plays: inspected, verified, merged and prepared as those on this machine are."""
import array
import glob
import itertools
import json
import os
import random
import re
import shutil
import struct
import subprocess

import preprocess_case
from moto_store import BUCKET, MotoStore
from preprocess_case import lines_of, tntidx, tokenizer_flags

CODES = {"B": 1, "b": 2, "h": 3, "i": 4, "q": 5, "d": 6, "f": 7, "H": 8}


def dataset(lengths, code="i", modes=b"", order=None, value=lambda i: i % 97):
    """The bytes of .bin and .idx, two sequences a document; order: of the sequences in .bin."""
    items = array.array(code, (value(i) for i in range(sum(lengths))))
    starts = [0, *itertools.accumulate(lengths)]
    order = order if order is not None else range(len(lengths))
    pointers = [starts[k] * items.itemsize for k in order]
    documents = [*range(0, len(order), 2), len(order)]
    return items.tobytes(), b"".join((
        b"MMIDIDX\0\0", struct.pack("<QBQQ", 1, CODES[code], len(order), len(documents)),
        struct.pack(f"<{len(order)}i", *(lengths[k] for k in order)), struct.pack(f"<{len(order)}q", *pointers),
        struct.pack(f"<{len(documents)}q", *documents), modes))


class Datasets(MotoStore):
    def setUp(self):
        super().setUp()
        # Copies of .idx without a name lie here.
        self.environment["TMPDIR"] = self.path("tmp")
        os.mkdir(self.path("tmp"))

    def program(self, name, *flags):
        program = os.path.join(os.path.dirname(preprocess_case.PROGRAM), name)
        return subprocess.run([program, *flags], capture_output=True, text=True, timeout=300, env=self.environment)

    def put_dataset(self, name, content):
        """A dataset in the store and on this machine; returns its address and prefix."""
        for ending, part in zip((".bin", ".idx"), content):
            self.put(f"sets/{name}{ending}", part)
        return f"s3://{BUCKET}/sets/{name}", self.path(name)

    def assert_same(self, name, address, prefix, *flags):
        """A program prints the same for both, except the name, and warns of the same."""
        here = self.program(name, *flags[:1], prefix, *flags[1:]) if name == "verify" else self.program(
            name, prefix, *flags)
        there = self.program(name, *flags[:1], address, *flags[1:]) if name == "verify" else self.program(
            name, address, *flags)
        self.assertEqual((there.returncode, there.stdout, there.stderr),
                         (here.returncode, here.stdout.replace(prefix, address),
                          here.stderr.replace(prefix, address)))
        return here

    def made(self):
        draw = random.Random(3)
        lengths = [draw.randrange(1, 400) for _ in range(300)]
        yield "int32", dataset(lengths)
        tokens, index = dataset(lengths)
        yield "tntidx", (tokens, tntidx(index))
        yield "uint16", dataset(lengths, "H")
        yield "float32", dataset(lengths, "f", value=lambda i: i / 8)
        yield "modes", dataset(lengths[:20], "b", modes=bytes(range(20)))
        yield "view", dataset(lengths, "q", order=draw.choices(range(300), k=400))
        yield "empty", dataset([])
        # More than one request of the largest size, and documents of a few items and of many.
        yield "large", dataset([draw.choice([1, 9, 40_000]) for _ in range(300)], "i")

    def test_they_are_inspected_and_verified_as_files_are(self):
        for name, content in self.made():
            with self.subTest(name):
                pair = self.put_dataset(name, content)
                self.assert_same("dataset_inspect", *pair, "--json", "--histogram")
                if name != "empty":
                    self.assert_same("dataset_inspect", *pair, "--json", "--document", "7")
                    self.assert_same("dataset_inspect", *pair, "--sequence", "19")
                checks = ["--view"] if name == "view" else []
                if name != "float32":
                    checks += ["--vocab-size", "96", "--eod", "3"]
                report = self.assert_same("verify", *pair, "dataset", *checks, "--json")
                found = [problem["check"] for problem in json.loads(report.stdout)["problems"]]
                self.assertEqual("vocab_size" in found, name not in ("float32", "empty"), report.stdout)
        self.assertEqual(os.listdir(self.path("tmp")), [])

    def test_damage_is_found_as_in_files(self):
        bin_, idx = dataset([5, 6, 7])
        for name, damaged in {"magic": (bin_, b"x" + idx[1:]), "cut_index": (bin_, idx[:60]), "cut": (bin_[:-4], idx),
                              "old": (bin_, b"TNTIDX\0\0" + idx), "lengths": (bin_, idx[:34] + b"\xff" * 4 + idx[38:])}.items():
            with self.subTest(name):
                pair = self.put_dataset(name, damaged)
                self.assert_same("verify", *pair, "dataset")
                self.assert_same("dataset_inspect", *pair)

    def test_they_are_merged_as_files_are(self):
        sets = {name: self.put_dataset(name, content) for name, content in self.made()}
        for names, flags in ((("int32", "int32", "large"), ()), (("uint16", "int32"), ("--dtype", "int64")),
                             (("view", "view"), ()), (("modes",), ("--multimodal",)), (("float32",), ())):
            with self.subTest(names):
                outputs = []
                for side in (0, 1):
                    output = self.path(f"merged{side}")
                    result = self.program("merge_datasets", *(sets[name][side] for name in names), *flags,
                                          "--output-prefix", output)
                    self.assert_done(result)
                    outputs.append([self.read(f"merged{side}{ending}") for ending in (".bin", ".idx")])
                self.assertEqual(*outputs)

    def test_a_folder_of_them_is_merged(self):
        os.mkdir(self.path("parts"))
        for name in ("b10", "a", "b2"):
            for ending, part in zip((".bin", ".idx"), dataset([len(name), 3])):
                self.put(f"parts/{name}{ending}", part)
                shutil.move(self.path(name + ending), self.path("parts"))
        for output, folder in (("here", self.path("parts")), ("there", f"s3://{BUCKET}/parts/")):
            self.assert_done(self.program("merge_datasets", "--input", folder, "--output-prefix", self.path(output)))
        self.assertEqual(*(self.read(name) for name in ("here.bin", "there.bin")))
        self.assertEqual(*(self.read(name) for name in ("here.idx", "there.idx")))
        self.put("parts/c.bin", b"")
        result = self.program("merge_datasets", "--input", f"s3://{BUCKET}/parts/", "--output-prefix", self.path("x"))
        self.assert_error(result, 1, f"s3://{BUCKET}/parts/c.idx: expected this file beside .*, found none")

    def test_what_lies_beside_them_is_read(self):
        source = self.write("in.jsonl", lines_of(["one", "two words"]))
        self.assert_done(self.run_program("--input", source, "--provenance", "--append-eod"))
        files = glob.glob(self.path("out_text_document.*"))
        self.assertEqual(len(files), 4)
        for file in files:
            with open(file, "rb") as content:
                self.s3.put_object(Bucket=BUCKET, Key="beside/" + os.path.basename(file), Body=content.read())
        pair = f"s3://{BUCKET}/beside/out_text_document", self.path("out_text_document")
        shown = self.assert_same("dataset_inspect", *pair, "--document", "1", "--decode", *tokenizer_flags())
        self.assertIn("two words", shown.stdout)
        other = self.write("merges.txt", "#version: 0.2\no n\n")
        self.assert_same("dataset_inspect", *pair, "--document", "1", "--decode", *tokenizer_flags(merges=other))
        for side, name in zip(pair, ("there", "here")):
            self.assert_done(self.program("merge_datasets", side, side, "--output-prefix", self.path(name)))
        for ending in (".bin", ".idx", ".libmeg", ".provenance"):
            self.assertEqual(self.read("here" + ending), self.read("there" + ending))

    def test_the_index_is_copied_once(self):
        address, prefix = self.put_dataset("cached", dataset([50] * 200, "H"))
        flags = ["--seq-length", "16", "--tokenizer-type", "NullTokenizer", "--vocab-size", "100", "--samples", "9,2,1",
                 "--split", "80,10,10"]
        places = ["--object-storage-cache-path", self.path("idx"), "--data-cache-path", self.path("cache")]

        def prepare(data, *more):
            return self.program("prepare_cache", "--data-path", data, *flags, *more)

        self.assert_error(prepare(address, *places[2:]), 1, f"{address}: expected --object-storage-cache-path ")
        self.assert_error(prepare(address, *places[:2]), 1, f"{address}: expected --data-cache-path ")
        self.assert_done(prepare(address, *places))
        copy = self.path("idx", BUCKET, "sets", "cached.idx")
        first = os.stat(copy)
        self.assertEqual(sorted(os.listdir(os.path.dirname(copy))), ["cached.idx", "cached.idx.etag"])
        self.assert_done(prepare(address, "--s3-cache-path", *places[1:]))  # as it was called before
        self.assertEqual(os.stat(copy).st_ino, first.st_ino)
        self.assert_done(prepare(prefix, "--data-cache-path", self.path("here")))
        # Their names begin with a hash of what has the dataset's name in it.
        here, there = ({os.path.basename(file).split("-", 1)[1]: self.read(file) for file in glob.glob(self.path(name, "*.npy"))}
                       for name in ("here", "cache"))
        self.assertEqual(len(here), 9)
        self.assertEqual(here, there)
        # Another content of the same size, and a copy that is not of libmeg: both are made again.
        self.put_dataset("cached", dataset([49, 51] * 100, "H"))
        self.assert_done(prepare(address, *places))
        self.assertEqual(self.read(copy), self.read(prefix + ".idx"))
        os.remove(copy + ".etag")
        self.write(copy, b"x" * os.path.getsize(copy))
        self.assert_done(prepare(address, *places))
        self.assertEqual(self.read(copy), self.read(prefix + ".idx"))

    def test_training_sees_the_same(self):
        if not os.path.exists(os.path.join(os.path.dirname(preprocess_case.PROGRAM), "pretrain_gpt")):
            self.skipTest("built without LibTorch")
        draw = random.Random(4)
        content = dataset([draw.randrange(1, 60) for _ in range(400)], "H", value=lambda i: i * i % 97)
        losses = []
        for data in self.put_dataset("corpus", content):
            result = self.program(
                "pretrain_gpt", "--num-layers", "1", "--hidden-size", "16", "--num-attention-heads", "2", "--seq-length",
                "32", "--max-position-embeddings", "32", "--micro-batch-size", "4", "--train-iters", "5", "--eval-iters",
                "1", "--lr", "1e-2", "--log-interval", "1", "--data-path", data, "--split", "80,10,10",
                "--tokenizer-type", "NullTokenizer", "--vocab-size", "100", "--data-cache-path",
                self.path("cache", str(len(losses))), "--object-storage-cache-path", self.path("idx"))
            self.assert_done(result)
            losses.append(re.findall(r"lm loss:? *([-+.E\d]+)", result.stdout))
        self.assertGreaterEqual(len(losses[0]), 5)
        self.assertEqual(*losses)

    def test_what_is_wrong_is_one_line(self):
        address, _ = self.put_dataset("set", dataset([3]))
        self.put("sets/lone.idx", dataset([3])[1])
        tokens, index = dataset([3])
        old, _ = self.put_dataset("old", (tokens, tntidx(index)))
        for name, flags, code, pattern in (
                ("merge_datasets", [old, "--output-prefix", self.path("x")], 1,
                 f"{old}.idx: expected MMIDIDX, found TNTIDX, which is merged from files only"),
                ("dataset_inspect", [address + "x"], 1, f"{address}x.idx: no such object"),
                ("verify", ["dataset", f"s3://{BUCKET}/sets/lone"], 1, ".*/sets/lone.bin: no such object"),
                ("dataset_inspect", ["msc://profile/set"], 1, "msc://profile/set: expected a path .* or s3://"),
                ("merge_datasets", [address, "--output-prefix", f"s3://{BUCKET}/out"], 1,
                 f"s3://{BUCKET}/out: expected a path on this machine"),
                ("merge_datasets", ["--input", f"s3://{BUCKET}/none/", "--output-prefix", self.path("x")], 1,
                 f"s3://{BUCKET}/none/: no such object"),
                ("dataset_inspect", [f"s3://{BUCKET}/a/../../x", "--object-storage-cache-path", self.path("idx")], 1,
                 ".*")):
            with self.subTest(pattern):
                result = self.program(name, *flags)
                self.assert_error(result, code, pattern)
                self.assertEqual(result.stderr.count("error:"), 1)
        self.s3.put_object(Bucket=BUCKET, Key="../../out.idx", Body=dataset([3])[1])
        result = self.program("dataset_inspect", f"s3://{BUCKET}/../../out", "--object-storage-cache-path", self.path("idx"))
        self.assert_error(result, 1, ".*/../../out.idx: expected an address without .. for a copy in ")
        self.assertFalse(os.path.exists(self.path("idx")))


if __name__ == "__main__":
    preprocess_case.main()
