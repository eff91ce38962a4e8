#!/usr/bin/env python3
"""Full disks, low limits and killed processes: the old checkpoint stays, or the new one is whole.

checkpoint_killed_test.py BIN_DIR TESTDATA [unittest arguments]
"""
import importlib.util
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

try:
    from reference.spoilt import TRACKER, SpoiltCheckpoint, run_tests, tree
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def make_checkpoint(test, folder, **sizes):
    """What the script of testdata/checkpoint makes with other sizes."""
    place = os.path.join(test.testdata, "../scripts/make_small_checkpoint.py")
    spec = importlib.util.spec_from_file_location("make_small_checkpoint", place)
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    for name, size in sizes.items():
        setattr(maker, name, size)
    state = random.getstate()
    argv, sys.argv = sys.argv, ["", folder]
    maker.main()
    sys.argv = argv
    random.setstate(state)


class Disks(SpoiltCheckpoint):
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


class ManyRanks(SpoiltCheckpoint):
    """96 ranks where no more than 32 files may be open at once."""

    def setUp(self):
        super().setUp()
        # Save in memory where there is such a place: a disk may take long to flush so many files.
        shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
        folder = tempfile.TemporaryDirectory(prefix="meg-test-", dir=shared)
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def few(self, name, *flags):
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
        process = subprocess.run([os.path.join(self.bin, name), *flags], preexec_fn=limit,
                                 stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual(process.returncode, 0, process.stdout[-2000:] + process.stderr[-2000:])
        return process.stdout

    def convert(self, load, save, tp, pp):
        self.few("checkpoint_util", "--load-dir", load, "--save-dir", save,
                 "--target-tensor-parallel-size", str(tp),
                 "--target-pipeline-parallel-size", str(pp))

    def test_every_program_reads_and_writes_them(self):
        whole, many, joined = (self.path(name) for name in ("whole", "many", "joined"))
        make_checkpoint(self, whole, LAYERS=24)
        self.convert(whole, many, 4, 24)
        self.assertEqual(len(os.listdir(os.path.join(many, "iter_0000100"))), 96)
        self.convert(many, joined, 2, 2)
        self.few("verify", "checkpoint", many)
        inspected = self.few("checkpoint_inspect", many, "--stats").splitlines()
        self.assertIn("parallel     tensor 4, pipeline 24", inspected)
        self.assertIn("0 NaN and 0 infinite elements in 1168 tensors", inspected)
        self.few("verify", "diff", whole, joined)
        self.few("verify", "diff", many, joined)
        if os.path.exists(os.path.join(self.bin, "pretrain_gpt")):  # built with LibTorch
            printed = self.few(
                "pretrain_gpt", "--load", many, "--use-checkpoint-args", "--mock-data",
                "--tokenizer-type", "NullTokenizer", "--vocab-size", "74", "--seq-length", "16",
                "--micro-batch-size", "4", "--global-batch-size", "8", "--train-iters", "101",
                "--use-checkpoint-opt_param-scheduler", "--lr", "1.5e-4", "--eval-iters", "0",
                "--fp16", "--device", "cpu", "--exit-on-missing-checkpoint")
            self.assertIn("[after training is done]", printed)


class Killed(SpoiltCheckpoint):
    """A checkpoint that is large enough to be caught in the middle of being written."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.large = os.path.join(folder.name, "large")
        make_checkpoint(cls, cls.large, HIDDEN=320, LAYERS=8)

    def start(self, save, tp, pp):
        return subprocess.Popen(
            [os.path.join(self.bin, "checkpoint_util"), "--load-dir", self.large, "--save-dir", save,
             "--target-tensor-parallel-size", str(tp), "--target-pipeline-parallel-size", str(pp)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def await_partial(self, process, save):
        """Returns as soon as the process has begun to write, or has ended."""
        while process.poll() is None:
            if os.path.isdir(save) and any(".partial" in name for name in os.listdir(save)):
                return
            time.sleep(0.001)

    def test_leaves_the_old_checkpoint_or_the_new_one(self):
        save = self.path("saved")
        start = time.monotonic()
        self.assertEqual(self.start(save, 1, 1).wait(), 0)
        whole = time.monotonic() - start
        rng, caught = random.Random(os.getpid()), 0
        for turn in range(10):
            process = self.start(save, *((2, 2), (1, 4), (4, 1))[turn % 3])
            if turn % 2 == 0:
                time.sleep(whole * rng.uniform(0.05, 1.0))
            else:
                self.await_partial(process, save)
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
        removed = 0
        for turn, number in enumerate((signal.SIGINT, signal.SIGTERM, signal.SIGHUP) * 2):
            save = self.path(f"saved{turn}")
            process = self.start(save, 2, 2)
            self.await_partial(process, save)
            process.send_signal(number)
            self.assertIn(process.wait(), (0, -number))
            left = tree(save)
            removed += left == {}
            if left != {}:  # The signal came when all was written.
                self.assertEqual(sorted(os.listdir(save)), ["iter_0000100", TRACKER])
                self.assert_clean(save)
        self.assertGreater(removed, 0)

    def test_two_at_once_into_one_place_leave_one_whole_checkpoint(self):
        save = self.path("saved")
        both = [self.start(save, 2, 2), self.start(save, 1, 4)]
        self.assertIn(0, [process.wait() for process in both])
        self.assertEqual(sorted(os.listdir(save)), ["iter_0000100", TRACKER])
        self.assert_clean(save)


if __name__ == "__main__":
    run_tests()
