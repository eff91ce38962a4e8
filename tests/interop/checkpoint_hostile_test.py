#!/usr/bin/env python3
"""Hostile and damaged files: no program crashes, hangs, takes much memory or does what a file says.

checkpoint_hostile_test.py BIN_DIR TESTDATA [unittest arguments]
"""
import argparse
import glob
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import zipfile

try:
    import torch

    from reference import cases
    from reference.spoilt import SECONDS, SpoiltCheckpoint, run_tests
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


MEGABYTES = 300


class Damage(SpoiltCheckpoint):
    def test_every_truncation_is_refused(self):
        with open(self.rank(), "rb") as file:
            data = file.read()
        for size in random.Random(1).sample(range(len(data)), 20) + [0, 1, 4, 21, 22]:
            with open(self.rank(), "wb") as file:
                file.write(data[:size])
            with self.subTest(size=size):
                self.assert_refused(self.reshape(), "mp_rank_01_001")
                self.assert_nothing_saved()

    def test_damaged_bytes_never_crash(self):
        with open(self.rank(), "rb") as file:
            data = file.read()
        rng = random.Random(2)
        for _ in range(60):
            damaged = bytearray(data)
            place = rng.choice([rng.randrange(len(data)), rng.randrange(9000),
                                len(data) - 1 - rng.randrange(8000)])
            for at in range(place, min(place + rng.choice([1, 1, 2, 8]), len(data))):
                damaged[at] = rng.randrange(256)
            with open(self.rank(), "wb") as file:
                file.write(damaged)
            for name, flags in (("checkpoint_inspect", [self.source]),
                                ("verify", ["checkpoint", self.source])):
                process = self.program(name, *flags)
                self.assertIn(process.returncode, (0, 1), (name, place, process.stderr_text))
            shutil.rmtree(self.path("saved"), ignore_errors=True)
            self.assertIn(self.reshape().returncode, (0, 1), place)


class Measured(SpoiltCheckpoint):
    def measured(self, *command):
        process = self.program(*command)
        self.assertLess(process.seconds, SECONDS, command)
        return process

    def peak(self, command):
        """Megabytes: the child of a fresh Python, which reports what it waited for."""
        code = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], "
                "stdin=subprocess.DEVNULL, capture_output=True); "
                "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        done = subprocess.run([sys.executable, "-S", "-c", code, *command], capture_output=True,
                              text=True, cwd=self.folder, timeout=3 * SECONDS)
        return int(done.stdout) / 1024


class Budgets(Measured):
    """What small files claim stays in proportion to them, all ranks of a checkpoint together."""

    def deflated_values(self):
        """4 KB that inflate to a list of four million values."""
        path = self.path("values.pt")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("values/data.pkl", b"\x80\x02](" + b"N" * 4_000_000 + b"e.")
            archive.writestr("values/version", "3\n", zipfile.ZIP_STORED)
        self.assertLess(os.path.getsize(path), 8000)
        return path

    def test_a_deflated_pickle_is_bounded_by_its_file(self):
        path = self.deflated_values()
        self.assert_refused(self.measured("checkpoint_inspect", path), "expected at most")
        self.assertLess(self.peak([os.path.join(self.bin, "checkpoint_inspect"), path]), 100)

    def test_the_ranks_of_a_checkpoint_have_one_budget(self):
        count = 60_000  # what one rank alone may have
        path = self.path("rank.pt")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("rank/data.pkl", b"\x80\x02](" + b"N" * count + b"e.")
        for rank in range(200):
            folder = self.path("many", f"mp_rank_{rank:02d}")
            os.makedirs(folder)
            shutil.copy(path, os.path.join(folder, "model_optim_rng.pt"))
        for command in (["checkpoint_inspect", self.path("many")],
                        ["verify", "checkpoint", self.path("many")]):
            self.assertEqual(self.measured(*command).returncode, 1)
            self.assertLess(self.peak([os.path.join(self.bin, command[0]), *command[1:]]), 150)

    def test_args_that_share_a_text_are_not_shown_without_end(self):
        path = self.path("args.pt")
        text = "text " * 70_000
        args = argparse.Namespace(**{f"field_{i:05d}": text for i in range(20_000)})
        torch.save({"args": args, "model": {}}, path)
        self.assertLess(os.path.getsize(path), 2_000_000)
        for flags in (["--args"], ["--args", "--json"], ["--html", self.path("page.html")]):
            self.measured("checkpoint_inspect", path, *flags)
            self.assertLess(self.peak([os.path.join(self.bin, "checkpoint_inspect"), path,
                                       *flags]), MEGABYTES)

    def test_statistics_of_tensors_that_repeat_a_byte_are_refused(self):
        path = self.path("repeated.pt")
        torch.save({"model": {f"t{i}": torch.zeros(1).expand(1 << 26) for i in range(2000)}}, path)
        self.assertLess(os.path.getsize(path), 1_000_000)
        self.assertEqual(self.measured("checkpoint_inspect", path).returncode, 0)
        self.assert_refused(self.measured("checkpoint_inspect", path, "--tensors", "--stats"),
                            "times the")


class OraclesEvilFiles(Measured):
    """Every odd or hostile file of the oracle in the place of a rank's file."""

    def setUp(self):
        super().setUp()
        self.evil = os.path.join(cases.ORACLE, "evil")
        if not os.path.isdir(self.evil):
            self.skipTest("no shared folder with hostile files")
        with open(os.path.join(self.evil, "expected.json")) as file:
            self.expected = json.load(file)

    def test_no_program_crashes_hangs_or_obeys(self):
        for name in sorted(self.expected):
            shutil.copy(os.path.join(self.evil, name), self.rank())
            with self.subTest(file=name):
                for command in (["checkpoint_inspect", self.source],
                                ["checkpoint_inspect", self.source, "--tensors", "--stats"],
                                ["verify", "checkpoint", self.source]):
                    process = self.measured(*command)
                    self.assertIn(process.returncode, (0, 1), process.stderr_text)
                    if process.returncode == 1 and command[0] != "verify":
                        self.assert_refused(process)
                self.assert_refused(self.reshape())
                self.assert_nothing_saved()

    def test_alone_good_files_are_read_and_bad_ones_refused(self):
        for name, expected in sorted(self.expected.items()):
            if name.endswith(".safetensors"):
                continue
            shutil.copy(os.path.join(self.evil, name), self.path(name))
            process = self.measured("checkpoint_inspect", self.path(name))
            strict = expected["must"].startswith("refuse") and " or " not in expected["must"] \
                and "CRC" not in expected["must"]
            lenient = expected["must"].startswith(("read:", "read ", "read;")) and \
                "refuse" not in expected["must"]
            with self.subTest(file=name, must=expected["must"], said=process.stderr_text):
                self.assertIn(process.returncode, (0, 1))
                if strict:
                    self.assert_refused(process, name)
                if lenient:
                    self.assertEqual(process.returncode, 0)

    def test_what_a_hostile_pickle_names_is_shown(self):
        for name, word in (("evil_os_system.pt", "system"), ("evil_builtins_eval.pt", "eval")):
            process = self.measured("checkpoint_inspect", os.path.join(self.evil, name))
            self.assertIn(word, process.stdout_text + process.stderr_text)

    def test_memory_stays_small(self):
        for name in sorted(self.expected):
            path = shutil.copy(os.path.join(self.evil, name), self.path(name))
            with self.subTest(file=name):
                self.assertLess(self.peak([os.path.join(self.bin, "checkpoint_inspect"), path]),
                                MEGABYTES)

    def tearDown(self):
        for place in (self.folder, os.getcwd(), tempfile.gettempdir(), self.evil,
                      os.path.expanduser("~")):
            self.assertEqual(glob.glob(os.path.join(place, "*EVIL_WAS_EXECUTED*")), [])


if __name__ == "__main__":
    run_tests()
