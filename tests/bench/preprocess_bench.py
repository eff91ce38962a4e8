#!/usr/bin/env python3
"""JSONL -> .bin/.idx: preprocess_data beside other tokenizers, on the same cores, in one run.

preprocess_bench.py [--quick] [--memory] [--runs N] [--corpus KIND ...] [--corpus-dir DIR]
preprocess_bench.py --vocabulary NAME ... [--peers NAME ...] [as above]
preprocess_bench.py --megatron CHECKOUT [as above]

Makes the corpora (300 MB each; --quick: 30 MB) with make_corpus.py of the shared folder and with
language_corpus.py, compares the outputs byte for byte, then times fresh processes interleaved: every
figure is a median, word caches are cold. Prints a Markdown table. --memory instead measures peak memory on an input of 2 GB.
"encode + write" leaves out what comes before the first byte is read: the peer's imports and the
opening of the tokenizer, on both sides as the program itself prints it. Without --vocabulary:
GPT-2's, beside gigatoken. With it: those of tokenizer_peers.py, beside its peers; CPU seconds, which other work on the machine changes less, are printed too.
--megatron: beside Megatron's own fast path, tools/preprocess_data_fast.py of a checkout of Megatron-LM, which
runs as it is; both sides get the same command line except --workers.
"""
import argparse
import contextlib
import filecmp
import json
import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from language_corpus import LANGUAGES, make_language_corpus
from tokenizer_peers import PACKAGES, VOCABULARIES, vocabulary_model

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
KINDS = ["english", "code", "multilingual", "cjk", "mix", "longtail"]
CJK = re.compile("[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
MIB = 1 << 20


def parse_arguments():
    cache = os.environ.get("MEG_DEPS") or os.path.expanduser("~/.cache/libmeg")
    venv = os.path.join(cache, "venv", "bin", "python")
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="30 MB a corpus")
    parser.add_argument("--vocabulary", nargs="+", choices=[*VOCABULARIES, *PACKAGES])
    parser.add_argument("--peers", nargs="+", default=["gigatoken", "fastokens", "quicktok", "tokie"])
    parser.add_argument("--megatron", metavar="CHECKOUT", help="of Megatron-LM: race its fast path")
    parser.add_argument("--memory", action="store_true", help="peak memory on 2 GB")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--corpus", nargs="+", choices=[*KINDS, *LANGUAGES], default=KINDS)
    parser.add_argument("--corpus-dir", default=os.path.join(cache, "bench"))
    parser.add_argument("--shared", default=os.environ.get("MEG_SHARED")
                        or os.path.join(ROOT, "..", "shared"))
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "bin", "preprocess_data"))
    parser.add_argument("--python", default=venv if os.path.exists(venv) else sys.executable,
                        help="that has the peer's packages")
    return parser.parse_args()


def make_corpus(shared, kind, megabytes, path):
    """By the shared folder's script; "cjk" are the documents of "multilingual" that are mostly that."""
    if kind in LANGUAGES:
        make_language_corpus(kind, megabytes, path)
        return
    sys.path.insert(0, os.path.join(shared, "bench"))
    import make_corpus as maker
    books = maker.books
    if kind == "cjk":
        maker.books = lambda name: [text for text in books(name) if 3 * len(CJK.findall(text)) > len(text)]
    sys.argv[1:] = ["--kind", "multilingual" if kind == "cjk" else kind, "--megabytes", str(megabytes),
                    "--output", path]
    with contextlib.redirect_stdout(sys.stderr):
        maker.main()


def corpus(arguments, kind):
    """Path of a corpus, made where it is missing."""
    megabytes = 30 if arguments.quick else 300
    name = f"{kind}_30mb.jsonl" if arguments.quick else f"{kind}.jsonl"
    path = os.path.join(arguments.corpus_dir, name)
    if not os.path.exists(path):
        os.makedirs(arguments.corpus_dir, exist_ok=True)
        # Use a process of its own: what this one holds when it starts another counts as that one's peak memory, too.
        maker = multiprocessing.Process(target=make_corpus,
                                        args=(arguments.shared, kind, megabytes, path + ".partial"))
        maker.start()
        maker.join()
        if maker.exitcode != 0:
            sys.exit(f"{path}: could not be made")
        os.rename(path + ".partial", path)
    return path


def gpt2_folder(arguments):
    """A Hugging Face folder with GPT-2's tokenizer, made of its two files where it is missing."""
    folder = os.path.join(arguments.corpus_dir, "gpt2")
    if os.path.exists(os.path.join(folder, "tokenizer.json")):
        return folder
    source = os.path.join(arguments.shared, "data", "gpt2")
    with open(os.path.join(source, "vocab.json"), encoding="utf-8") as file:
        vocabulary = json.load(file)
    with open(os.path.join(source, "merges.txt"), encoding="utf-8") as file:
        merges = [line for line in file.read().splitlines() if line and not line.startswith("#version")]
    end = "<|endoftext|>"
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    added = {"id": vocabulary[end], "content": end, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True}
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as out:
        json.dump({"tokenizer_class": "GPT2TokenizerFast", "bos_token": end, "eos_token": end, "unk_token": end}, out)
    path = os.path.join(folder, "tokenizer.json")
    with open(path + ".partial", "w", encoding="utf-8") as out:
        json.dump({"version": "1.0", "added_tokens": [added], "normalizer": None, "pre_tokenizer": level,
                   "post_processor": None, "decoder": level,
                   "model": {"type": "BPE", "vocab": vocabulary, "merges": merges}}, out)
    os.rename(path + ".partial", path)
    return folder


def two_gigabytes(arguments):
    """Path of an input of 2 GB: the mix again and again."""
    path = os.path.join(arguments.corpus_dir, "mix_2gb.jsonl")
    if not os.path.exists(path):
        source = corpus(arguments, "mix")
        with open(path + ".partial", "wb") as out:
            while out.tell() < 2_000_000_000:
                with open(source, "rb") as file:
                    while piece := file.read(MIB):
                        out.write(piece)
        os.rename(path + ".partial", path)
    return path


class Run:
    """A fresh process, with the seconds it prints, its wall time and its peak memory (bytes)."""

    def __init__(self, command, cores, pattern):
        os.sync()
        with tempfile.TemporaryFile("w+") as output:
            start = time.monotonic()
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL,
                                       preexec_fn=lambda: os.sched_setaffinity(0, cores))
            _, status, usage = os.wait4(process.pid, 0)
            self.whole = time.monotonic() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            text = output.read()
        if process.returncode != 0:
            sys.exit(f"{command[0]} failed:\n{text}")
        self.inner = float(re.search(pattern, text).group(1))
        self.processor = usage.ru_utime + usage.ru_stime
        if found := re.search(r"processor ([\d.]+) s", text):
            self.processor = float(found.group(1))
        self.peak = usage.ru_maxrss * 1024


class Bench:
    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder
        gpt2 = os.path.join(arguments.shared, "data", "gpt2")
        self.files = ["--vocab-file", os.path.join(gpt2, "vocab.json"),
                      "--merge-file", os.path.join(gpt2, "merges.txt")]
        self.cores = sorted(os.sched_getaffinity(0))[:max(arguments.workers, 1)]

    def prefix(self, name):
        """An output prefix at which nothing lies yet."""
        for entry in os.listdir(self.folder):
            if entry.startswith(name):
                os.remove(os.path.join(self.folder, entry))
        return os.path.join(self.folder, name)

    def ours(self, path, workers):
        return Run([self.arguments.program, "--input", path, "--output-prefix", self.prefix("ours"),
                    "--tokenizer-type", "GPT2BPETokenizer", *self.files, "--append-eod",
                    "--workers", str(workers)], self.cores, r"\nseconds: ([\d.]+)\n")

    def peer(self, path):
        script = os.path.join(self.arguments.shared, "bench", "peer_preprocess.py")
        return Run([self.arguments.python, script, "gigatoken", path, self.prefix("peer"),
                    *self.files, "--workers", str(self.arguments.workers)],
                   self.cores, r"documents, ([\d.]+) s")

    def row(self, kind):
        path = corpus(self.arguments, kind)
        ours, peer, single = [], [], []
        for i in range(self.arguments.runs):
            peer.append(self.peer(path))
            ours.append(self.ours(path, self.arguments.workers))
            if i == 0 and not self.outputs_are_equal():
                sys.exit(f"{kind}: the outputs differ")
            single.append(self.ours(path, 1))

        def median(runs, what):
            return statistics.median(getattr(run, what) for run in runs)

        megabytes = os.path.getsize(path) / 1e6
        inner, peer_inner = median(ours, "inner"), median(peer, "inner")
        whole, peer_whole = median(ours, "whole"), median(peer, "whole")
        return (f"| {kind} | {megabytes:.0f} | {inner:.2f} | {peer_inner:.2f} | "
                f"{peer_inner / inner:.2f}x | {megabytes / inner:.0f} | {whole:.2f} | "
                f"{peer_whole:.2f} | {peer_whole / whole:.2f}x | {median(ours, 'peak') / MIB:.0f} | "
                f"{median(peer, 'peak') / MIB:.0f} | {median(single, 'inner') / inner:.2f}x |")

    def ours_with(self, model, path):
        return Run([self.arguments.program, "--input", path, "--output-prefix", self.prefix("ours"),
                    "--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", model,
                    "--workers", str(self.arguments.workers)], self.cores, r"\nseconds: ([\d.]+)\n")

    def peer_with(self, peer, model, path):
        script = os.path.join(HERE, "tokenizer_peers.py")
        return Run([self.arguments.python, script, peer, model, path, self.prefix("peer"),
                    "--workers", str(self.arguments.workers)], self.cores, r"documents, ([\d.]+) s")

    def opening(self, model):
        """Processor seconds of our side before the first document."""
        path = os.path.join(self.folder, "one.jsonl")
        with open(path, "w") as out:
            out.write('{"text": "one"}\n')
        return self.ours_with(model, path).processor

    def vocabulary_rows(self, name, kind):
        model = vocabulary_model(self.arguments.corpus_dir, name)
        path = corpus(self.arguments, kind)
        opening = self.opening(model)
        for peer in self.arguments.peers:
            ours, theirs = [], []
            for i in range(self.arguments.runs):
                theirs.append(self.peer_with(peer, model, path))
                ours.append(self.ours_with(model, path))
                same = i > 0 or self.outputs_are_equal()
                if not same:
                    break
            if not same:
                yield f"| {name} | {kind} | {peer} | other ids | | | | | |"
                continue
            seconds = [statistics.median(run.inner for run in runs) for runs in (ours, theirs)]
            processor = [statistics.median(run.processor for run in runs) for runs in (ours, theirs)]
            processor[0] -= opening
            yield (f"| {name} | {kind} | {peer} | {seconds[0]:.2f} | {seconds[1]:.2f} | "
                   f"{seconds[1] / seconds[0]:.2f}x | {processor[0]:.2f} | {processor[1]:.2f} | "
                   f"{processor[1] / processor[0]:.2f}x |")

    def megatron_row(self, kind):
        path = corpus(self.arguments, kind)
        flags = ["--input", path, "--append-eod", "--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model",
                 gpt2_folder(self.arguments), "--use-gigatoken"]
        script = [self.arguments.python, os.path.join(HERE, "programs", "run_megatron_script.py"),
                  self.arguments.megatron, "tools/preprocess_data_fast.py"]
        ours, theirs = [], []
        for _ in range(self.arguments.runs):
            theirs.append(Run([*script, *flags, "--output-prefix", self.prefix("peer")], self.cores,
                              r"Elapsed time: ([\d.]+) seconds"))
            ours.append(Run([self.arguments.program, *flags, "--output-prefix", self.prefix("ours"),
                             "--workers", str(self.arguments.workers)], self.cores, r"\nseconds: ([\d.]+)\n"))
            if not self.outputs_are_equal("peer_text_document"):
                sys.exit(f"{kind}: the outputs differ")

        def cells(what, scale=1):
            one, other = (statistics.median(getattr(run, what) for run in runs) / scale for runs in (ours, theirs))
            return f"{one:.2f} | {other:.2f} | {other / one:.2f}x | "

        # Its own seconds leave out its imports; there is nothing to leave out on our side.
        without = statistics.median(run.inner for run in theirs)
        return (f"| {kind} | {os.path.getsize(path) / 1e6:.0f} | {cells('whole')}{without:.2f} | "
                f"{without / statistics.median(run.whole for run in ours):.2f}x | {cells('processor')}"
                f"{cells('peak', MIB)}").rstrip()

    def outputs_are_equal(self, peer="peer"):
        return all(filecmp.cmp(os.path.join(self.folder, "ours_text_document" + ending),
                               os.path.join(self.folder, peer + ending), shallow=False)
                   for ending in (".bin", ".idx"))

    def memory(self):
        path = two_gigabytes(self.arguments)
        with open(path, "rb") as file:
            longest = max(len(line) for line in file)
        print("| input MB | longest line KB | workers | s | peak MiB | bound MiB |")
        print("|---:|---:|---:|---:|---:|---:|")
        for workers in (1, self.arguments.workers):
            run = self.ours(path, workers)
            bound = 128 * MIB + workers * 64 * MIB + 3 * longest
            print(f"| {os.path.getsize(path) / 1e6:.0f} | {longest / 1e3:.0f} | {workers} | "
                  f"{run.inner:.2f} | {run.peak / MIB:.0f} | {bound / MIB:.0f} |", flush=True)
            if run.peak > bound:
                sys.exit("more memory than the bound")


def machine():
    with open("/proc/cpuinfo") as file:
        model = re.search(r"model name\s*:\s*(.*)", file.read())
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=12", "HEAD"],
                            capture_output=True, text=True).stdout.strip()
    return f"{model.group(1) if model else 'unknown processor'}, commit {commit or 'unknown'}"


def main():
    arguments = parse_arguments()
    os.makedirs(arguments.corpus_dir, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=arguments.corpus_dir) as folder:
        bench = Bench(arguments, folder)
        print(f"{machine()}, {len(bench.cores)} cores, {arguments.workers} workers, "
              f"median of {arguments.runs}\n")
        if arguments.memory:
            bench.memory()
            return
        if arguments.megatron:
            print("| corpus | MB | whole process s | Megatron s | ratio | Megatron without imports s | ratio | "
                  "processor s | Megatron s | ratio | peak MiB | Megatron MiB | ratio |\n|---|" + "---:|" * 12)
            for kind in arguments.corpus:
                print(bench.megatron_row(kind), flush=True)
            return
        if arguments.vocabulary:
            print("| vocabulary | corpus | peer | encode + write s | peer s | ratio | processor s | "
                  "peer s | ratio |\n|---|---|---|" + "---:|" * 6)
            for name in arguments.vocabulary:
                for kind in arguments.corpus:
                    for row in bench.vocabulary_rows(name, kind):
                        print(row, flush=True)
            return
        print("| corpus | MB | encode + write s | gigatoken s | ratio | MB/s | whole process s | "
              "gigatoken s | ratio | peak MiB | gigatoken MiB | 2nd worker |".replace(
                  "2nd worker", f"{arguments.workers} workers / 1"))
        print("|---|" + "---:|" * 11)
        for kind in arguments.corpus:
            print(bench.row(kind), flush=True)


if __name__ == "__main__":
    main()
