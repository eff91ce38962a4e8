#!/usr/bin/env python3
"""A checkpoint's tokenizer: taken by programs without tokenizer flags, and exported in the form that transformers reads.

checkpoint_tokenizer_test.py BIN TESTDATA/tokenizer [unittest arguments]
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request

try:
    import sentencepiece
    from megatron.core.datasets.indexed_dataset import IndexedDataset
    from transformers import AutoTokenizer
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

BIN = TOKENIZER = ""
TEXTS = ["Hello world, this isn't it.", "größe  naïve 東京\n\n\ttwo", "x=1; don't I'm 3.14 🤔", "a", " leading and trailing "]
SHAPE = ["--num-layers", "1", "--hidden-size", "16", "--num-attention-heads", "2", "--seq-length", "16", "--max-position-embeddings", "64",
         "--micro-batch-size", "1", "--lr", "1e-3", "--train-iters", "1", "--mock-data", "--eval-iters", "0", "--split", "1,0,0"]
LLAMA = ["--swiglu", "--ffn-hidden-size", "32", "--normalization", "RMSNorm", "--disable-bias-linear", "--position-embedding-type", "rope",
         "--untie-embeddings-and-output-weights"]


class CheckpointTokenizer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        os.mkdir(cls.path("files"))
        shutil.copy(f"{TOKENIZER}/vocab.json", cls.path("files/gpt2-vocab.json"))
        shutil.copy(f"{TOKENIZER}/merges.txt", cls.path("files/gpt2-merges.txt"))
        with open(cls.path("text"), "w") as file:
            file.writelines(f"{text} the cat sat on a mat and looked at {i} birds\n" for i, text in enumerate(TEXTS * 40))
        sentencepiece.SentencePieceTrainer.train(
            input=cls.path("text"), model_prefix=cls.path("files/pieces"), vocab_size=420, model_type="bpe", byte_fallback=True,
            character_coverage=1.0, normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=2)
        cls.gpt2 = ["--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", cls.path("files/gpt2-vocab.json"), "--merge-file",
                    cls.path("files/gpt2-merges.txt")]
        cls.llama = ["--tokenizer-type", "Llama2Tokenizer", "--tokenizer-model", cls.path("files/pieces.model")]
        cls.ids = {}
        for name, tokenizer, more in (("gpt2", cls.gpt2, []), ("llama", cls.llama, LLAMA)):
            cls.run_ok("pretrain_gpt", *SHAPE, *more, *tokenizer, "--save", cls.path(name))
            with open(cls.path("texts.jsonl"), "w") as file:
                file.writelines(json.dumps({"text": text}) + "\n" for text in TEXTS)
            cls.run_ok("preprocess_data", "--input", cls.path("texts.jsonl"), "--output-prefix", cls.path(name + "_ids"), *tokenizer)
            made = IndexedDataset(cls.path(name + "_ids_text_document"))
            cls.ids[name] = [made[i].tolist() for i in range(len(made))]
        shutil.move(cls.path("files"), cls.path("moved"))

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def run_program(cls, program, *flags):
        return subprocess.run([f"{BIN}/{program}", *flags], capture_output=True, text=True, cwd=cls.folder.name)

    @classmethod
    def run_ok(cls, *words):
        done = cls.run_program(*words)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return done.stdout

    def generate(self, load, *flags):
        return self.run_program("generate", "--load", self.path(load), "--prompts", "Hello", "--tokens-to-generate", "2", "--greedy", *flags)

    def export(self, name):
        self.run_ok("checkpoint_util", "--load-dir", self.path(name), "--save-dir", self.path(name + "_hf"), "--target-format", "huggingface")

    def pack(self, load):
        with open(self.path("chats.jsonl"), "w") as file:
            file.writelines(json.dumps({"prompt": text, "completion": text + "!"}) + "\n" for text in TEXTS)
        return self.run_program("pack_dataset", "--input", self.path("chats.jsonl"), "--seq-length", "256", "--chat-template", "chatml",
                                "--output-prefix", self.path("packed"), *load)

    def packed(self, name, *flags):
        """The files of conversations packed with a checkpoint's tokenizer, or with that of flags."""
        done = self.pack(flags or ["--load", self.path(name)])
        self.assertEqual(done.returncode, 0, done.stderr)
        content = []
        for end in (".bin", ".idx", "_loss_mask.bin", ".libmeg"):
            with open(self.path("packed") + end, "rb") as file:
                content.append(file.read())
        return content

    def test_exports_generate_the_same(self):
        self.export("llama")
        original, own = self.generate("llama"), self.generate("llama_hf")
        self.assertEqual(own.returncode, 0, own.stderr)
        self.assertEqual(own.stdout, original.stdout)

    def test_programs_without_tokenizer_flags_take_it(self):
        for name in ("gpt2", "llama"):
            done = self.generate(name)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.run_ok("pretrain_gpt", *SHAPE, *(LLAMA if name == "llama" else []), "--load", self.path(name), "--finetune")
            done = self.generate(name, "--no-use-tokenizer-model-from-checkpoint-args")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("the checkpoint's args say", done.stderr)

    def test_exports_have_it_in_the_form_of_transformers(self):
        for name in ("gpt2", "llama"):
            self.export(name)
            made = AutoTokenizer.from_pretrained(self.path(name + "_hf"))
            found = [made(text)["input_ids"] for text in TEXTS]
            # Of a text that begins with a space, transformers 5 gives every Llama tokenizer one token fewer than sentencepiece does.
            if name == "llama":
                self.assertEqual(found.pop(), self.ids[name][-1][1:])
            self.assertEqual(found, self.ids[name][:len(found)])
            with open(self.path(name + "_hf/config.json")) as file:
                config = json.load(file)
            self.assertEqual(config["eos_token_id"], made.eos_token_id)
            # The folder is a checkpoint, whose files name the tokenizer.
            self.assertEqual(self.packed(name), self.packed(name + "_hf"))

    def test_served_models_have_it_too(self):
        self.export("gpt2")
        server = subprocess.Popen([f"{BIN}/serve_checkpoints", self.path("gpt2"), "--port", "0"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (server.terminate(), server.communicate()))
        address = re.search(r"served on (\S+)", server.stdout.readline()).group(1)
        name = re.match(r"> (\S+):", server.stdout.readline()).group(1)
        for file in ("vocab.json", "merges.txt", "tokenizer_config.json"):
            with urllib.request.urlopen(f"{address}/{name}/resolve/main/{file}") as answer, \
                    open(self.path(f"gpt2_hf/{file}"), "rb") as wanted:
                self.assertEqual(answer.read(), wanted.read())

    def test_packs_with_it(self):
        self.assertEqual(self.packed("gpt2"), self.packed("gpt2", "--tokenizer-type", "GPT2BPETokenizer", "--vocab-file",
                                                          f"{TOKENIZER}/vocab.json", "--merge-file", f"{TOKENIZER}/merges.txt"))

    def test_says_whose_tokenizer_cannot_be_opened(self):
        shutil.copytree(self.path("gpt2"), self.path("broken"))
        carried = self.path("broken/iter_0000001/tokenizer")
        with open(f"{carried}/gpt2-vocab.json", "w") as file:
            file.write("{")
        origin = f"args of the checkpoint: GPT2BPETokenizer '{self.path('files/gpt2-vocab.json')}': "
        for done in (self.pack(["--load", self.path("broken")]), self.generate("broken")):
            self.assertEqual(done.returncode, 1)
            self.assertIn("error: " + origin, done.stderr)
        done = self.run_program("pretrain_gpt", *SHAPE, "--load", self.path("broken"), "--finetune")
        self.assertIn(origin, done.stderr)
        done = self.run_program("checkpoint_util", "--load-dir", self.path("broken"), "--save-dir", self.path("broken_hf"),
                                "--target-format", "huggingface")
        self.assertEqual(done.returncode, 0)
        self.assertIn(f"no files of a tokenizer are written: {origin}", done.stderr + done.stdout)
        shutil.rmtree(carried)
        for done in (self.pack(["--load", self.path("broken")]), self.generate("broken")):
            self.assertIn(origin + "expected its files, found none", done.stderr)

    def test_folders_of_other_tokenizers_are_refused(self):
        self.export("gpt2")

        def refused(name, config=None, added=None):
            shutil.rmtree(self.path("other"), ignore_errors=True)
            shutil.copytree(self.path("gpt2_hf"), self.path("other"))
            with open(self.path("other/tokenizer_config.json")) as file:
                before = json.load(file)
            with open(self.path("other/tokenizer_config.json"), "w") as file:
                json.dump({**before, **(config or {})}, file)
            if added:
                with open(self.path("other/added_tokens.json"), "w") as file:
                    json.dump(added, file)
            done = self.pack(["--load", self.path("other")])
            self.assertNotEqual(done.returncode, 0, name)
            self.assertIn("expected a tokenizer.json beside it", done.stderr)
            return done.stderr

        self.assertIn("its class is Qwen2Tokenizer", refused("class", {"tokenizer_class": "Qwen2Tokenizer"}))
        self.assertIn("is added to the", refused("added", added={"<|more|>": 70000}))
        self.assertIn("add_prefix_space is set", refused("space", {"add_prefix_space": True}))
        self.assertIn("eos_token", refused("eos", {"eos_token": "<|im_end|>"}))
        self.assertIn("add_bos_token", refused("bos", {"add_bos_token": True}))


if __name__ == "__main__":
    BIN, TOKENIZER = sys.argv.pop(1), os.path.abspath(sys.argv.pop(1))
    unittest.main()
