#!/usr/bin/env python3
"""clean_dataset on inputs and disks that are bad, and after kills: one line, an exit code, nothing half-written.

clean_dataset_bad_input_test.py CLEAN_DATASET TESTDATA
"""
import gzip
import json
import lzma
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, TESTDATA = "", ""
BYTE_LIMIT = 100_000


class BadInput(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return self.path(name)

    def command(self, *flags, output="out.jsonl"):
        return [PROGRAM, *map(str, flags), "--output", self.path(output)]

    def run_program(self, *flags, output="out.jsonl", **options):
        return subprocess.run(self.command(*flags, output=output), capture_output=True, text=True, timeout=300, **options)

    def corpus(self, documents):
        random.seed(5)
        words = [f"word{i}" for i in range(3000)]
        texts = []
        for i in range(documents):
            again = i > 50 and random.random() < 0.2
            texts.append(random.choice(texts) if again else " ".join(random.choices(words, k=random.randrange(5, 60))))
        return "".join(json.dumps({"text": text, "id": i}) + "\n" for i, text in enumerate(texts))

    def fails_with(self, pattern, *flags, code=2, output="none.jsonl", **options):
        done = self.run_program(*flags, output=output, **options)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (code, 1), done.stderr)
        self.assertRegex(done.stderr, "^error: .*" + pattern)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("none")], [])

    def test_values_out_of_range_are_named(self):
        source = self.write("in.jsonl", '{"text": "a"}\n')
        for flags in (["--sample", 1.5], ["--sample", "nan"], ["--sample", 0], ["--min-chars", -1], ["--min-chars", 2**63], ["--max-ngram-size", 0],
                      ["--key-threshold", -1], ["--splits-count", 0], ["--max-documents", 0], ["--memory", "1K"], ["--memory", "-1"],
                      ["--workers", 0], ["--seed", -1], ["--languages", "en", "--language-threshold", 2], ["--languages", "xx"],
                      ["--languages", "en", "--language-threshold", 1], ["--language-model", source], ["--quality", "gofer"],
                      ["--repair", "everything"], ["--require-range", "a=5..x"], ["--require-range", "a=5..1"], ["--require-range", "a=nan.."], ["--report", ""],
                      ["--require-match", "a=("], ["--split", "a=0.5", "b=0.4"]):
            output = {"output": "none_{split}.jsonl"} if flags[0] == "--split" else {}
            done = self.run_program("--input", source, *flags, **{"output": "none.jsonl", **output})
            self.assertEqual(done.returncode, 2, f"{flags}: {done.stderr}")
            self.assertEqual(done.stderr.count("error: "), 1, done.stderr)
            named = ["regular expression"] if flags[0] == "--require-match" else [str(flag) for flag in flags if str(flag).startswith("--")]
            self.assertTrue(any(name in done.stderr for name in named), f"{flags}: {done.stderr}")
            self.assertEqual(os.listdir(self.folder), ["in.jsonl"])

    def test_nothing_that_is_read_is_replaced(self):
        files = {name: self.write(name, text) for name, text in {
            "in.jsonl": '{"text": "a", "url": "http://a.com/1"}\n', "test.jsonl": '{"text": "b"}\n', "patterns": "x\n", "groups": "",
            "blacklist": "domain b\n"}.items()}
        reads = {"in.jsonl": [], "test.jsonl": ["--decontaminate", files["test.jsonl"]], "patterns": ["--url-patterns", files["patterns"]],
                 "groups": ["--url-groups", files["groups"]], "blacklist": ["--url-filters", "domain", "--url-blacklist", files["blacklist"]]}
        for name, flags in reads.items():
            for output in (["--output", files[name]], ["--output", self.path("out.jsonl"), "--report", files[name]],
                           ["--output", self.path("none_{split}"), "--split", "a=0.5", f"/../{name}=0.5"]):
                done = subprocess.run([PROGRAM, "--input", files["in.jsonl"], "--url-key", "url", "--url-filters", "short", *flags, *output],
                                      capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
                self.assertRegex(done.stderr, "files to be written, found .*|expected names, each once")
        self.fails_with("found .*none.jsonl among them", "--input", files["in.jsonl"], "--report", self.path("none.jsonl"))
        self.assertEqual(sorted(os.listdir(self.folder)), sorted(files))
        with open(files["in.jsonl"]) as file:
            self.assertEqual(file.read(), '{"text": "a", "url": "http://a.com/1"}\n')

    def test_splits_that_are_none_are_told(self):
        source = self.write("in.jsonl", '{"text": "a"}\n')
        self.fails_with(r"--output: \{split\} requires --split, found ", "--input", source, code=2, output="none_{split}.jsonl")
        done = self.run_program("--input", source, "--split", "a=0.5", "b=0.5", output="out_{split}.jsonl")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"^warning: no documents: .*out_[ab].jsonl is empty \(all went to other splits\)\n$")
        self.assertEqual(sorted(os.listdir(self.folder)), ["in.jsonl", "out_a.jsonl", "out_b.jsonl"])

    def test_names_of_other_formats_are_refused(self):
        source = self.write("in.jsonl", '{"text": "a"}\n')
        for name in ("-", "out.jsonl.xz", "out.csv", "out.parquet", "out.arrow"):
            done = subprocess.run([PROGRAM, "--input", source, "--output", name], capture_output=True, text=True, cwd=self.folder, timeout=60)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
            self.assertIn(f"error: --output: expected a file of JSON lines or .txt, maybe .gz or .zst, found {name}", done.stderr)
            self.assertEqual(os.listdir(self.folder), ["in.jsonl"])

    def test_a_model_that_is_none_is_an_error(self):
        source = self.write("in.jsonl", '{"text": "a"}\n')
        for content in (b"", b"not a model", bytes(1000), (793712314).to_bytes(4, "little") + b"\x0c\0\0\0" + b"\xff" * 500):
            model = self.write("model.bin", content)
            self.fails_with("model.bin: expected", "--input", source, "--languages", "en", "--language-model", model, code=1)
        self.fails_with("none.bin: No such file", "--input", source, "--languages", "en", "--language-model", self.path("none.bin"), code=1)

    def test_compressed_inputs_that_end_early_are_errors(self):
        text = self.corpus(3000).encode()
        for name, packed in {"in.gz": gzip.compress(text), "in.xz": lzma.compress(text)}.items():
            for cut in (20, len(packed) // 2):
                for flags in ([], ["--near-duplicates"], ["--shuffle"], ["--exact-duplicates", "--on-error", "skip"]):
                    self.fails_with("ends in the middle|is truncated", "--input", self.write(name, packed[:-cut]), *flags, code=1)

    def test_full_disks_are_errors(self):
        source = self.write("in.jsonl", self.corpus(4000))
        for flags in (["--shuffle"], ["--exact-duplicates", "--duplicates-of", "lines", "--memory", "1MiB"], ["--near-duplicates", "--memory", "1MiB"],
                      ["--split", "a=0.5", "b=0.5"]):
            output = "none_{split}.jsonl" if flags[0] == "--split" else "none.jsonl"
            done = self.run_program("--input", source, *flags, output=output,
                                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (BYTE_LIMIT, BYTE_LIMIT)))
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
            self.assertRegex(done.stderr, "^error: .*none.*: File too large\n$")
            self.assertEqual(os.listdir(self.folder), ["in.jsonl"])

    def test_a_resumed_run_goes_on_when_the_disk_has_room_again(self):
        source = self.write("in.jsonl", self.corpus(4000))
        flags = ["--input", source, "--near-duplicates"]
        self.assertEqual(self.run_program(*flags).returncode, 0)
        done = self.run_program(*flags, "--resume", output="none.jsonl",
                                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (BYTE_LIMIT, BYTE_LIMIT)))
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertFalse(os.path.exists(self.path("none.jsonl")))
        done = self.run_program(*flags, "--resume", output="none.jsonl")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("none.jsonl")) as found, open(self.path("out.jsonl")) as expected:
            self.assertEqual(found.read(), expected.read())

    def test_a_filter_that_removes_everything_warns(self):
        source = self.write("in.jsonl", self.corpus(100))
        for flags, reason in ((["--min-chars", 10**6], "removed by chars"), (["--sample", 1e-12], "removed by sample"),
                              (["--languages", "ko", "--near-duplicates", "--shuffle"], "removed by language"),
                              (["--quality", "c4"], "removed by c4")):
            done = self.run_program("--input", source, *flags)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, rf"^warning: no documents: .*out.jsonl is empty \(100 {reason}\)\n$")
            self.assertEqual(os.path.getsize(self.path("out.jsonl")), 0)

    def test_hostile_documents_take_time_by_their_size(self):
        """Each document of several MB within seconds: 60 s are a hundred times what is needed, and less than a square of it takes."""
        size = 400_000
        texts = {"equal_shingles": "the same " * size, "one_word": "a" * 4 * size, "lines": "x\n" * size, "paragraphs": "x\n\n" * size,
                 "quotes": "'" * size, "dots": "." * size, "hyphens": "a-" * size, "entities": "&amp;" * size, "open_entities": "&" * size,
                 "mojibake": "\u00c3\u00a9" * (size // 4), "at_signs": "a.b@" * (size // 4), "escapes": "\x1b[" * size, "marks": "e" + "\u0301" * 30000,
                 "digits": "1 " * size, "url": "http://" + "a." * size + "com", "sentences": "A b c. " * size}
        flags = {"equal": ["--near-duplicates"], "quality": ["--quality", "gopher_repetition", "gopher_quality", "c4", "fineweb"],
                 "repair": ["--repair", "all"], "lines": ["--exact-duplicates", "--duplicates-of", "lines"], "language": ["--languages", "all"]}
        for name, text in texts.items():
            source = self.write("in.jsonl", json.dumps({"text": text}) + "\n")
            for step in flags.values():
                begin = time.monotonic()
                done = self.run_program("--input", source, *step)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertLess(time.monotonic() - begin, 60, f"{name} {step}")

    def test_a_line_of_a_gigabyte_takes_its_own_memory(self):
        """MEG_LONG_LINE gives another number of MiB."""
        blocks = int(os.environ.get("MEG_LONG_LINE", 1000))
        process = subprocess.Popen(self.command("--input", "-", "--workers", 1, "--max-chars", 10**6), stdin=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        with process.stdin as pipe:
            pipe.write(b'{"text": "a"}\n{"text": "')
            for _ in range(blocks):
                pipe.write(b"0123456 89abcdef" * 2**16)
            pipe.write(b'"}\n{"text": "b"}\n')
        with process.stderr:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0, process.stderr.read())
        with open(self.path("out.jsonl")) as file:
            self.assertEqual(file.read(), '{"text": "a"}\n{"text": "b"}\n')
        self.assertLess(usage.ru_maxrss, (blocks * 3 // 2 + 200) * 1024)

    def test_one_bucket_with_all_documents_is_no_square(self):
        source = self.write("in.jsonl", '{"text": "one two three four five six seven"}\n' * 100_000)
        begin = time.monotonic()
        done = self.run_program("--input", source, "--near-duplicates", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual((report["kept"], [cluster["documents"] for cluster in report["largest_clusters"]]), (1, [100_000]))
        self.assertLess(time.monotonic() - begin, 120)

    def test_a_killed_run_goes_on_and_names_what_changed(self):
        source = self.write("in.jsonl", self.corpus(30000))
        time_of_source = os.stat(source).st_mtime_ns
        for name in ("vocab.json", "merges.txt"):
            with open(f"{TESTDATA}/tokenizer/{name}", "rb") as file:
                self.write(name, file.read())
        flags = ["--input", source, "--exact-duplicates", "--near-duplicates", "--shuffle", "--min-tokens", "5", "--json",
                 "--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", self.path("vocab.json"), "--merge-file", self.path("merges.txt")]
        whole = self.run_program(*flags, "--report", self.path("whole.html"))
        self.assertEqual(whole.returncode, 0, whole.stderr)
        flags += ["--report", self.path("report.html"), "--resume"]
        process = subprocess.Popen(self.command(*flags, output="killed.jsonl"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not os.path.exists(self.path("killed.jsonl.resume/journal")) and time.monotonic() < deadline:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertFalse(os.path.exists(self.path("killed.jsonl")))

        def fails_with(pattern, *changed):
            done = self.run_program(*changed, output="killed.jsonl")
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            self.assertRegex(done.stderr, pattern)
        fails_with('its run had "--min-tokens" "5", this one has "6"', *[{"5": "6"}.get(flag, flag) for flag in flags])
        fails_with('its run had "--shuffle" "[^"]*", this one has', *[flag for flag in flags if flag != "--shuffle"])
        fails_with("its run had samples 5, this one has 0", *[flag for flag in flags if not flag.startswith("--report") and "report.html" not in flag])
        fails_with("an unfinished run: resume it, or remove the journal", *flags[:-1])
        with open(self.path("merges.txt"), "rb+") as file:
            content = file.read()
            file.write(b"\n")
        fails_with("content of .*merges.txt", *flags)
        self.write("merges.txt", content)
        with open(source, "a") as file:
            file.write("\n")
        fails_with("in.jsonl", *flags)
        # The same bytes with another time of change are another file as well.
        status = os.stat(source)
        os.truncate(source, status.st_size - 1)
        os.utime(source, ns=(time_of_source, time_of_source))
        done = self.run_program(*flags, "--workers", "3", output="killed.jsonl")
        self.assertEqual(done.returncode, 0, done.stderr)

        def said(text):
            report = json.loads(text)
            return {name: value for name, value in report.items() if name not in ("seconds", "outputs")}
        self.assertEqual(said(done.stdout), said(whole.stdout))
        with open(self.path("killed.jsonl"), "rb") as found, open(self.path("out.jsonl"), "rb") as expected:
            self.assertEqual(found.read(), expected.read())
        self.assertTrue(os.path.exists(self.path("report.html")))
        done = self.run_program(*flags, output="killed.jsonl")
        self.assertEqual((done.returncode, json.loads(done.stdout)["already_finished"]), (0, True))
        # A run that does not resume takes the journal of a finished one away.
        self.assertEqual(self.run_program(*flags[:-1], output="killed.jsonl").returncode, 0)
        self.assertFalse(os.path.exists(self.path("killed.jsonl.resume/journal")))


if __name__ == "__main__":
    PROGRAM, TESTDATA = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
