#!/usr/bin/env python3
"""preprocess_data as a process: signals, kills, disks, links."""
import os
import random
import signal
import subprocess
import time

import preprocess_case
from preprocess_case import PreprocessData, dataset_files, lines_of, tokenizer_flags


class Endings(PreprocessData):
    def test_signals_leave_nothing_even_while_a_pipe_is_silent(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start("--input", "-")
            process.stdin.write(lines_of(["a"] * 100).encode())
            process.stdin.flush()
            self.wait_for_partial_files()
            process.send_signal(number)
            errors = process.stderr.read().decode()
            self.assertEqual(process.wait(timeout=60), -number)
            self.assertEqual(errors.splitlines()[-1], "error: interrupted")
            self.assertEqual(self.files(), [])

    def test_two_signals_at_once_leave_nothing(self):
        # GNU timeout sends one to its child and one to the group.
        process = self.start("--input", "-")
        process.stdin.write(lines_of(["a"] * 100).encode())
        process.stdin.flush()
        self.wait_for_partial_files()
        process.send_signal(signal.SIGTERM)
        time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), -signal.SIGTERM)
        self.assertEqual(process.stderr.read().decode().splitlines()[-1], "error: interrupted")
        self.assertEqual(self.files(), [])

    def test_options_that_cannot_be_met_are_wrong_usage(self):
        data = self.write("in.jsonl", lines_of(["hello"]))
        vocab = ["--vocab-file", os.path.join(preprocess_case.TESTDATA, "tokenizer", "vocab.json")]
        for flags, tokenizer, words in (
                (["--json-keys", "text", "text"], None, "--json-keys: found text twice"),
                ([], ["--tokenizer-type", "GPT2BPE"], "found \"GPT2BPE\""),
                ([], ["--tokenizer-type", "GPT2BPETokenizer"], "GPT2BPETokenizer needs --vocab-file"),
                ([], ["--tokenizer-type", "GPT2BPETokenizer", *vocab], "GPT2BPETokenizer needs --merge-file")):
            done = self.run_program("--input", data, *flags, tokenizer=tokenizer)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr.splitlines()[-1])
        done = self.run_program("--input", data, tokenizer=tokenizer_flags(vocab=self.path("missing")))
        self.assertEqual(done.returncode, 1, "a file that is not there is no wrong usage")
        done = self.run_program("--input", data, tokenizer=["--tokenizer-type", "MultimodalTokenizer"])
        self.assertEqual(done.returncode, 1, "nor is what is not done")
        self.assertIn("not supported yet", done.stderr)

    def test_kill_leaves_only_partial_files_and_the_next_start_removes_them(self):
        process = self.start("--input", "-")
        self.wait_for_partial_files()
        process.kill()
        process.wait()
        left = self.files()
        self.assertTrue(left)
        for name in left:
            self.assertRegex(name, r"\.(partial-|lock$)")
        self.assert_done(self.run_program("--input", self.write("in", lines_of(["a"]))))
        self.assertEqual(self.files(), dataset_files("out_text_document"))

    def two_datasets(self):
        """Inputs of datasets of equal counts, and what each of them becomes."""
        texts, inputs, outputs = ["word " * (i % 9) for i in range(300)], [], []
        for name, order in (("a", texts), ("b", texts[::-1])):
            inputs.append(self.write(name + ".jsonl", lines_of(order)))
            self.assert_done(self.run_program("--input", inputs[-1], prefix=self.path(name)))
            outputs.append(self.output(name))
        self.assertNotEqual(outputs[0], outputs[1])
        self.assertEqual(len(outputs[0][0]), len(outputs[1][0]))
        return inputs, outputs

    def test_kills_leave_a_whole_dataset_or_none(self):
        inputs, outputs = self.two_datasets()
        whole, caught = 60.0, 0
        for _ in range(3):
            start = time.monotonic()
            self.assert_done(self.run_program("--input", inputs[0]))
            whole = min(whole, time.monotonic() - start)
        choice = random.Random(os.getpid())
        for turn in range(60):
            process = subprocess.Popen(self.command("--input", inputs[turn % 2]),
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(whole * choice.uniform(0.2, 1.1))
            process.kill()
            caught += process.wait() == -signal.SIGKILL
            if os.path.exists(self.path("out_text_document.idx")):
                self.assertTrue(self.output() in outputs, f"turn {turn}: a mixed dataset")
        self.assertGreater(caught, 5)
        self.assert_done(self.run_program("--input", inputs[0]))
        self.assertEqual(self.files(), dataset_files("out_text_document"))

    def test_two_at_once_are_refused_or_run_in_order(self):
        inputs, outputs = self.two_datasets()
        for _ in range(10):
            both = [subprocess.Popen(self.command("--input", file), stdout=subprocess.DEVNULL,
                                     stderr=subprocess.PIPE, text=True) for file in inputs]
            errors = [process.communicate(timeout=60)[1] for process in both]
            done = [process.returncode == 0 for process in both]
            self.assertTrue(any(done), errors)
            for process, error in zip(both, errors):
                if process.returncode != 0:
                    self.assertEqual(process.returncode, 1)
                    self.assertRegex(error, "error: .*: another process is writing this dataset")
            self.assertTrue(self.output() in [o for o, ended in zip(outputs, done) if ended])

    def test_the_second_run_says_so_before_it_writes(self):
        first = self.start("--input", "-")
        self.wait_for_partial_files()
        before = self.files()
        second = self.run_program("--input", self.write("in", lines_of(["a"])))
        self.assert_error(second, 1, ".*out_text_document: another process is writing this dataset")
        self.assertEqual(self.files(), before)
        first.communicate(lines_of(["b"]).encode(), timeout=60)
        self.assertEqual(first.returncode, 0)

    def test_folders_that_a_failed_run_made_are_removed(self):
        bad = self.write("bad", lines_of(["a"]) * 3 + "x\n")
        os.mkdir(self.path("here"))
        for flags in ((), ("--partitions", "2"), ("--json-keys", "id", "text")):
            result = self.run_program("--input", bad, *flags, prefix=self.path("here", "new", "deep", "out"))
            self.assertEqual(result.returncode, 1)
            self.assertEqual(os.listdir(self.path("here")), [])
        process = subprocess.Popen(self.command("--input", "-", prefix=self.path("new", "out")), stdin=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.communicate)
        while not os.path.exists(self.path("new")) or not self.files("new/*.partial-*"):
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), -signal.SIGTERM)
        self.assertFalse(os.path.exists(self.path("new")))

    def test_an_older_dataset_survives_a_failure(self):
        self.assert_done(self.run_program("--input", self.write("in", lines_of(["a"]))))
        before = self.output()
        self.assertEqual(self.run_program("--input", self.write("bad", "x\n")).returncode, 1)
        self.assertEqual(self.output(), before)

    def test_a_folder_that_cannot_be_created(self):
        file = self.write("in.jsonl", lines_of(["a"]))
        result = self.run_program("--input", file, prefix=os.path.join(file, "sub", "out"))
        self.assert_error(result, 1, "cannot create folder .*: Not a directory")

    def test_a_folder_that_may_not_be_written(self):
        if os.geteuid() == 0:
            self.skipTest("root may write everywhere")
        file = self.write("in.jsonl", lines_of(["a"]))
        os.mkdir(self.path("locked"), 0o500)
        result = self.run_program("--input", file, prefix=self.path("locked", "out"))
        self.assert_error(result, 1, "cannot create .*: Permission denied")

    def small_disk(self):
        """A folder on a disk of 1 MiB, or the test is skipped."""
        disk = self.path("disk")
        os.mkdir(disk)
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk],
                               capture_output=True, text=True)
        if mount.returncode != 0:
            self.skipTest("needs to mount a tmpfs: " + mount.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", disk])
        return disk

    def test_a_full_disk_leaves_nothing(self):
        disk = self.small_disk()
        file = self.write("in.jsonl", lines_of(f"{i} some text" for i in range(200000)))
        result = self.run_program("--input", file, prefix=os.path.join(disk, "out"))
        self.assert_error(result, 1, ".*No space left on device")
        self.assertEqual(os.listdir(disk), [])

    def test_a_disk_that_fills_up_while_partitions_are_merged_leaves_nothing(self):
        disk = self.small_disk()
        file = self.write("in.jsonl", lines_of(["1 " * 4000] * 40))
        self.assert_done(self.run_program("--input", file))
        fits = os.path.getsize(self.path("out_text_document.bin"))
        self.assertLess(fits, 1 << 20)
        self.assertGreater(2 * fits, 1 << 20)
        result = self.run_program("--input", file, "--partitions", "2",
                                  prefix=os.path.join(disk, "out"))
        self.assert_error(result, 1, ".*No space left on device")
        self.assertEqual(os.listdir(disk), [])

    def test_a_user_s_own_files_stay(self):
        own = self.write("out_text_document.bin.partial-backup", "mine")
        self.assert_done(self.run_program("--input", self.write("in", lines_of(["a"]))))
        self.assertEqual(self.read(own), b"mine")

    def test_links_to_outputs_are_followed(self):
        os.mkdir(self.path("disk"))
        for end in ("bin", "idx"):
            os.symlink(f"disk/set.{end}", self.path("out_text_document." + end))
        self.assert_done(self.run_program("--input", self.write("in", lines_of(["a", "b"]))))
        self.assertEqual(sorted(os.listdir(self.path("disk"))), ["set.bin", "set.idx"])
        self.assertEqual(len(self.documents()), 2)
        self.assertTrue(os.path.islink(self.path("out_text_document.bin")))

    def test_a_disk_that_fills_up_at_the_end_leaves_nothing_of_any_key(self):
        disk = self.small_disk()
        # 30,000 sequences of one token: twice 60 KB of .bin, but 600 KB of .idx each at the end.
        file = self.write("in.jsonl", '{"a": "x", "b": "y"}\n' * 30000)
        result = self.run_program("--input", file, "--json-keys", "a", "b",
                                  prefix=os.path.join(disk, "out"))
        self.assert_error(result, 1, ".*No space left on device")
        self.assertEqual(os.listdir(disk), [])


if __name__ == "__main__":
    preprocess_case.main()
