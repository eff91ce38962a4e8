#!/usr/bin/env python3
"""One flipped bit in what is pickled, in any file of any dialect: no program continues with it.

damaged_pickles_test.py BIN_DIR TESTDATA [unittest arguments]
Whoever puts rank files together (distributed optimizers, shards, experts) must have compared each
file's pickle with the CRC-32 that its archive records.
"""
import os
import random
import shutil
import struct
import sys
import tempfile
import unittest
import zipfile

try:
    from reference import cases
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

BIN = TESTDATA = ""
GOLDEN = ["gpt_tp1pp1_bf16_distopt_dp2", "gpt_tp2pp2_bf16_distopt",
          "mcore_gpt_tp1pp1_bf16_distopt_dp2", "mcore_moe_tp1pp1_ep2_bf16",
          "core_shift_fp32_tied_pp3_ranks", "gpt_tp1pp3_vpp2_fp16", "v050_legacy_llama_tp2pp1_bf16",
          "dist_gpt_tp2pp1_bf16_distopt_dp2", "dist_gpt_tp1pp1_bf16_distopt_zero_dp2",
          "v0161_dist_gpt_tp2pp1_bf16_distopt_dp2", "hf_gpt2_bin"]
FLIPS = 2


def sources():
    """Folders of every dialect that has archives."""
    found = {"testdata": os.path.join(TESTDATA, "checkpoint"),
             "shards": os.path.join(TESTDATA, "optimizer_shards", "fp16_dp3", "shards")}
    for case in GOLDEN:
        if os.path.isdir(cases.path(case)):
            found[case] = cases.path(case)
    return found


def archives(root):
    """Files that hold pickles, with where the first of each lies: (path, first byte, length)."""
    for folder, _, files in os.walk(root):
        for name in sorted(files):
            path = os.path.join(folder, name)
            if name.endswith((".pt", ".bin")) and zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
                    info = next(one for one in archive.infolist()
                                if one.filename.endswith("/data.pkl"))
                    file.seek(info.header_offset + 26)
                    sizes = struct.unpack("<HH", file.read(4))
                yield path, info.header_offset + 30 + sum(sizes), info.file_size


class Flips(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def copy(self, name):
        root = os.path.join(self.folder, name)
        shutil.copytree(sources()[name], root)
        for parent, folders, files in os.walk(root):
            for entry in [*folders, *files, "."]:
                os.chmod(os.path.join(parent, entry), 0o755)
        return root

    def program(self, name, *flags):
        return cases.run(os.path.join(BIN, name), *flags)

    def runs(self, root, whole):
        """The finished processes of all programs that read a checkpoint, by their command line."""
        saved = os.path.join(self.folder, "saved")
        for target in ("torch", "torch_dist"):
            command = ["checkpoint_util", "--load-dir", root, "--save-dir", saved, "--target-format",
                       target]
            yield command, self.program(*command)
            self.assertFalse(os.path.exists(saved))
        for flags in (["checkpoint_inspect", root],
                      ["verify", "checkpoint", root], ["verify", "diff", root, whole],
                      ["verify", "manifest", root, "--write", "--manifest",
                       os.path.join(self.folder, "manifest.json")]):
            yield flags, self.program(*flags)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "manifest.json")))

    def check(self, name, path, root):
        for command, process in self.runs(root, sources()[name]):
            where = (name, os.path.basename(path), command[:2], process.stdout[-300:])
            self.assertEqual(process.returncode, 1, where)
            self.assertIn("error: ", process.stderr, where)

    def flipped(self, path, at, bit):
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ bit]))

    def test_no_program_takes_one_at_a_random_place(self):
        rng = random.Random(39)
        for name in sources():
            root = self.copy(name)
            for path, first, size in list(archives(root)):
                for _ in range(FLIPS):
                    at, bit = first + rng.randrange(size), 1 << rng.randrange(8)
                    with self.subTest(source=name, file=os.path.relpath(path, root), at=at, bit=bit):
                        self.flipped(path, at, bit)
                        self.check(name, path, root)
                    self.flipped(path, at, bit)
            shutil.rmtree(root)

    def test_no_program_takes_another_learning_rate(self):
        """The sample that was once converted, with a new valid CRC."""
        seen = 0
        for name in sources():
            root = self.copy(name)
            for path, first, size in list(archives(root)):
                with open(path, "rb") as file:
                    file.seek(first)
                    pickle = file.read(size)
                # The key lr of args, its memo number, then a float.
                at = next((key + end for key in [pickle.find(b"X\x02\x00\x00\x00lr")] if key >= 0
                           for end in [pickle[key:key + 24].find(b"G")] if end >= 0), -1)
                if at < 0:
                    continue
                seen += 1
                with self.subTest(source=name, file=os.path.relpath(path, root)):
                    self.flipped(path, first + at + 2, 0x10)
                    self.check(name, path, root)
                self.flipped(path, first + at + 2, 0x10)
            shutil.rmtree(root)
        self.assertGreater(seen, 3)

    def test_who_loads_weights_does_not_take_one_either(self):
        if not os.path.exists(os.path.join(BIN, "evaluate_gpt")):
            self.skipTest("without LibTorch")
        text = os.path.join(self.folder, "text")
        with open(text, "w") as file:
            file.write("3 4 5 6 7\n")
        for name in ("gpt_tp1pp1_bf16_distopt_dp2", "testdata"):
            if name not in sources():
                continue
            root = self.copy(name)
            # Without the optimizer nothing of distrib_optim.pt is read.
            path, first, size = next(found for found in archives(root)
                                     if found[0].endswith("model_optim_rng.pt"))
            tokenizer = ["--tokenizer-type", "NullTokenizer", "--vocab-size", "75", "--seq-length", "32",
                         "--allow-other-tokenizer"]
            commands = [
                ["evaluate_gpt", "--task", "WIKITEXT103", "--valid-data", text, "--load", root, "--device", "cpu"],
                ["pretrain_gpt", "--load", root, "--mock-data", "--micro-batch-size", "1",
                 "--train-iters", "1", "--lr", "1e-3", "--use-checkpoint-args", "--device", "cpu"]]
            self.flipped(path, first + size // 2, 4)
            for command in commands:
                process = self.program(*command, *(tokenizer[:-1] if command[0] != "evaluate_gpt"
                                                   else tokenizer))
                self.assertEqual(process.returncode, 1, (command, process.stdout[-300:]))
                self.assertIn("data.pkl", process.stderr, command)
                self.assertIn("CRC-32", process.stderr, command)


if __name__ == "__main__":
    BIN, TESTDATA = sys.argv[1], sys.argv[2]
    del sys.argv[1:3]
    unittest.main()
