#!/usr/bin/env python3
"""dataset_tool's views and copies, read by megatron-core 0.16.1, and by 0.19.2 where scripts/setup.sh unpacked it.

megatron_core_reads_views.py BIN TESTDATA/tokenizer [unittest arguments]
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy

try:
    import torch
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder
    from megatron.core.datasets.utils import Split
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

BIN = TOKENIZER = ""
NEWER = os.path.join(os.environ.get("MEG_DEPS", os.path.expanduser("~/.cache/libmeg")), "megatron-core-0.19.2")
READ = """
import sys
sys.path.insert(0, sys.argv[1])
from megatron.core.datasets.indexed_dataset import IndexedDataset
data = IndexedDataset(sys.argv[2])
for begin, end in zip(data.document_indices, data.document_indices[1:]):
    print([data[i].tolist() for i in range(begin, end)])
"""


class Tokenizer:
    unique_identifiers = {"class": "Tokenizer"}
    eod = 0
    pad = 0
    vocab_size = 1000


def write_dataset(prefix, documents, dtype=numpy.int32, modes=None):
    """documents: of sequences of tokens."""
    builder = IndexedDatasetBuilder(prefix + ".bin", dtype=dtype, multimodal=modes is not None)
    number = 0
    for document in documents:
        for sequence in document:
            builder.add_item(torch.tensor(sequence, dtype=torch.int64), *([modes[number]] if modes else []))
            number += 1
        builder.end_document()
    builder.finalize(prefix + ".idx")


def read_dataset(prefix, multimodal=False):
    # It does not map empty files.
    data = IndexedDataset(prefix, multimodal=multimodal, mmap=os.path.getsize(prefix + ".bin") > 0)
    documents = []
    for begin, end in zip(data.document_indices, data.document_indices[1:]):
        items = [data[i] for i in range(begin, end)]
        documents.append([(item[0].tolist(), int(item[1])) if multimodal else item.tolist() for item in items])
    return documents


class Views(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        generator = numpy.random.RandomState(7)
        self.documents = []
        for _ in range(200):
            sequences = generator.choice([0, 1, 1, 1, 3])
            self.documents.append([generator.randint(0, 1000, generator.randint(0, 60)).tolist() for _ in range(sequences)])
        write_dataset(self.path("d"), self.documents)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run_program(self, program, *arguments):
        return subprocess.run([os.path.join(BIN, program), *map(str, arguments)], capture_output=True, text=True, timeout=120)

    def tool(self, *arguments):
        done = self.run_program("dataset_tool", *arguments, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def error_of(self, *arguments):
        done = self.run_program("dataset_tool", *arguments)
        self.assertIn(done.returncode, (1, 2))
        return done.stderr.splitlines()[-1]

    def tokens(self, document):
        return sum(map(len, self.documents[document]))

    def orders(self):
        """Command lines, and the documents that they are to give."""
        count = len(self.documents)
        with open(self.path("list.txt"), "w") as file:
            file.write("5\n\n 17 , 3:6\n199\n")
        listed = [3, 4, 5, 17, 199]
        budget, kept = 1000, []
        for document in range(10, count, 3):
            budget -= self.tokens(document)
            if budget < 0:
                break
            kept.append(document)
        return [
            (("slice",), range(count)),
            (("slice", "--documents", "10:20"), range(10, 20)),
            (("slice", "--documents", "-5:"), range(count - 5, count)),
            (("slice", "--documents", ":7,5:9,199"), [*range(9), 199]),
            (("slice", "--every", 7), range(0, count, 7)),
            (("slice", "--documents", "0:10,50:61,70", "--every", 4), [*range(10), *range(50, 61), 70][::4]),
            (("slice", "--documents", "10:", "--every", 3, "--tokens", 1000), kept),
            (("slice", "--documents", "20:20"), []),
            (("exclude", "--documents", "0,5:9,-10:"), [d for d in range(count) if d not in (0, 5, 6, 7, 8) and d < count - 10]),
            (("exclude", "--document-list", self.path("list.txt")), [d for d in range(count) if d not in listed]),
            (("keep", "--document-list", self.path("list.txt")), listed),
            (("shuffle", "--seed", 11), numpy.random.RandomState(11).permutation(count)),
            (("sort",), sorted(range(count), key=self.tokens)),
            (("sort", "--descending"), sorted(range(count), key=self.tokens, reverse=True)),
        ]

    def test_views_and_copies_hold_the_documents(self):
        for number, ((command, *flags), documents) in enumerate(self.orders()):
            wanted = [self.documents[d] for d in documents]
            for copy in ((), ("--copy",)):
                with self.subTest(command=command, flags=flags, copy=copy):
                    prefix = self.path("out", f"{number}{'c' if copy else 'v'}")
                    answer = self.tool(command, self.path("d"), *flags, *copy, "--output-prefix", prefix)
                    self.assertEqual(read_dataset(prefix), wanted)
                    self.assertEqual(answer["documents"], len(wanted))
                    self.assertEqual(answer["left_out"], len(self.documents) - len(wanted))
                    self.assertEqual(answer["tokens"], sum(len(s) for d in wanted for s in d))
                    self.assertEqual(answer["view_of"], None if copy else "../d.bin")
                    self.assertEqual(os.path.islink(prefix + ".bin"), not copy)
                    verified = self.run_program("verify", "dataset", prefix)
                    self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
                    self.assertEqual("a view of ../d.bin" in verified.stdout, not copy)
                    inspected = self.run_program("dataset_inspect", prefix)
                    self.assertEqual((inspected.returncode, inspected.stderr), (0, ""))

    def test_orders_of_many_documents(self):
        """More than are looked up one by one: of one sequence each, with a document that is empty and one of two, and with modes."""
        generator = numpy.random.RandomState(3)
        plain = [[generator.randint(0, 1000, generator.randint(0, 4)).tolist()] for _ in range(20_000)]
        mixed = plain[:7000] + [[]] + plain[7000:9000] + [plain[0] + plain[1]] + plain[9000:]
        for name, documents, modes in (("plain", plain, None), ("mixed", mixed, None), ("modes", plain, [i % 3 for i in range(len(plain))])):
            write_dataset(self.path(name), documents, modes=modes)
            whole = read_dataset(self.path(name), modes is not None)
            count = len(whole)
            for order, arguments in ((numpy.random.RandomState(5).permutation(count), ("shuffle", "--seed", 5)),
                                     (range(0, count, 2), ("slice", "--every", 2)),
                                     (sorted(range(count), key=lambda d: sum(map(len, documents[d]))), ("sort",))):
                wanted = [whole[d] for d in order]
                for copy in ((), ("--copy",)):
                    self.tool(*arguments, self.path(name), *copy, "--output-prefix", self.path(name + "".join(copy) + "-out"))
                    self.assertEqual(read_dataset(self.path(name + "".join(copy) + "-out"), modes is not None), wanted, (name, arguments, copy))

    def test_the_copy_is_what_merging_the_view_gives(self):
        self.tool("shuffle", self.path("d"), "--output-prefix", self.path("v"))
        self.tool("shuffle", self.path("d"), "--copy", "--output-prefix", self.path("c"))
        self.assertEqual(self.run_program("merge_datasets", self.path("v"), "--output-prefix", self.path("m")).returncode, 0)
        for end in (".bin", ".idx"):
            with open(self.path("c" + end), "rb") as copy, open(self.path("m" + end), "rb") as merged:
                self.assertEqual(copy.read(), merged.read())

    def test_views_of_views_point_at_the_tokens(self):
        self.tool("slice", self.path("d"), "--documents", "50:150", "--output-prefix", self.path("a"))
        self.tool("slice", self.path("a"), "--every", 2, "--output-prefix", self.path("sub", "b"))
        self.assertEqual(os.readlink(self.path("sub", "b.bin")), "../d.bin")
        os.remove(self.path("a.idx"))
        os.remove(self.path("a.bin"))
        self.assertEqual(read_dataset(self.path("sub", "b")), self.documents[50:150:2])

    def test_views_of_one_file_are_joined_as_a_view(self):
        self.tool("slice", self.path("d"), "--documents", "50:90", "--output-prefix", self.path("a"))
        self.tool("shuffle", self.path("d"), "--seed", 2, "--output-prefix", self.path("sub", "b"))
        self.tool("slice", self.path("d"), "--documents", "3:3", "--output-prefix", self.path("none"))
        shuffled = [self.documents[d] for d in numpy.random.RandomState(2).permutation(200)]
        wanted = self.documents[50:90] + shuffled + self.documents + self.documents[50:90]
        parts = [self.path("a"), self.path("sub", "b.idx"), self.path("none"), self.path("d"), self.path("a")]
        for copy in ((), ("--copy",)):
            out = self.path("j" + "".join(copy))
            answer = self.tool("concat", *parts, *copy, "--output-prefix", out)
            self.assertEqual(answer["view_of"], None if copy else "d.bin")
            self.assertEqual((answer["datasets"], answer["documents"]), (5, len(wanted)))
            self.assertEqual(read_dataset(out), wanted)
            self.assertEqual(self.run_program("verify", "dataset", out).returncode, 0)
        # Modes, and a part without sequences, which has none.
        for name, documents in (("m", self.documents), ("e", [[], []])):
            write_dataset(self.path(name), documents, modes=[i % 3 for i in range(sum(map(len, documents)))])
        self.tool("slice", self.path("m"), "--documents", ":0", "--output-prefix", self.path("m0"))
        self.tool("concat", self.path("m0"), self.path("m"), self.path("m"), "--output-prefix", self.path("mm"))
        self.assertEqual(read_dataset(self.path("mm"), True), read_dataset(self.path("m"), True) * 2)

    def test_datasets_of_several_files_are_joined_as_a_copy(self):
        write_dataset(self.path("e"), self.documents[:20])
        self.tool("shuffle", self.path("d"), "--seed", 2, "--output-prefix", self.path("v"))
        done = self.run_program("dataset_tool", "concat", self.path("e"), self.path("v"), "--output-prefix", self.path("j"))
        self.assertIn("note: copied: the tokens are in several .bin files, and an .idx points into one", done.stderr)
        self.assertFalse(os.path.islink(self.path("j.bin")))
        shuffled = [self.documents[d] for d in numpy.random.RandomState(2).permutation(200)]
        self.assertEqual(read_dataset(self.path("j")), self.documents[:20] + shuffled)
        write_dataset(self.path("f"), self.documents[:3], numpy.int64)
        self.assertIn("expected dtype int32 as in", self.error_of("concat", self.path("e"), self.path("f"), "--output-prefix",
                                                                  self.path("x")))
        for parts in (("e", "v", "d"), ("d", "v", "v")):
            self.assertIn("expected another dataset than the source", self.error_of(
                "concat", *map(self.path, parts), "--output-prefix", self.path(parts[-1])))

    def test_modes_and_dtypes_come_along(self):
        for dtype in (numpy.uint16, numpy.int64, numpy.uint8):
            modes = [i % 3 for i in range(sum(map(len, self.documents)))]
            documents = [[[t % 200 for t in s] for s in d] for d in self.documents]
            write_dataset(self.path("m"), documents, dtype, modes)
            whole = read_dataset(self.path("m"), multimodal=True)
            for copy in ((), ("--copy",)):
                out = self.path("m" + "".join(copy))
                self.tool("slice", self.path("m"), "--every", 3, *copy, "--output-prefix", out + "v")
                self.assertEqual(read_dataset(out + "v", multimodal=True), whole[::3])
                self.assertEqual(IndexedDataset(out + "v", multimodal=True).index.dtype, dtype)

    def test_the_newer_core_reads_views(self):
        if not os.path.isdir(NEWER):
            self.skipTest("no megatron-core 0.19.2: scripts/setup.sh unpacks it")
        self.tool("shuffle", self.path("d"), "--seed", 5, "--output-prefix", self.path("v"))
        done = subprocess.run([sys.executable, "-c", READ, NEWER, self.path("v")], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        wanted = [self.documents[d] for d in numpy.random.RandomState(5).permutation(len(self.documents))]
        self.assertEqual([json.loads(line) for line in done.stdout.splitlines()], wanted)

    def test_samples_of_a_view_are_those_of_the_copy(self):
        samples = []
        for copy in ((), ("--copy",)):
            prefix = self.path("t" + "".join(copy))
            self.tool("exclude", self.path("d"), "--documents", "3:90:".rstrip(":"), *copy, "--output-prefix", prefix)
            data = IndexedDataset(prefix)
            config = GPTDatasetConfig(
                random_seed=1, sequence_length=16, blend=([prefix], None), split="100,0,0", tokenizer=Tokenizer(),
                reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False,
                path_to_cache=self.path("cache" + "".join(copy)), mid_level_dataset_surplus=0.005)
            dataset = GPTDataset(data, prefix, numpy.arange(len(data.document_indices) - 1, dtype=numpy.int32), 90,
                                 Split.train, config)
            samples.append([dataset[i]["tokens"].tolist() for i in range(90)])
        self.assertEqual(samples[0], samples[1])

    def test_provenance_and_tokenizer_follow(self):
        for name, count in (("one", 40), ("two", 60)):
            with open(self.path(name + ".jsonl"), "w") as file:
                file.writelines(json.dumps({"text": f"{name} {i}"}) + "\n" for i in range(count))
        done = self.run_program("preprocess_data", "--input", self.path("one.jsonl"), self.path("two.jsonl"), "--output-prefix",
                                self.path("p"), "--tokenizer-type", "GPT2BPETokenizer", "--vocab-file",
                                os.path.join(TOKENIZER, "vocab.json"), "--merge-file", os.path.join(TOKENIZER, "merges.txt"),
                                "--provenance")
        self.assertEqual(done.returncode, 0, done.stderr)
        source = self.path("p_text_document")
        for copy in ((), ("--copy",)):
            out = self.path("q" + "".join(copy))
            self.tool("exclude", source, "--matching", r"one\.jsonl$", *copy, "--output-prefix", out)
            self.assertEqual(len(read_dataset(out)), 60)
            traced = self.run_program("dataset_inspect", out, "--document", "7", "--trace", "--json")
            self.assertEqual(json.loads(traced.stdout)["trace"]["source"]["file"], self.path("two.jsonl"))
            with open(out + ".libmeg") as ours, open(source + ".libmeg") as theirs:
                self.assertEqual(json.load(ours)["tokenizer"], json.load(theirs)["tokenizer"])
        self.assertIn("p_text_document.provenance", self.error_of(
            "keep", self.path("d"), "--matching", "x", "--output-prefix", self.path("x")).replace(
                "d.provenance", "p_text_document.provenance"))
        self.assertIn("missing )", self.error_of("keep", source, "--matching", "(", "--output-prefix", self.path("x")))

    def test_a_changed_file_is_named(self):
        self.tool("slice", self.path("d"), "--documents", "10:20", "--output-prefix", self.path("v"))
        with open(self.path("d.bin"), "ab") as file:
            file.write(b"1234")
        for program, arguments in (("verify", ["dataset"]), ("dataset_inspect", []), ("merge_datasets", ["--output-prefix", "x"])):
            done = self.run_program(program, *arguments, self.path("v"))
            self.assertEqual(done.returncode, 1)
            self.assertIn("d.bin had when", done.stdout + done.stderr)
        os.truncate(self.path("d.bin"), os.path.getsize(self.path("d.bin")) - 4)
        shutil.copy(self.path("d.bin"), self.path("saved.bin"))
        self.assertEqual(self.run_program("verify", "dataset", self.path("v")).returncode, 0)
        # Another file of the same size: the same documents in another order.
        write_dataset(self.path("d"), self.documents[::-1])
        for program, arguments in (("verify", ["dataset"]), ("dataset_inspect", []),
                                   ("dataset_tool", ["repair", "--output-prefix", self.path("w")])):
            done = self.run_program(program, *arguments, self.path("v"))
            self.assertEqual(done.returncode, 1)
            self.assertIn("expected the content that d.bin had when it was made, found another", done.stdout + done.stderr)
        os.remove(self.path("d.bin"))
        for program, arguments in (("verify", ["dataset"]), ("dataset_inspect", [])):
            self.assertIn("v.bin: a view: expected d.bin, found no such file",
                          self.run_program(program, *arguments, self.path("v")).stderr)
        # A file that was moved takes its views along where a link takes its place.
        shutil.move(self.path("saved.bin"), self.path("moved.bin"))
        os.symlink("moved.bin", self.path("d.bin"))
        self.assertEqual(self.run_program("verify", "dataset", self.path("v")).returncode, 0)
        with open(self.path("moved.bin"), "r+b") as file:
            file.truncate(os.path.getsize(self.path("moved.bin")) // 2)
        for program, arguments in (("verify", ["dataset"]), ("dataset_inspect", []), ("dataset_tool", ["stat"]),
                                   ("dataset_tool", ["slice", "--output-prefix", self.path("w")]),
                                   ("dataset_tool", ["repair", "--output-prefix", self.path("w")]),
                                   ("dataset_tool", ["concat", self.path("v"), "--output-prefix", self.path("w")])):
            done = self.run_program(program, *arguments, self.path("v"))
            self.assertEqual(done.returncode, 1)
            self.assertIn("d.bin had when", done.stdout + done.stderr)
        os.remove(self.path("d.bin"))
        os.symlink("v.bin", self.path("d.bin"))
        for program, arguments in (("dataset_inspect", []), ("dataset_tool", ["slice", "--output-prefix", self.path("w")]),
                                   ("dataset_tool", ["concat", self.path("v"), "--output-prefix", self.path("w")]),
                                   ("merge_datasets", ["--output-prefix", self.path("w")])):
            done = self.run_program(program, *arguments, self.path("v"))
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("Too many levels of symbolic links", done.stderr.splitlines()[-1])
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("w")], [])
        self.assertIn("v.bin: Too many levels of symbolic links", self.run_program("verify", "dataset", self.path("v")).stderr)

    def test_data_is_never_replaced_by_a_link(self):
        write_dataset(self.path("other"), self.documents[:3])
        before = read_dataset(self.path("other"))
        self.assertIn("other.bin: expected no file, or the link of a view, found data",
                      self.error_of("slice", self.path("d"), "--output-prefix", self.path("other")))
        self.assertIn("expected another dataset than the source",
                      self.error_of("slice", self.path("d"), "--output-prefix", self.path("d.idx")))
        self.tool("slice", self.path("d"), "--output-prefix", self.path("v"))
        self.assertIn("found the link of a view to d.bin: remove the view first",
                      self.error_of("shuffle", self.path("d"), "--copy", "--output-prefix", self.path("v")))
        # Files are written through links: this would replace d.bin.
        merged = self.run_program("merge_datasets", self.path("other"), "--output-prefix", self.path("v"))
        self.assertEqual(merged.returncode, 1)
        self.assertIn("v.bin: expected a file of the dataset's own as output, found the link of a view to d.bin", merged.stderr)
        self.assertEqual(read_dataset(self.path("other")), before)
        self.assertEqual(read_dataset(self.path("v")), self.documents)
        # A view takes the place of a view.
        self.tool("slice", self.path("d"), "--documents", ":5", "--output-prefix", self.path("v"))
        self.assertEqual(read_dataset(self.path("v")), self.documents[:5])

    def test_no_index_stays_when_a_view_cannot_be_replaced(self):
        # What a kill between two removals leaves, without the kill: the index of a view is none without the file that says so.
        self.tool("shuffle", self.path("d"), "--output-prefix", self.path("v"))
        os.makedirs(self.path("v.provenance", "full"))
        self.assertIn("v.provenance: Directory not empty", self.error_of(
            "shuffle", self.path("d"), "--seed", 3, "--output-prefix", self.path("v")))
        self.assertFalse(os.path.exists(self.path("v.idx")))

    def test_no_page_takes_the_place_of_a_dataset(self):
        self.tool("slice", self.path("d"), "--output-prefix", self.path("v"))
        for prefix, ending in (("d", ".bin"), ("d", ".idx"), ("v", ".bin"), ("v", ".libmeg")):
            with open(self.path(prefix + ending), "rb") as file:
                before = file.read()
            self.assertIn(f"found {self.path(prefix + ending)} among them",
                          self.error_of("stat", self.path(prefix), "--html", self.path(prefix + ending)))
            with open(self.path(prefix + ending), "rb") as file:
                self.assertEqual(file.read(), before)

    def test_an_exclusion_of_nothing_is_told(self):
        done = self.run_program("dataset_tool", "exclude", self.path("d"), "--document-list", self.write("none", "\n"),
                                "--output-prefix", self.path("x.bin"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("warning: all documents: nothing was left out", done.stderr)
        self.assertIn(f"wrote {self.path('x')}.{{bin,idx}}", done.stdout)

    def test_bad_input_is_one_line(self):
        out = ("--output-prefix", self.path("x"))
        for wanted, arguments in (
                ("documents of 0 to 199, found 200", ("keep", self.path("d"), "--documents", "200")),
                ('such as 5 or 10:20, found "a"', ("keep", self.path("d"), "--documents", "1,a")),
                ("list: line 2: expected documents of 0 to 199, found 777",
                 ("exclude", self.path("d"), "--document-list", self.write("list", "1\n777\n"))),
                ("expected one of --documents, --document-list and --matching, found 0", ("exclude", self.path("d"))),
                # An empty variable of a shell.
                ('--documents: expected documents such as 5 or 10:20, found ""', ("exclude", self.path("d"), "--documents", "")),
                ('"": expected a name for the new dataset, found none', ("slice", self.path("d"), "--output-prefix", "")),
                ("expected a name for the new dataset", ("shuffle", self.path("d"), "--copy", "--output-prefix", self.path("f/"))),
                ("expected a name for the new dataset", ("convert", self.path("d"), "--output-prefix", "")),
                ('--matching: expected a regular expression, found "(": missing )', ("keep", self.path("d"), "--matching", "(")),
                ("found 2", ("exclude", self.path("d"), "--documents", "1", "--matching", "x")),
                ("zeros: line 1: expected documents such as 5 or 10:20", ("keep", self.path("d"), "--document-list",
                                                                        self.write("zeros", "\0\xff1\n"))),
                ("huge: line 1: expected documents such as 5 or 10:20, found", ("keep", self.path("d"), "--document-list",
                                                                              self.write("huge", "99999999999999999999\n"))),
                ("negative: line 3: expected documents of 0 to 199, found -1",
                 ("keep", self.path("d"), "--document-list", self.write("negative", "\n\n-1\n"))),
                ("nolist: No such file", ("exclude", self.path("d"), "--document-list", self.path("nolist"))),
                ("missing.idx: No such file", ("slice", self.path("missing"))),
                ("expected one of slice, exclude, keep, shuffle, sort", ("slce", self.path("d")))):
            self.assertIn(wanted, self.error_of(*arguments, *(() if "--output-prefix" in arguments else out)))
        with open(self.path("d.idx"), "r+b") as file:
            file.seek(34 + 4 * 20)
            file.write(b"\xff\xff\xff\x7f")
        self.assertIn("sequence 20", self.error_of("slice", self.path("d"), *out))
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("x")], [])

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def test_killed_at_any_time_it_leaves_a_whole_dataset_or_none(self):
        """MEG_KILLS: how many of each command."""
        write_dataset(self.path("big"), [[[d % 1000] * 40] for d in range(60_000)])
        whole = 0
        for attempt in range(int(os.environ.get("MEG_KILLS", 15))):
            for name, command in (("k", ["shuffle", "--seed", str(attempt)]), ("c", ["shuffle", "--copy"]),
                                  ("j", ["concat", self.path("big")]), ("m", ["convert", "--dtype", "int64"])):
                prefix = self.path(name)
                process = subprocess.Popen([os.path.join(BIN, "dataset_tool"), *command, self.path("big"), "--output-prefix", prefix],
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(0.004 * (attempt % 15))
                process.send_signal(signal.SIGKILL)
                process.wait()
                if not os.path.exists(prefix + ".idx"):
                    continue
                whole += 1
                verified = self.run_program("verify", "dataset", prefix)
                self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        self.tool("shuffle", self.path("big"), "--output-prefix", self.path("k"))
        self.assertEqual([name for name in os.listdir(self.folder) if ".partial" in name and name.startswith("k.")], [])


if __name__ == "__main__":
    BIN, TOKENIZER = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main()
