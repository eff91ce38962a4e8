#!/usr/bin/env python3
"""Trained tokenizers: the files of train_tokenizer against those of the PyPI package `tokenizers`.

usage: compare_training_with_package.py TRAIN_TOKENIZER PAGES
Exit status 77 (skipped) where the package is absent.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from corpora import corpora

sys.path.insert(0, str(Path(__file__).parents[1]))
from compare_with_packages import PATTERNS  # noqa: E402

SKIPPED = 77
# What the names mean in a tokenizer.json.
REGEXES = {"cl100k": PATTERNS["llama3"], "llama3": PATTERNS["llama3"], "o200k": PATTERNS["o200k"],
           "qwen2": PATTERNS["qwen2"], "qwen3": PATTERNS["qwen2"], "tekken": PATTERNS["v2"], "v1": PATTERNS["v1"],
           "v2": PATTERNS["v2"]}
OWN_REGEXES = [r"\s+|\S+", r"[a-z]+", r"\p{L}+| ?\p{N}|\s", r"(?i:[aeiou]+)|[^aeiou]"]
SPECIALS = ["<|endoftext|>", "the", "<\"\\\n\u0001\u00e9\u4e2d>"]
FILES = ["vocab.json", "merges.txt", "tokenizer.json"]


def pre_tokenizer(pattern):
    from tokenizers import Regex, pre_tokenizers
    if pattern == "gpt2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    split = pre_tokenizers.Split(Regex(REGEXES.get(pattern, pattern)), "isolated", invert=False)
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def train_with_package(texts, folder, pattern, vocab_size, min_frequency=0, specials=()):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer(pattern)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=vocab_size, min_frequency=min_frequency, special_tokens=list(specials), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    folder.mkdir()
    tokenizer.model.save(str(folder))
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def train_with_libmeg(program, corpus, folder, pattern, vocab_size, min_frequency=0, specials=(), flags=()):
    command = [program, "--input", str(corpus), "--output-dir", str(folder), "--pattern", pattern,
               "--vocab-size", str(vocab_size), "--min-frequency", str(min_frequency), *flags]
    if specials:
        command += ["--special-tokens", *specials]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{command}\n{done.stdout}{done.stderr}")
    return done


def same_files(name, expected, found, pattern):
    for file in FILES if pattern == "gpt2" else FILES[2:]:
        if (expected / file).read_bytes() != (found / file).read_bytes():
            print(f"{name}: {file} differs: expected {expected / file}, found {found / file}")
            return False
    return True


class Comparison:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.count = 0
        self.right = True

    def write(self, texts):
        path = self.folder / f"corpus{self.count}.jsonl"
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
        return path

    def check(self, name, texts, pattern="gpt2", vocab_size=400, flags=(), **options):
        self.count += 1
        expected, found = self.folder / f"{self.count}.expected", self.folder / f"{self.count}.found"
        package = train_with_package(texts, expected, pattern, vocab_size, **options)
        done = train_with_libmeg(self.program, self.write(texts), found, pattern, vocab_size, flags=flags, **options)
        warned = f"--vocab-size {vocab_size}: the texts gave {package.get_vocab_size()} tokens" in done.stderr
        if warned != (package.get_vocab_size() < vocab_size):
            print(f"{name}: expected a warning where the vocabulary is not reached, found {done.stderr!r}")
            self.right = False
        if "--memory-budget" in flags and "spilled bytes" not in done.stdout:
            print(f"{name}: expected word counts in a file, found {done.stdout!r}")
            self.right = False
        self.right &= same_files(f"{name}, {pattern}, {vocab_size}, {options}", expected, found, pattern)


def main():
    try:
        import tokenizers  # noqa: F401
    except ImportError as error:
        print(f"skipped: the Python package {error.name} is not installed")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(sys.argv[1], Path(folder))
        named = corpora(sorted(Path(sys.argv[2]).glob("*.md")))
        for name, texts in named.items():
            comparison.check(name, texts, vocab_size=1000 if len(texts) > 20 else 300)
        for pattern in [*REGEXES, *OWN_REGEXES]:
            for name in ("pages", "random", "words"):
                comparison.check(name, named[name], pattern, 700)
        for options in ({"min_frequency": 2}, {"min_frequency": 50}, {"specials": SPECIALS},
                        {"specials": SPECIALS, "min_frequency": 3}):
            for vocab_size in (256 + len(options.get("specials", ())), 700, 100_000):
                comparison.check("pages", named["pages"], vocab_size=vocab_size, **options)
        for flags in (["--workers", "1"], ["--workers", "7"], ["--memory-budget", "1MiB", "--workers", "5"]):
            comparison.check("pages", named["pages"], vocab_size=3000, flags=flags)
    print("equal" if comparison.right else "different")
    return 0 if comparison.right else 1


if __name__ == "__main__":
    sys.exit(main())
