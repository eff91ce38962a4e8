"""What tests of preprocess_data share: running it, its outputs, its errors."""
import glob
import json
import os
import re
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


def dataset_files(*prefixes):
    """What preprocess_data writes of datasets, sorted."""
    return [prefix + ending for prefix in prefixes for ending in (".bin", ".idx", ".libmeg")]


def lines_of(texts):
    return "".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(texts))


def tntidx(index):
    """The TNTIDX file of the dataset of int32 whose MMIDIDX file is `index`."""
    sequences, document_indices = struct.unpack_from("<QQ", index, 18)
    lengths = struct.unpack_from(f"<{sequences}i", index, 34)
    documents = index[34 + 12 * sequences:]
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + length)
    return (b"TNTIDX\0\0" + struct.pack("<6Q", 1, 4, 4, sequences, sequences, document_indices)
            + struct.pack(f"<{sequences + 1}q", *range(sequences + 1)) + struct.pack(f"<{sequences + 1}q", *offsets)
            + struct.pack(f"<{sequences}q", *lengths) + documents)


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


def main():
    """Runs the test cases of the script, whose arguments are PROGRAM TESTDATA [unittest arguments]."""
    global PROGRAM, TESTDATA
    PROGRAM, TESTDATA = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *(sys.argv[3:] or ["-v"])])
