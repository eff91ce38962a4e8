#!/usr/bin/env python3
"""How programs begin and end: closed, full and broken standard streams, signals, limits, files that change.

program_endings_test.py BIN_DIR TESTDATA [unittest arguments]
"""
import array
import ctypes
import fcntl
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

BIN = TESTDATA = ""
LIBC = ctypes.CDLL(None)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_long]
LIBC.ptrace.restype = ctypes.c_long
PTRACE_TRACEME, PTRACE_DETACH, PTRACE_SYSCALL = 0, 17, 24
TIMEOUT = 120


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def preprocess(self, prefix, *flags):
        tokenizer = os.path.join(TESTDATA, "tokenizer")
        return [os.path.join(BIN, "preprocess_data"), "--output-prefix", self.path(prefix),
                "--tokenizer-type", "GPT2BPETokenizer", *flags,
                "--vocab-file", os.path.join(tokenizer, "vocab.json"),
                "--merge-file", os.path.join(tokenizer, "merges.txt")]

    def lines(self, count=3000):
        return self.write("in.jsonl", '{"text": "the quick brown fox"}\n' * count)

    def run_command(self, command, **options):
        for stream in ("stdout", "stderr"):
            options.setdefault(stream, subprocess.PIPE)
        return subprocess.run(command, stdin=subprocess.DEVNULL, text=True, timeout=TIMEOUT,
                              cwd=self.folder, **options)

    def assert_error(self, result, message):
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(result.stderr.splitlines()[-1:], ["error: " + message])

    def left(self):
        return sorted(name for name in os.listdir(self.folder) if name != "in.jsonl")


class Descriptors(Programs):
    def test_no_output_gets_the_number_of_a_closed_stream(self):
        file = self.lines()
        self.assertEqual(self.run_command(self.preprocess("a", "--input", file)).returncode, 0)
        for closed in ((0,), (1,), (2,), (0, 1, 2)):
            def close():
                for number in closed:
                    os.close(number)
            with self.subTest(closed=closed):
                command = self.preprocess("b", "--input", file, "--log-interval", "100")
                self.assertEqual(self.run_command(command, preexec_fn=close).returncode, 0)
                for end in (".bin", ".idx"):
                    self.assertEqual(self.read("b_text_document" + end),
                                     self.read("a_text_document" + end))

    def test_a_closed_standard_input_is_not_an_empty_one(self):
        result = self.run_command(self.preprocess("a", "--input", "-"),
                                  preexec_fn=lambda: os.close(0))
        self.assert_error(result, "standard input: Bad file descriptor")

    def test_the_soft_limit_of_open_files_is_none(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard < 1000:
            self.skipTest(f"at most {hard} files may be open here")
        result = self.run_command(
            self.preprocess("a", "--input", self.lines(200), "--partitions", "100"),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, hard)))
        self.assertEqual(result.returncode, 0, result.stderr)


class StandardOutput(Programs):
    def commands(self):
        checkpoint = os.path.join(TESTDATA, "checkpoint")
        program = lambda name: os.path.join(BIN, name)
        done = self.run_command(self.preprocess("d", "--input", self.lines(20)))
        self.assertEqual(done.returncode, 0, done.stderr)
        dataset = self.path("d_text_document")
        yield self.preprocess("a", "--input", self.path("in.jsonl"))
        yield [program("dataset_inspect"), dataset]
        yield [program("verify"), "dataset", dataset]
        yield [program("verify"), "checkpoint", checkpoint]
        yield [program("checkpoint_inspect"), checkpoint]
        yield [program("checkpoint_inspect"), checkpoint, "--json"]
        yield [program("checkpoint_util"), "--load-dir", checkpoint, "--save-dir", self.path("c"),
               "--target-tensor-parallel-size", "1", "--target-pipeline-parallel-size", "1"]
        yield [program("report_theoretical_memory"), "--num-layers", "2", "--hidden-size", "64",
               "--num-attention-heads", "4", "--seq-length", "64", "--padded-vocab-size", "128",
               "--micro-batch-size", "1"]
        for name in ("prepare_cache", "preprocess_data", "verify", "text_generation_cli"):
            yield [program(name), "--help"]

    def test_what_it_does_not_take_is_an_error(self):
        for command in self.commands():
            with self.subTest(command=os.path.basename(command[0])), open("/dev/full", "w") as full:
                self.assertEqual(self.run_command(command).returncode, 0)
                self.assert_error(self.run_command(command, stdout=full),
                                  "standard output: No space left on device")

    def test_without_a_reader_work_ends_by_that_signal_and_leaves_nothing(self):
        reading, writing = os.pipe()
        os.close(reading)
        result = self.run_command(self.preprocess("a", "--input", self.lines()), stdout=writing)
        os.close(writing)
        self.assertEqual(result.returncode, -signal.SIGPIPE, result.stderr)
        self.assertEqual(self.left(), [])


class Waiting(Programs):
    def prepare_cache(self):
        return [os.path.join(BIN, "prepare_cache"), "--data-path", self.path("d_text_document"),
                "--data-cache-path", self.path("cache"), "--split", "1,0,0", "--seq-length", "8",
                "--train-samples", "9", "--global-batch-size", "1", "--micro-batch-size", "1",
                "--tokenizer-type", "NullTokenizer", "--vocab-size", "2257"]

    def start_waiting(self, cache):
        """A process that has said what it waits for."""
        process = subprocess.Popen(self.prepare_cache(), stdin=subprocess.DEVNULL, text=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        for line in process.stderr:
            if line.startswith("note: waiting for another process to build " + cache):
                return process
        self.fail(f"it ended with {process.wait()} without waiting")

    def test_waiting_for_anothers_cache_is_said_and_can_be_ended(self):
        for command in (self.preprocess("d", "--input", self.lines(100)), self.prepare_cache()):
            self.assertEqual(self.run_command(command).returncode, 0)
        sidecars = [name for name in os.listdir(self.path("cache")) if name.endswith("libmeg.json")]
        self.assertEqual(len(sidecars), 1, os.listdir(self.path("cache")))
        for name in os.listdir(self.path("cache")):
            os.unlink(self.path("cache", name))
        with open(self.path("cache", sidecars[0] + ".lock"), "w") as builder:
            fcntl.flock(builder, fcntl.LOCK_EX)
            process = self.start_waiting(self.path("cache"))
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=TIMEOUT), -signal.SIGINT)
            process = self.start_waiting(self.path("cache"))
        self.assertEqual(process.wait(timeout=TIMEOUT), 0)

    def test_ctrl_c_ends_the_building_of_caches_and_leaves_nothing_unfinished(self):
        done = self.run_command(self.preprocess("d", "--input", self.lines(2000)))
        self.assertEqual(done.returncode, 0, done.stderr)
        caches = self.path("cache")
        command = self.prepare_cache()
        command[command.index("--train-samples") + 1] = "5000000"
        for number in (signal.SIGINT, signal.SIGTERM):
            shutil.rmtree(caches, ignore_errors=True)
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            self.addCleanup(process.kill)
            while process.poll() is None:
                if os.path.isdir(caches) and any(".partial" in name for name in os.listdir(caches)):
                    process.send_signal(number)
                    break
            stderr = process.communicate(timeout=TIMEOUT)[1]
            # The signal does not end it where it came at the very end.
            self.assertIn(process.returncode, (0, -number), stderr)
            left = os.listdir(caches) if os.path.exists(caches) else []
            self.assertFalse([name for name in left if ".partial" in name or ".lock" in name], left)
            self.assertTrue(left or stderr.endswith(": interrupted\n"), stderr)

    def test_a_pipe_is_no_dataset(self):
        os.mkfifo(self.path("d.idx"))
        self.write("d.bin", "")
        for command in (["verify", "dataset", self.path("d")], ["dataset_inspect", self.path("d")]):
            result = self.run_command([os.path.join(BIN, command[0]), *command[1:]])
            self.assert_error(result, self.path("d.idx") +
                              ": expected a regular file, found a pipe or a device")

    def test_the_writer_of_a_pipe_is_awaited_until_ctrl_c(self):
        os.mkfifo(self.path("pipe"))
        process = subprocess.Popen(self.preprocess("a", "--input", self.path("pipe")),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in process.stdout:
            if line.startswith("Time to startup"):
                break
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.communicate(timeout=TIMEOUT)[1], "error: interrupted\n")
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertEqual(self.left(), ["pipe"])


class Limits(Programs):
    def test_a_file_beyond_the_size_limit_is_an_error_and_leaves_nothing(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        result = self.run_command(self.preprocess("a", "--input", self.lines(2000)),
                                  preexec_fn=limit)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"error: .*\.(bin|idx): File too large\n$")
        self.assertEqual(self.left(), [])

    def test_too_little_memory_is_one_line(self):
        statuses = set()
        for megabytes in (24, 48, 96):
            def limit():
                resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
            result = self.run_command(self.preprocess("a", "--input", self.lines(20)),
                                      preexec_fn=limit)
            if result.returncode == 127:
                continue  # not even started
            self.assertIn(result.returncode, (0, 1), (megabytes, result.stderr))
            if result.returncode == 1:
                self.assertRegex(result.stderr.splitlines()[-1], "^error: ")


class ChangingFiles(Programs):
    """A dataset whose index is cut short while a program reads it."""

    SEQUENCES = 1_000_000

    def write_dataset(self, prefix):
        count = self.SEQUENCES
        lengths = array.array("i", [0]) * (count - 1) + array.array("i", [1000])
        with open(prefix + ".idx", "wb") as idx:
            idx.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, count, count + 1))
            lengths.tofile(idx)
            idx.write(bytes(8 * count))
            array.array("q", range(count + 1)).tofile(idx)
        self.write(prefix + ".bin", "\0" * 4 * 1000)

    def is_mapped(self, path, process):
        with open(f"/proc/{process.pid}/maps") as maps:
            return path in maps.read()

    def cut_once_mapped(self, command, path, size):
        """The finished program, whose file became shorter as soon as it was mapped.

        The program is stopped at each of its system calls until then, so that it can neither end
        nor read before.
        """
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                   preexec_fn=lambda: LIBC.ptrace(PTRACE_TRACEME, 0, None, 0))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        if not os.WIFSTOPPED(os.waitpid(process.pid, 0)[1]):
            self.skipTest("needs to trace a process")
        while not self.is_mapped(path, process):
            LIBC.ptrace(PTRACE_SYSCALL, process.pid, None, 0)
            _, status = os.waitpid(process.pid, 0)
            self.assertTrue(os.WIFSTOPPED(status), "it ended before its file was mapped")
        os.truncate(path, size)
        LIBC.ptrace(PTRACE_DETACH, process.pid, None, 0)
        process.stdout_text, process.stderr = process.communicate(timeout=TIMEOUT)
        return process

    def test_a_file_that_is_cut_short_is_named(self):
        prefix = self.path("d")
        idx = prefix + ".idx"
        for command in (["verify", "dataset", prefix], ["dataset_inspect", prefix],
                        ["prepare_cache", "--data-path", prefix, "--split", "1,0,0", "--seq-length",
                         "100", "--train-samples", "5", "--global-batch-size", "1",
                         "--micro-batch-size", "1", "--tokenizer-type", "NullTokenizer",
                         "--vocab-size", "100"]):
            with self.subTest(program=command[0]):
                self.write_dataset(prefix)
                result = self.cut_once_mapped([os.path.join(BIN, command[0]), *command[1:]], idx, 50)
                self.assert_error(result, idx + ": changed while it was read")


def main():
    global BIN, TESTDATA
    BIN, TESTDATA = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *(sys.argv[3:] or ["-v"])])


if __name__ == "__main__":
    main()
