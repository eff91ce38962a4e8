#!/usr/bin/env python3
"""tokenizer_inspect as a process: descriptions, tokens, statistics, comparisons, and the command for Python, which is run.

tokenizer_inspect_test.py TOKENIZER_INSPECT TESTDATA [unittest arguments]
Commands whose Python package is absent are skipped.
"""
import base64
import importlib.util
import json
import os
import pty
import subprocess
import sys
import tempfile
import unittest

PROGRAM = TESTDATA = ""
TEXT = "It's \"naïve\" \\ 中文 12345\n\tdon't `ls` $HOME <|endoftext|>"


class TokenizerInspect(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        files = os.path.join(TESTDATA, "tokenizer")
        self.vocab, self.merges = os.path.join(files, "vocab.json"), os.path.join(files, "merges.txt")
        self.gpt2 = ["--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", self.vocab, "--merge-file", self.merges]

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, content):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(content)
        return self.path(name)

    def run_program(self, *flags, code=0):
        done = subprocess.run([PROGRAM, *flags], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def json(self, *flags, code=0):
        return json.loads(self.run_program(*flags, "--json", code=code).stdout)

    def texts(self, *texts):
        return self.write("texts.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in texts))

    def hugging_face(self, name="tokenizer.json", merges=None):
        with open(self.merges, encoding="utf-8") as lines:
            merges = lines.read().splitlines()[1:] if merges is None else merges
        with open(self.vocab, encoding="utf-8") as file:
            vocab = json.load(file)
        kept = {token: id_ for token, id_ in vocab.items() if len(token) == 1 or token == "<|endoftext|>"}
        kept |= {merge.replace(" ", ""): vocab[merge.replace(" ", "")] for merge in merges}
        return self.write(name, json.dumps({
            "version": "1.0", "truncation": None, "padding": None, "normalizer": {"type": "NFC"}, "post_processor": None,
            "added_tokens": [{"id": vocab["<|endoftext|>"], "content": "<|endoftext|>", "single_word": False, "lstrip": False,
                              "rstrip": False, "normalized": False, "special": True}],
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": kept, "merges": merges}}))

    def test_describes_a_tokenizer(self):
        with open(self.vocab, encoding="utf-8") as file:
            size = len(json.load(file))
        found = self.json(*self.gpt2, "--make-vocab-size-divisible-by", "64", "--tensor-model-parallel-size", "2")
        self.assertEqual((found["type"], found["vocab_size"]), ("GPT2BPETokenizer", size))
        self.assertEqual(found["padded_vocab_size"], -(-size // 128) * 128)
        self.assertIn("'s|'t|'re", found["pattern"])
        self.assertEqual([token["text"] for token in found["special_tokens"]], ["<|endoftext|>"])
        printed = self.run_program(*self.gpt2).stdout
        self.assertIn(f"vocabulary: {size}\n", printed)
        found = self.json("--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", self.hugging_face())
        self.assertEqual((found["model"], json.loads(found["normalizer"])), ("BPE", {"type": "NFC"}))

    def test_shows_ids_and_pieces_where_nobody_sees_colours(self):
        lines = self.run_program(*self.gpt2, "--text", "é a").stdout.splitlines()
        tokens = self.json(*self.gpt2, "--text", "é a")["tokens"]
        self.assertEqual(lines, [f"{token['id']}\t{token['piece']}" for token in tokens])
        pieces = b"".join(token["piece"][1:-1].encode().decode("unicode_escape").encode("latin-1") for token in tokens)
        self.assertEqual(pieces.decode(), "é a")

    def test_colours_a_terminal(self):
        master, slave = pty.openpty()
        environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        subprocess.run([PROGRAM, *self.gpt2, "--text", "a\x1b[2Jb"], stdout=slave, check=True, env=environment)
        os.close(slave)
        shown = os.read(master, 65536).decode()
        os.close(master)
        self.assertIn("\x1b[30;48;5;", shown)
        self.assertNotIn("\x1b[2J", shown)

    def test_counts_what_texts_come_to(self):
        texts = ["one two  three\n", "é中", ""] * 50
        tokens = sum(len(self.json(*self.gpt2, "--text", text)["tokens"]) for text in texts[:3]) * 50
        for workers in ("1", "3"):
            found = self.json(*self.gpt2, "--input", self.texts(*texts), "--workers", workers)["statistics"]
            self.assertEqual((found["documents"], found["bytes"], found["words"], found["tokens"]),
                             (150, sum(len(text.encode()) for text in texts), 200, tokens))
            self.assertAlmostEqual(found["tokens_per_word"], tokens / 200)

    def test_compares_two_tokenizers(self):
        here = self.hugging_face()
        with open(self.merges, encoding="utf-8") as file:
            merges = file.read().splitlines()[1:]
        there = self.hugging_face("other.json", [merge for merge in merges[:-1]])
        flags = ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", here, "--compare"]
        same = self.json(*flags, "--other-tokenizer-model", here, "--text", TEXT)
        self.assertEqual([same["differences"][kind] for kind in ("only_here", "only_there", "moved")], [[], [], []])
        self.assertNotIn("first_difference", same["statistics"])
        last = merges[-1].replace(" ", "").replace("Ġ", " ")
        found = self.json(*flags, "--other-tokenizer-model", there, "--input", self.texts("", "!", last, last), code=1)
        self.assertEqual(len(found["differences"]["only_here"]), 1)
        self.assertEqual(found["differences"]["only_there"], [])
        self.assertEqual(found["statistics"]["first_difference"]["text"], 2)
        printed = self.run_program(*flags, "--other-tokenizer-model", there, code=1).stdout
        self.assertIn("tokens only here: 1\n", printed)
        self.run_program(*self.gpt2, "--compare", "--other-tokenizer-type", "NullTokenizer", "--vocab-size", "20", code=1)

    def check_python(self, package, *flags, text=TEXT):
        if importlib.util.find_spec(package) is None:
            self.skipTest(f"{package} is absent")
        command = self.run_program(*flags, "--text", text, "--compare-with-python").stdout
        self.assertEqual(command.count("\n"), 1)
        environment = os.environ | {"PATH": os.path.dirname(sys.executable) + ":" + os.environ["PATH"]}
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=environment)
        self.assertEqual((done.returncode, done.stdout), (0, "equal\n"), command + done.stderr)
        other = command.replace(" == [", " == [-1, ")
        self.assertIn("different: [", subprocess.run(["sh", "-c", other], capture_output=True, text=True, env=environment).stdout)

    def test_python_has_the_ids_of_gpt2_bpe(self):
        self.check_python("tokenizers", *self.gpt2)
        self.check_python("tokenizers", *self.gpt2, "--megatron-version", "core_v0.15.0")

    def test_python_has_the_ids_of_hugging_face(self):
        self.check_python("tokenizers", "--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", self.hugging_face())

    def test_python_has_the_ids_of_a_folder(self):
        self.hugging_face()
        self.write("tokenizer_config.json",
                   json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}))
        self.check_python("transformers", "--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", self.folder)

    def test_python_has_the_ids_of_tiktoken(self):
        tokens = [bytes([byte]) for byte in range(256)] + [b"th", b"in", b"do", b"don"]
        lines = "".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens))
        entries = [{"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": ""}
                   for rank, token in enumerate(tokens)]
        for name, content in (("ranks.tiktoken", lines), ("ranks.json", json.dumps(entries))):
            for pattern in ("v1", "v2"):
                self.check_python("tiktoken", "--tokenizer-type", "TikTokenizer", "--tokenizer-model", self.write(name, content),
                                  "--tiktoken-pattern", pattern, "--tiktoken-num-special-tokens", "10", "--vocab-size",
                                  str(10 + len(tokens)))

    def test_python_has_the_ids_of_sentencepiece(self):
        if importlib.util.find_spec("sentencepiece") is None:
            self.skipTest("sentencepiece is absent")
        import sentencepiece
        corpus = self.write("corpus.txt", "low lower lowest new newer newest\n" * 20)
        for kind in ("bpe", "unigram"):
            sentencepiece.SentencePieceTrainer.train(input=corpus, model_prefix=self.path(kind), vocab_size=24, model_type=kind,
                                                     minloglevel=2, hard_vocab_limit=False)
            for type_ in ("GPTSentencePieceTokenizer", "Llama2Tokenizer"):
                self.check_python("sentencepiece", "--tokenizer-type", type_, "--tokenizer-model", self.path(f"{kind}.model"))
                found = self.json("--tokenizer-type", type_, "--tokenizer-model", self.path(f"{kind}.model"))
                self.assertIn({"bpe": "BPE", "unigram": "Unigram"}[kind], found["model"])

    def test_python_has_the_ids_of_word_pieces(self):
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "it", "'", "s", "na", "##ive", "\u4e2d", "12", "##345"]
        vocab = self.write("vocab.txt", "".join(piece + "\n" for piece in pieces))
        for type_ in ("BertWordPieceLowerCase", "BertWordPieceCase"):
            for version in ("core_v0.14.0", "core_v0.16.0", "core_v0.19.0"):
                self.check_python("tokenizers", "--tokenizer-type", type_, "--vocab-file", vocab, "--megatron-version", version)

    def test_python_has_the_ids_of_numbers(self):
        self.check_python("json", "--tokenizer-type", "NullTokenizer", "--vocab-size", "100", text="1 22 3")

    def test_refuses_what_contradicts_itself(self):
        for message, flags in (
                ("--text: cannot be combined with --input", ["--text", "a", "--input", self.texts("a")]),
                ("--compare: expected it together", ["--compare"]),
                ("--compare: expected it together", ["--other-vocab-file", self.vocab]),
                ("--compare-with-python: expected --text", ["--compare-with-python"])):
            self.assertIn(message, self.run_program(*self.gpt2, *flags, code=2).stderr)
        self.run_program("--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", self.path("none"), code=1)


if __name__ == "__main__":
    PROGRAM, TESTDATA = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
