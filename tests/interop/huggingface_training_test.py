#!/usr/bin/env python3
"""Models of Hugging Face that are trained on and exported again: windows of attention, vocabularies, ids.

huggingface_training_test.py CHECKPOINT_UTIL PRETRAIN_GPT GENERATE [unittest arguments]
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import safetensors.torch
    import torch
    import transformers
    from transformers import AutoModelForCausalLM, MistralConfig, Qwen2Config
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

UTIL = PRETRAIN = GENERATE = ""
SIZES = dict(vocab_size=104, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
WINDOW = 16
ADDED = 40
MISTRAL = MistralConfig(**SIZES, sliding_window=WINDOW, bos_token_id=3, eos_token_id=[5, 7], pad_token_id=11)
QWEN2 = Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=WINDOW, max_window_layers=1)
TOKENIZER = ["--tokenizer-type", "NullTokenizer", "--vocab-size", "96"]
# What the folder says of the model, as flags.
MODEL = ("--num-layers 2 --hidden-size 32 --ffn-hidden-size 48 --num-attention-heads 4 "
         "--group-query-attention --num-query-groups 2 --max-position-embeddings 64 --swiglu "
         "--normalization RMSNorm --norm-epsilon 1e-6 --disable-bias-linear "
         "--position-embedding-type rope --untie-embeddings-and-output-weights").split()
RUN = ("--mock-data --micro-batch-size 2 --train-iters 2 --lr 1e-3 --eval-iters 1 --device cpu "
       "--make-vocab-size-divisible-by 104").split()


class Training(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.root = folder.name

    def path(self, *names):
        return os.path.join(self.root, *names)

    def run_program(self, *command, code=0):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, (command, done.stdout[-1500:], done.stderr))
        return done.stdout + done.stderr

    def save(self, name, config, seed=1):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        model.save_pretrained(self.path(name))
        return self.path(name)

    def train(self, load, save, length, *flags, code=0):
        return self.run_program(PRETRAIN, *RUN, *TOKENIZER, "--load", load, "--save", self.path(save),
                                "--finetune", "--no-load-optim", "--no-load-rng", "--seq-length", length,
                                *flags, code=code)

    def generate(self, load, length, *flags, code=0):
        return self.run_program(GENERATE, "--load", load, *TOKENIZER, "--prompts", "1 2 3",
                                "--tokens-to-generate", length - 3, "--device", "cpu", "--greedy", *flags,
                                code=code)

    def export(self, load, name, *flags):
        out = self.run_program(UTIL, "--load-dir", load, "--save-dir", self.path(name), "--target-format",
                               "huggingface", *flags)
        with open(self.path(name, "config.json")) as file:
            return json.load(file), out

    def test_windows_are_kept_by_runs_that_are_longer(self):
        for name, config in (("mistral", MISTRAL), ("qwen2", QWEN2)):
            folder = self.save(name, config)
            converted = self.path(name + "_meg")
            self.run_program(UTIL, "--load-dir", folder, "--save-dir", converted,
                             "--target-tensor-parallel-size", 2)
            flags = MODEL + (["--add-qkv-bias"] if name == "qwen2" else [])
            for load in (folder, converted):
                # Flags that say nothing of the window mean another model once a sequence leaves it.
                refused = self.train(load, "never", WINDOW + 1, *flags, code=1)
                self.assertIn("window_size: expected None, found 15", refused)
                self.assertFalse(os.path.exists(self.path("never", "iter_0000002")))
            for form, said, length in (("torch", flags, WINDOW),
                                       ("torch_dist", ["--use-checkpoint-args"], 2 * WINDOW)):
                saved = f"{name}_{form}"
                self.train(folder, saved, length, *said, "--ckpt-format", form)
                self.generate(self.path(saved), 2 * WINDOW)
                written, _ = self.export(self.path(saved), saved + "_hf")
                self.assertEqual(written["model_type"], name)
                for key in ("sliding_window", "max_position_embeddings", "layer_types", "use_sliding_window"):
                    self.assertEqual(written.get(key), config.to_dict().get(key), key)

    def test_tokens_behind_the_window_are_not_seen(self):
        folder = self.save("mistral", MISTRAL)
        model = AutoModelForCausalLM.from_pretrained(folder).eval()
        tokens = torch.tensor([[1, 2, 3]])
        made = model.generate(tokens, max_new_tokens=ADDED, min_new_tokens=ADDED, do_sample=False,
                              attention_mask=torch.ones_like(tokens))
        line = self.generate(folder, 3 + ADDED, "--output", self.path("texts.jsonl"), "--ignore-eod")
        with open(self.path("texts.jsonl")) as file:
            text = json.loads(file.readline())
        found = [int(word) for word in (text.get("text") or text["generated_text"]).split()]
        self.assertEqual(found[-ADDED:], made[0, 3:].tolist(), line)

    def test_a_trained_model_has_the_rows_of_the_base_model(self):
        folder = self.save("mistral", MISTRAL)
        self.train(folder, "trained", WINDOW, *MODEL)
        config, out = self.export(self.path("trained"), "hf")
        self.assertEqual(config["vocab_size"], 104)
        self.assertIn("the base model's 104 vocabulary rows are kept, though the tokenizer has", out)
        tensors = safetensors.torch.load_file(self.path("hf", "model.safetensors"))
        self.assertEqual(tensors["lm_head.weight"].shape[0], 104)
        config, _ = self.export(self.path("trained"), "cut", "--tokenizer-vocab-size")
        self.assertLess(config["vocab_size"], 98)
        # A resumed run and another layout keep them, too.
        self.train(self.path("trained"), "again", WINDOW, *MODEL)
        self.run_program(UTIL, "--load-dir", self.path("again"), "--save-dir", self.path("dist"),
                         "--target-format", "torch_dist")
        config, _ = self.export(self.path("dist"), "third")
        self.assertEqual(config["vocab_size"], 104)

    def test_what_came_in_goes_out_through_megatron_and_a_tokenizer_says_the_rest(self):
        folder = self.save("mistral", MISTRAL)
        with open(self.path("mistral", "generation_config.json")) as file:
            generation = json.load(file)
        for form in ("torch", "torch_dist"):
            self.run_program(UTIL, "--load-dir", folder, "--save-dir", self.path(form), "--target-format", form)
            self.run_program(UTIL, "--load-dir", self.path(form), "--save-dir", self.path(form + "2"),
                             "--target-format", form)
            config, _ = self.export(self.path(form + "2"), form + "_hf")
            for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
                self.assertEqual(config[key], MISTRAL.to_dict()[key], key)
            with open(self.path(form + "_hf", "generation_config.json")) as file:
                self.assertEqual(json.load(file), generation)
            self.assertFalse(os.path.exists(self.path(form + "_hf", "tokenizer")))
            model = AutoModelForCausalLM.from_pretrained(self.path(form + "_hf"))
            self.assertEqual(model.generation_config.eos_token_id, [5, 7])
        self.train(folder, "trained", WINDOW, *MODEL)
        config, out = self.export(self.path("trained"), "trained_hf")
        # NullTokenizer's end of a document is its last token.
        self.assertEqual((config["eos_token_id"], config["bos_token_id"]), (95, None), out)


if __name__ == "__main__":
    UTIL, PRETRAIN, GENERATE = (sys.argv.pop(1) for _ in range(3))
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    unittest.main()
