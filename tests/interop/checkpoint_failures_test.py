#!/usr/bin/env python3
"""Checkpoints that are damaged, hostile or in the way, disks that fill up, processes that are killed.

checkpoint_failures_test.py BIN_DIR TESTDATA [unittest arguments]
Whatever happens: one error that says it, exit code 1, and nothing half-made under a final name.
"""
import glob
import hashlib
import importlib.util
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import torch

    import checkpoint_cases as cases
    import reference_reshape as reference
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

BIN = TESTDATA = ""
SECONDS, MEGABYTES = 10, 300
TRACKER = "latest_checkpointed_iteration.txt"


def tree(root):
    """Every file under root with the digest of its bytes."""
    found = {}
    for folder, _, files in os.walk(root):
        for name in files:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, root)] = hashlib.sha256(file.read()).hexdigest()
    return found


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.source = self.path("source")
        shutil.copytree(os.path.join(TESTDATA, "checkpoint"), self.source,
                        ignore=shutil.ignore_patterns("README.md"))

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def rank(self, name="mp_rank_01_001"):
        return self.path("source", "iter_0000100", name, "model_optim_rng.pt")

    def program(self, name, *flags, **options):
        """The finished process, with its output and its seconds."""
        start = time.monotonic()
        process = subprocess.Popen([os.path.join(BIN, name), *flags], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   cwd=self.folder, **options)
        try:
            process.stdout_text, process.stderr_text = process.communicate(timeout=3 * SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.fail(f"{name} {' '.join(flags)}: still running after {3 * SECONDS} s")
        process.seconds = time.monotonic() - start
        return process

    def reshape(self, *flags, load=None, save=None, tp=1, pp=1, **options):
        return self.program(
            "checkpoint_util", "--model-type", "GPT", "--load-dir", load or self.source,
            "--save-dir", save or self.path("saved"), "--target-tensor-parallel-size", str(tp),
            "--target-pipeline-parallel-size", str(pp), *flags, **options)

    def assert_refused(self, process, *words):
        """Exit code 1 and one line of error, which has all of these words."""
        self.assertEqual(process.returncode, 1, process.stdout_text + process.stderr_text)
        lines = process.stderr_text.strip().splitlines()
        self.assertTrue(lines and lines[-1].startswith("error: "), process.stderr_text)
        self.assertEqual(sum(line.startswith("error: ") for line in lines), 1, lines)
        for word in words:
            self.assertIn(word, lines[-1])

    def assert_nothing_saved(self, save=None):
        save = save or self.path("saved")
        self.assertEqual(tree(save) if os.path.exists(save) else {}, {})

    def assert_clean(self, root):
        process = self.program("verify", "checkpoint", root)
        self.assertEqual(process.returncode, 0, process.stdout_text + process.stderr_text)

    def edit(self, name, change):
        """Rewrites one rank's file by torch after change(state)."""
        state = reference.load_file(self.rank(name))
        change(state)
        for made in reference.OPAQUE.values():
            module = sys.modules.setdefault(made.__module__, type(sys)(made.__module__))
            setattr(module, made.__name__, made)
        torch.save(state, self.rank(name))


class Places(Case):
    def test_save_dir_that_is_the_load_dir_is_refused(self):
        before = tree(self.source)
        os.symlink(self.source, self.path("link"))
        for save in (self.source, self.source + "/", self.path("link"), "source",
                     self.path("source", "..", "source")):
            with self.subTest(save=save):
                self.assert_refused(self.reshape(save=save), "save-dir")
                self.assertEqual(tree(self.source), before)

    def test_the_folder_of_the_iteration_itself_may_be_the_load_dir(self):
        process = self.reshape(load=self.path("source", "iter_0000100"))
        self.assertEqual(process.returncode, 0, process.stderr_text)

    def test_its_root_may_not_be_the_save_dir_then(self):
        before = tree(self.source)
        self.assert_refused(self.reshape(load=self.path("source", "iter_0000100"),
                                         save=self.source))
        self.assertEqual(tree(self.source), before)

    def test_what_is_no_checkpoint_is_refused_by_its_name(self):
        os.mkdir(self.path("empty"))
        with open(self.path("file"), "w") as file:
            file.write("text")
        for load in ("nowhere", "empty", "file"):
            with self.subTest(load=load):
                self.assert_refused(self.reshape(load=self.path(load)), load)
                self.assert_nothing_saved()

    def test_a_save_dir_that_cannot_be_is_refused(self):
        with open(self.path("file"), "w") as file:
            file.write("text")
        self.assert_refused(self.reshape(save=self.path("file")), "file")
        self.assert_refused(self.reshape(save=self.path("file", "below")), "file")

    def test_trackers_that_mislead_are_refused(self):
        for text in ("", "soon", "999", "-5", "1" * 40, "../../etc", "100\0"):
            with open(self.path("source", TRACKER), "w") as file:
                file.write(text)
            with self.subTest(text=text):
                self.assert_refused(self.reshape(), "source")

    def test_blanks_around_the_tracker_are_fine(self):
        with open(self.path("source", TRACKER), "w") as file:
            file.write(" 100\n")
        self.assertEqual(self.reshape().returncode, 0)

    def test_rank_files_that_are_no_files_do_not_hang(self):
        for make in (os.mkfifo, os.mkdir, lambda path: os.symlink("nowhere", path),
                     lambda path: os.symlink("/dev/zero", path),
                     lambda path: os.symlink(path, path)):
            path = self.rank()
            if os.path.isdir(path) and not os.path.islink(path):
                os.rmdir(path)
            else:
                os.unlink(path)
            make(path)
            with self.subTest(kind=os.lstat(path).st_mode):
                self.assert_refused(self.reshape(), "mp_rank_01_001")
                self.assert_nothing_saved()

    def test_a_tracker_that_is_a_pipe_does_not_hang(self):
        os.unlink(self.path("source", TRACKER))
        os.mkfifo(self.path("source", TRACKER))
        self.assert_refused(self.reshape(), TRACKER)

    @unittest.skipIf(os.geteuid() != 0, "needs root, to become somebody who may not read")
    def test_an_unreadable_source_is_named(self):
        os.chmod(self.folder, 0o755)
        os.mkdir(self.path("open"), 0o777)
        os.chmod(self.path("open"), 0o777)
        os.chmod(self.rank(), 0)
        # A copy, since the build folder may lie where nobody may go.
        program = self.path("checkpoint_util")
        shutil.copy(os.path.join(BIN, "checkpoint_util"), program)
        process = subprocess.run(
            [program, "--load-dir", self.source, "--save-dir", self.path("open", "saved"),
             "--target-tensor-parallel-size", "1", "--target-pipeline-parallel-size", "1"],
            user=65534, group=65534, extra_groups=[], capture_output=True, text=True, timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn("mp_rank_01_001", process.stderr)
        self.assertIn("ermission denied", process.stderr)


class Contents(Case):
    def test_a_missing_rank_is_named(self):
        for rank in ("mp_rank_00_000", "mp_rank_00_001", "mp_rank_01_000", "mp_rank_01_001"):
            os.rename(self.path("source", "iter_0000100", rank), self.path("away"))
            with self.subTest(rank=rank):
                self.assert_refused(self.reshape(), rank)
                self.assert_nothing_saved()
            os.rename(self.path("away"), self.path("source", "iter_0000100", rank))

    def test_a_rank_folder_without_its_file_is_named(self):
        os.unlink(self.rank())
        self.assert_refused(self.reshape(), "mp_rank_01_001")

    def test_ranks_of_different_iterations_are_refused(self):
        self.edit("mp_rank_01_000", lambda state: state.update(iteration=99))
        self.assert_refused(self.reshape(), "mp_rank_01_000", "99", "100")

    def test_ranks_whose_args_differ_are_refused(self):
        def change(state):
            state["args"].num_attention_heads = 2
        self.edit("mp_rank_01_001", change)
        self.assert_refused(self.reshape(), "num_attention_heads")

    def test_ranks_of_another_layout_are_refused(self):
        def change(state):
            state["args"].tensor_model_parallel_size = 4
        for name in ("mp_rank_00_000", "mp_rank_01_000", "mp_rank_00_001", "mp_rank_01_001"):
            self.edit(name, change)
        self.assert_refused(self.reshape(), "mp_rank_02_000")

    def test_an_unknown_parameter_is_named_and_rules_teach_it(self):
        def change(state):
            encoder = state["model"]["language_model"]["encoder"]
            encoder["layers.0.adapter.weight"] = torch.zeros(4, 8)
        for name in ("mp_rank_00_000", "mp_rank_01_000", "mp_rank_00_001", "mp_rank_01_001"):
            self.edit(name, change)
        self.assert_refused(self.reshape(), "adapter.weight", "--param-rules")

    def test_rules_carry_a_parameter_of_ones_own(self):
        def change(state):
            encoder = state["model"]["language_model"]["encoder"]
            rank = state["args"].rank
            encoder["layers.1.adapter.weight"] = torch.arange(32.0).reshape(4, 8) + 100 * rank
            del state["optimizer"]
        for name in ("mp_rank_00_000", "mp_rank_01_000", "mp_rank_00_001", "mp_rank_01_001"):
            self.edit(name, change)
        with open(self.path("rules"), "w") as file:
            file.write("# ours\nlanguage_model\\.encoder\\.layers\\.(\\d+)\\.adapter\\.weight rows\n")
        process = self.reshape("--param-rules", self.path("rules"), tp=1, pp=4)
        self.assertEqual(process.returncode, 0, process.stderr_text)
        ranks = reference.load_ranks(self.path("saved"))
        for layer, first in ((1, 0), (3, 200)):
            adapter = ranks[0, layer]["model"]["language_model"]["encoder"]["layers.0.adapter.weight"]
            self.assertTrue(torch.equal(adapter, torch.cat(
                [torch.arange(32.0).reshape(4, 8) + first + more for more in (0, 100)])))

    def test_shapes_that_contradict_the_args_are_refused(self):
        def change(state):
            encoder = state["model"]["language_model"]["encoder"]
            name = "layers.0.mlp.dense_h_to_4h.weight"
            encoder[name] = encoder[name][:-2].clone()
        self.edit("mp_rank_01_001", change)
        self.assert_refused(self.reshape(), "dense_h_to_4h.weight")

    def test_dtypes_that_differ_between_ranks_are_refused(self):
        def change(state):
            encoder = state["model"]["language_model"]["encoder"]
            name = "layers.0.mlp.dense_h_to_4h.weight"
            encoder[name] = encoder[name].float()
        self.edit("mp_rank_01_001", change)
        self.assert_refused(self.reshape(), "dense_h_to_4h.weight")

    def test_an_optimizer_that_lacks_a_parameter_is_refused(self):
        def change(state):
            del state["optimizer"]["optimizer"]["state"][3]
        self.edit("mp_rank_01_001", change)
        self.assert_refused(self.reshape(), "optimizer")
        self.assertEqual(self.reshape("--no-optim").returncode, 0)

    def test_sizes_that_do_not_divide_name_those_that_would(self):
        for tp in (3, 8, 5):
            self.assert_refused(self.reshape(tp=tp), "1, 2", "4")
        self.assert_refused(self.reshape(pp=3), "1, 2", "4")
        self.assert_refused(self.reshape(pp=8), "1, 2", "4")
        self.assert_refused(self.reshape("--target-virtual-pipeline-parallel-size", "3", pp=2))
        self.assert_nothing_saved()

    def test_flipped_bits_are_found_unless_asked_not_to_look(self):
        state = torch.load(self.rank(), weights_only=False, mmap=True,
                           pickle_module=reference.PickleModule)
        moment = state["optimizer"]["optimizer"]["state"][0]["exp_avg"]
        with open(self.rank(), "r+b") as file:
            data = file.read()
            at = data.index(moment.numpy().tobytes()) + 5
            file.seek(at)
            file.write(bytes([data[at] ^ 16]))
        del state, moment
        self.assert_refused(self.reshape(), "mp_rank_01_001", "CRC")
        self.assert_nothing_saved()
        self.assertEqual(self.program("verify", "checkpoint", self.source).returncode, 1)
        self.assertEqual(self.reshape("--no-crc").returncode, 0)

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


class OraclesEvilFiles(Case):
    """Every odd or hostile file of the oracle in the place of a rank's file."""

    def setUp(self):
        super().setUp()
        self.evil = os.path.join(cases.ORACLE, "evil")
        if not os.path.isdir(self.evil):
            self.skipTest("no shared folder with hostile files")
        with open(os.path.join(self.evil, "expected.json")) as file:
            self.expected = json.load(file)

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
                self.assertLess(self.peak([os.path.join(BIN, "checkpoint_inspect"), path]),
                                MEGABYTES)

    def tearDown(self):
        for place in (self.folder, os.getcwd(), tempfile.gettempdir(), self.evil,
                      os.path.expanduser("~")):
            self.assertEqual(glob.glob(os.path.join(place, "*EVIL_WAS_EXECUTED*")), [])


class Disks(Case):
    def mount(self, size):
        disk = self.path("disk")
        os.mkdir(disk)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk],
                              capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest("needs to mount a tmpfs: " + done.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", disk])
        return disk

    def test_a_full_disk_leaves_nothing(self):
        for size in ("64k", "128k", "192k"):
            disk = self.mount(size)
            with self.subTest(size=size):
                self.assert_refused(self.reshape(save=os.path.join(disk, "saved"), tp=2, pp=2),
                                    "No space left")
                self.assertEqual(tree(disk), {})
            subprocess.run(["umount", disk], check=True)
            os.rmdir(disk)

    def test_a_full_disk_leaves_the_old_checkpoint(self):
        disk = self.mount("512k")
        save = os.path.join(disk, "saved")
        self.assertEqual(self.reshape(save=save).returncode, 0)
        before = tree(save)
        self.assert_refused(self.reshape(save=save, tp=4, pp=4), "No space left")
        self.assertEqual(tree(save), before)
        self.assert_clean(save)

    def test_a_limit_on_file_sizes_is_an_error(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        self.assert_refused(self.reshape(preexec_fn=limit, restore_signals=False), "saved")
        self.assert_nothing_saved()

    def test_few_file_descriptors_are_an_error_or_enough(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))
        process = self.reshape(tp=4, pp=4, preexec_fn=limit)
        if process.returncode != 0:
            self.assert_refused(process)
            self.assert_nothing_saved()

    def test_little_memory_is_an_error_or_enough(self):
        for megabytes in (30, 60, 120, 240):
            def limit():
                resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
            process = self.reshape(preexec_fn=limit)
            with self.subTest(megabytes=megabytes, stderr=process.stderr_text):
                if process.returncode != 0 and process.returncode != 127:
                    self.assert_refused(process)
                    self.assert_nothing_saved()
            shutil.rmtree(self.path("saved"), ignore_errors=True)


class Killed(Case):
    """A checkpoint that is large enough to be caught in the middle of being written."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.large = os.path.join(folder.name, "large")
        place = os.path.join(TESTDATA, "../scripts/make_small_checkpoint.py")
        spec = importlib.util.spec_from_file_location("make_small_checkpoint", place)
        maker = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(maker)
        maker.HIDDEN, maker.LAYERS = 320, 8
        state = random.getstate()
        argv, sys.argv = sys.argv, ["", cls.large]
        maker.main()
        sys.argv = argv
        random.setstate(state)

    def start(self, save, tp, pp):
        return subprocess.Popen(
            [os.path.join(BIN, "checkpoint_util"), "--load-dir", self.large, "--save-dir", save,
             "--target-tensor-parallel-size", str(tp), "--target-pipeline-parallel-size", str(pp)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def test_leaves_the_old_checkpoint_or_the_new_one(self):
        save = self.path("saved")
        start = time.monotonic()
        self.assertEqual(self.start(save, 1, 1).wait(), 0)
        whole = time.monotonic() - start
        rng, caught = random.Random(os.getpid()), 0
        for turn in range(10):
            process = self.start(save, *((2, 2), (1, 4), (4, 1))[turn % 3])
            time.sleep(whole * rng.uniform(0.05, 1.0))
            process.kill()
            caught += process.wait() == -signal.SIGKILL
            self.assertEqual(sorted(name for name in os.listdir(save) if ".partial" not in name),
                             ["iter_0000100", TRACKER])
            self.assert_clean(save)
        self.assertGreater(caught, 2)
        self.assertEqual(self.start(save, 2, 1).wait(), 0)
        self.assertEqual(sorted(os.listdir(save)), ["iter_0000100", TRACKER])
        self.assertEqual(sorted(os.listdir(os.path.join(save, "iter_0000100"))),
                         ["mp_rank_00", "mp_rank_01"])
        self.assert_clean(save)

    def test_before_a_first_checkpoint_leaves_no_tracker_alone(self):
        for turn in range(6):
            save = self.path(f"saved{turn}")
            process = self.start(save, 2, 2)
            time.sleep(random.uniform(0.01, 0.3))
            process.kill()
            process.wait()
            if os.path.exists(os.path.join(save, TRACKER)):
                self.assert_clean(save)

    def test_interrupted_it_removes_what_it_began(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            save = self.path(f"saved{number}")
            process = self.start(save, 2, 2)
            time.sleep(0.1)
            process.send_signal(number)
            if process.wait() != 0:
                self.assertEqual(tree(save) if os.path.exists(save) else {}, {})

    def test_two_at_once_into_one_place_leave_one_whole_checkpoint(self):
        save = self.path("saved")
        both = [self.start(save, 2, 2), self.start(save, 1, 4)]
        self.assertIn(0, [process.wait() for process in both])
        self.assertEqual(sorted(os.listdir(save)), ["iter_0000100", TRACKER])
        self.assert_clean(save)


if __name__ == "__main__":
    BIN, TESTDATA = map(os.path.abspath, (sys.argv.pop(1), sys.argv.pop(1)))
    unittest.main()
