#!/usr/bin/env python3
"""Hugging Face models through checkpoint_util and back, beside transformers and Megatron's files.

huggingface_interop_test.py CHECKPOINT_UTIL [unittest arguments]
"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import safetensors.torch
    import torch
    import transformers
    from transformers import (AutoModelForCausalLM, GPT2Config, LlamaConfig, MistralConfig,
                              Qwen2Config, Qwen3Config)

    from reference import files as reference_files
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM = ""
SHARED = os.environ.get("MEG_SHARED", os.path.join(os.path.dirname(__file__), "../../../shared"))
GOLDEN = os.path.join(SHARED, "oracle", "checkpoints")

SIZES = dict(vocab_size=97, hidden_size=48, intermediate_size=80, num_hidden_layers=4,
             num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=64)
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192, "rope_theta": 500000.0}
MODELS = {
    "gpt2": GPT2Config(vocab_size=97, n_embd=48, n_layer=4, n_head=6, n_positions=64),
    "gpt2_erf": GPT2Config(vocab_size=97, n_embd=48, n_layer=4, n_head=6, n_positions=64,
                           n_inner=80, activation_function="gelu", layer_norm_epsilon=1e-6),
    "llama2": LlamaConfig(**SIZES | {"num_key_value_heads": 8}),
    "llama3": LlamaConfig(**SIZES, rope_parameters=LLAMA3, rms_norm_eps=1e-5),
    "llama_linear": LlamaConfig(**SIZES, rope_parameters={"rope_type": "linear", "factor": 4.0,
                                                          "rope_theta": 1e4}),
    "llama_tied": LlamaConfig(**SIZES, tie_word_embeddings=True, head_dim=12),
    "mistral": MistralConfig(**SIZES, sliding_window=None),
    "qwen2": Qwen2Config(**SIZES, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**SIZES, head_dim=16)}


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)


def random_model(config, seed):
    """No weight or bias is a constant, so that none can be mistaken for another."""
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator) * 0.1
            parameter.copy_(noise + 1 if "norm" in name or ".ln_" in name else noise)
    model.tie_weights()
    return model


def tensors_of(folder):
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        found |= safetensors.torch.load_file(path)
    return found


def logits_of(model):
    tokens = torch.arange(2 * 64).reshape(2, 64) * 7 % model.config.vocab_size
    with torch.no_grad():
        return model(tokens).logits


def rank_models(folder):
    """Rank folder -> the flat model dict and args."""
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "mp_rank_*"))):
        state = reference_files.load_file(os.path.join(path, "model_optim_rng.pt"))
        found[os.path.basename(path)] = (dict(flat(state["model"])), vars(state["args"]))
    return found


def flat(tree, prefix=""):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}/")
        else:
            yield f"{prefix}{key}", value


def read_json(path):
    with open(path) as file:
        return json.load(file)


def write_text(path, text):
    with open(path, "w") as file:
        file.write(text)


class HuggingFace(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        self.addCleanup(folder.cleanup)
        self.root = folder.name

    def path(self, *names):
        return os.path.join(self.root, *names)

    def convert(self, *arguments):
        done = run(*arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        return done.stdout

    def refused(self, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def same_tensors(self, a, b):
        self.assertEqual(a.keys(), b.keys())
        for name, tensor in a.items():
            self.assertEqual(tensor.dtype, b[name].dtype, name)
            self.assertTrue(torch.equal(tensor, b[name]), name)

    def same_states(self, first, *others):
        """One state has one manifest, however it is stored."""
        verify = os.path.join(os.path.dirname(PROGRAM), "verify")
        manifest = ["--vocab-size", "97", "--manifest", self.path("manifest.json")]
        commands = [["checkpoint", self.path(first)],
                    ["manifest", self.path(first), "--write", *manifest]]
        for other in others:
            commands += [["diff", self.path(first), self.path(other)],
                         ["manifest", self.path(other), *manifest]]
        for command in commands:
            done = subprocess.run([verify, *command], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, (command, done.stdout, done.stderr))

    def test_every_architecture_comes_back_with_the_same_tensors_and_logits(self):
        largest = 0.0
        for seed, (name, config) in enumerate(MODELS.items()):
            model = random_model(config, seed)
            model.save_pretrained(self.path(name))
            layout = ["--target-tensor-parallel-size", "2", "--target-pipeline-parallel-size", "2"]
            self.convert("--load-dir", self.path(name), "--save-dir", self.path(name + "_meg"),
                         "--make-vocab-size-divisible-by", "8", *layout)
            self.convert("--load-dir", self.path(name), "--save-dir", self.path(name + "_dist"),
                         "--target-format", "torch_dist")
            self.convert("--load-dir", self.path(name + "_meg"), "--target-format", "huggingface",
                         "--save-dir", self.path(name + "_back"), "--max-shard-size", "64KB")
            self.same_tensors(tensors_of(self.path(name)), tensors_of(self.path(name + "_back")))
            self.same_states(name, name + "_meg", name + "_dist")
            back = AutoModelForCausalLM.from_pretrained(self.path(name + "_back")).eval()
            difference = (logits_of(model) - logits_of(back)).abs().max().item()
            largest = max(largest, difference)
            self.assertLess(difference, 1e-5, name)
        print(f"largest difference of logits: {largest}")

    def test_every_layout_and_dtype_comes_back(self):
        model = random_model(MODELS["qwen2"], 1).to(torch.bfloat16)
        model.save_pretrained(self.path("qwen2"))
        original = tensors_of(self.path("qwen2"))
        for tensor, pipeline, virtual, names in ((1, 1, 1, "local"), (4, 1, 1, "local"),
                                                 (2, 2, 2, "transformer_engine")):
            saved = self.path(f"{tensor}{pipeline}{virtual}")
            self.convert("--load-dir", self.path("qwen2"), "--save-dir", saved,
                         "--target-tensor-parallel-size", str(tensor),
                         "--target-pipeline-parallel-size", str(pipeline),
                         "--target-virtual-pipeline-parallel-size", str(virtual),
                         "--saver-transformer-impl", names)
            self.convert("--load-dir", saved, "--save-dir", saved + "_hf",
                         "--target-format", "huggingface")
            self.same_tensors(original, tensors_of(saved + "_hf"))
        self.convert("--load-dir", saved, "--save-dir", saved + "_fp32", "--true-vocab-size", "97",
                     "--target-format", "huggingface", "--target-params-dtype", "fp32")
        self.same_tensors({name: tensor.float() for name, tensor in original.items()},
                          tensors_of(saved + "_fp32"))

    def test_tensors_of_several_types_keep_theirs_or_are_converted(self):
        model = random_model(MODELS["qwen3"], 9).to(torch.bfloat16)
        model.config.dtype = torch.bfloat16
        model.save_pretrained(self.path("a"))
        tensors = tensors_of(self.path("a"))
        mixed = {name: tensor.float() if "norm" in name or name == "lm_head.weight" else tensor
                 for name, tensor in tensors.items()}
        # One of three that Megatron merges.
        query = "model.layers.1.self_attn.q_proj.weight"
        mixed[query] = tensors[query].float() + 1e-3
        safetensors.torch.save_file(mixed, self.path("a", "model.safetensors"), metadata={"format": "pt"})
        merged = {query.replace("q_proj", name) for name in ("q_proj", "k_proj", "v_proj")}
        # Every layer's alike: torch_dist stacks them.
        merged |= {name.replace("layers.1", f"layers.{i}") for name in merged for i in (0, 2, 3)}
        expected = {name: tensor.float() if name in merged else tensor for name, tensor in mixed.items()}
        for form in ("torch", "torch_dist"):
            out = self.convert("--load-dir", self.path("a"), "--save-dir", self.path(form), "--target-format", form)
            self.convert("--load-dir", self.path(form), "--save-dir", self.path(form + "_hf"),
                         "--target-format", "huggingface")
            self.same_tensors(expected, tensors_of(self.path(form + "_hf")))
            self.assertEqual(read_json(self.path(form + "_hf", "config.json"))["dtype"], "bfloat16")
            self.assertIn("elements of several types", out)
        self.same_states("a", "torch", "torch_dist")
        for flag, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
            self.convert("--load-dir", self.path("a"), "--save-dir", self.path(flag),
                         "--target-format", "huggingface", "--target-params-dtype", flag)
            self.same_tensors({name: tensor.to(dtype) for name, tensor in mixed.items()},
                              tensors_of(self.path(flag)))

    def test_a_config_of_another_type_than_the_tensors_is_noted(self):
        random_model(MODELS["llama2"], 9).save_pretrained(self.path("a"))
        config = read_json(self.path("a", "config.json"))
        write_text(self.path("a", "config.json"), json.dumps(config | {"dtype": "bfloat16"}))
        out = self.convert("--load-dir", self.path("a"), "--save-dir", self.path("b"))
        self.assertIn('dtype "bfloat16", but the tensors are float32: read as they are', out)

    def rows_of_export(self, load):
        out = self.convert("--load-dir", load, "--save-dir", load + "_hf", "--target-format", "huggingface")
        embedding = tensors_of(load + "_hf")["model.embed_tokens.weight"]
        self.assertEqual("padding rows are exported" in out, embedding.shape[0] == 104)
        return embedding.shape[0]

    def test_args_say_which_rows_are_padding(self):
        random_model(MODELS["qwen2"], 3).save_pretrained(self.path("hf"))
        save = self.path("meg")
        self.convert("--load-dir", self.path("hf"), "--save-dir", save, "--make-vocab-size-divisible-by", "8")
        self.convert("--load-dir", self.path("hf"), "--save-dir", self.path("cut"),
                     "--make-vocab-size-divisible-by", "8", "--true-vocab-size", "90")
        self.assertEqual(self.rows_of_export(self.path("cut")), 90)
        for target in ("torch", "huggingface"):
            self.assertIn("expected at least the 97 tokens that the checkpoint's args state, found 90",
                          self.refused("--load-dir", save, "--save-dir", self.path("less"),
                                       "--target-format", target, "--true-vocab-size", "90"))
        file = os.path.join(save, "release", "mp_rank_00", "model_optim_rng.pt")
        for args, rows in (({}, 97), ({"true_vocab_size": 96}, 104),
                           ({"true_vocab_size": None}, 104), ({"vocab_size": 98}, 98),
                           ({"vocab_size": 98, "tokenizer_type": "NullTokenizer"}, 99),
                           # core 0.18 brought the second arg and another meaning of the first.
                           ({"vocab_size": 97, "tokenizer_type": "NullTokenizer",
                             "null_tokenizer_eod_id": None}, 97),
                           ({"vocab_size": 105}, 104), ({"vocab_size": -1}, 104)):
            with self.subTest(args=args):
                state = reference_files.load_file(file)
                if "vocab_size" in args:
                    del state["args"].true_vocab_size
                vars(state["args"]).update(args)
                edited = self.path("-".join(map(str, args.values())) or "same")
                os.makedirs(os.path.join(edited, "release", "mp_rank_00"))
                shutil.copy(os.path.join(save, "latest_checkpointed_iteration.txt"), edited)
                torch.save(state, os.path.join(edited, "release", "mp_rank_00", "model_optim_rng.pt"))
                self.assertEqual(self.rows_of_export(edited), rows)

    def test_a_tied_output_layer_of_other_weights_is_refused(self):
        random_model(MODELS["gpt2"], 3).save_pretrained(self.path("hf"))
        for stages, rank, key, name in (
                ("1", "mp_rank_00", None, "output_layer.weight"),
                ("2", "mp_rank_00_001", "output_layer.weight", "output_layer.weight")):
            save = self.path("meg" + stages)
            self.convert("--load-dir", self.path("hf"), "--save-dir", save,
                         "--target-pipeline-parallel-size", stages)
            file = os.path.join(save, "release", rank, "model_optim_rng.pt")
            state = reference_files.load_file(file)
            first = reference_files.load_file(
                os.path.join(save, "release", rank[:10] + "_000" * (stages == "2"),
                             "model_optim_rng.pt"))
            table = first["model"]["embedding.word_embeddings.weight"]
            self.assertEqual(name in state["model"], key is not None)
            for change, code in ((table.clone(), 0), (table + 1, 1)):
                state["model"][name] = change
                torch.save(state, file)
                for target in ("torch", "torch_dist", "huggingface"):
                    command = ["--load-dir", save, "--save-dir", self.path(f"{stages}{target}{code}"),
                               "--target-format", target]
                    with self.subTest(stages=stages, target=target, code=code):
                        if code == 0:
                            self.convert(*command)
                        else:
                            self.assertIn("output_layer.weight: expected the embedding's weights",
                                          self.refused(*command))

    def test_torch_files_with_an_index_are_read(self):
        random_model(MODELS["llama3"], 2).save_pretrained(self.path("a"))
        tensors = tensors_of(self.path("a"))
        os.mkdir(self.path("b"))
        shutil.copy(self.path("a", "config.json"), self.path("b"))
        names, weight_map = sorted(tensors), {}
        for i in (0, 1):
            file = f"pytorch_model-0000{i + 1}-of-00002.bin"
            held = {name: tensors[name] for name in names[i::2]}
            torch.save(held, self.path("b", file))
            weight_map |= dict.fromkeys(held, file)
        write_text(self.path("b", "pytorch_model.bin.index.json"),
                   json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))
        for name in ("a", "b"):
            self.convert("--load-dir", self.path(name), "--save-dir", self.path(name + "_meg"))
        a, b = (rank_models(self.path(name, "release")) for name in ("a_meg", "b_meg"))
        self.same_tensors({k: v for k, v in a["mp_rank_00"][0].items() if v is not None},
                          {k: v for k, v in b["mp_rank_00"][0].items() if v is not None})

    def test_tokenizer_files_are_copied_along(self):
        random_model(MODELS["gpt2"], 3).save_pretrained(self.path("a"))
        for name in ("vocab.json", "merges.txt", "tokenizer.json"):
            write_text(self.path("a", name), name)
        self.convert("--load-dir", self.path("a"), "--save-dir", self.path("b"))
        self.convert("--load-dir", self.path("b"), "--save-dir", self.path("c"),
                     "--target-format", "huggingface")
        for name in ("vocab.json", "merges.txt", "tokenizer.json"):
            with open(self.path("c", name)) as file:
                self.assertEqual(file.read(), name)

    def test_a_damaged_folder_is_refused_in_one_line_and_nothing_is_written(self):
        random_model(MODELS["llama3"], 4).save_pretrained(self.path("a"), max_shard_size="60KB")
        index = read_json(self.path("a", "model.safetensors.index.json"))
        config = read_json(self.path("a", "config.json"))
        shards = sorted(set(index["weight_map"].values()))
        name = min(name for name, file in index["weight_map"].items() if file == shards[0])

        def with_index(change):
            changed = json.loads(json.dumps(index))
            change(changed["weight_map"])
            write_text(self.path("b", "model.safetensors.index.json"), json.dumps(changed))

        def with_config(**changes):
            write_text(self.path("b", "config.json"), json.dumps(config | changes))

        def cut_short():
            os.truncate(self.path("b", shards[0]), os.path.getsize(self.path("b", shards[0])) - 1)

        damages = {
            "but there is no such file": lambda: os.remove(self.path("b", shards[1])),
            "expected the name of a file beside the index": lambda: with_index(
                lambda files: files.update({name: "../" + files[name]})),
            "expected it in": lambda: with_index(
                lambda files: files.update({name: shards[-1]})),
            "expected it in the index": lambda: with_index(lambda files: files.pop(name)),
            "data bytes, found": cut_short,
            "found both": lambda: shutil.copy(self.path("b", shards[0]),
                                              self.path("b", "model.safetensors")),
            "expected shape": lambda: with_config(hidden_size=60, head_dim=8),
            "expected tensor": lambda: with_config(num_hidden_layers=5),
            "expected the tensors of": lambda: with_config(num_hidden_layers=5000000),
            "expected a tensor of LlamaForCausalLM": lambda: with_config(num_hidden_layers=3),
            "model_type": lambda: with_config(model_type="bert"),
            "attention_bias": lambda: with_config(attention_bias=True),
            "expected it once": lambda: write_text(
                self.path("b", "config.json"), '{"model_type":"llama","model_type":"llama"}')}
        for message, damage in damages.items():
            shutil.copytree(self.path("a"), self.path("b"))
            damage()
            with self.subTest(message):
                error = self.refused("--load-dir", self.path("b"), "--save-dir", self.path("c"))
                self.assertIn(message, error)
                self.assertFalse(os.path.exists(self.path("c")))
            shutil.rmtree(self.path("b"))
            shutil.rmtree(self.path("c"), ignore_errors=True)

    def test_a_flipped_bit_of_a_torch_file_is_found(self):
        # GPT-2's matrices are read transposed, its attention's in parts: neither as it stands there.
        tensors = random_model(MODELS["gpt2"], 8).state_dict()
        os.mkdir(self.path("a"))
        MODELS["gpt2"].save_pretrained(self.path("a"))
        torch.save(tensors, self.path("a", "pytorch_model.bin"))
        with open(self.path("a", "pytorch_model.bin"), "rb") as file:
            whole = file.read()
        for name in ("transformer.h.1.attn.c_attn.weight", "transformer.h.2.mlp.c_fc.weight",
                     "transformer.h.0.ln_1.bias", "transformer.wte.weight"):
            at = whole.index(tensors[name].numpy().tobytes()) + 101
            flipped = whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1:]
            with open(self.path("a", "pytorch_model.bin"), "wb") as file:
                file.write(flipped)
            error = self.refused("--load-dir", self.path("a"), "--save-dir", self.path("b"))
            self.assertIn("CRC-32: expected", error, name)
            self.assertFalse(os.path.exists(self.path("b", "release")))

    def test_a_head_that_is_tied_but_differs_is_refused(self):
        model = random_model(MODELS["llama_tied"], 5)
        model.save_pretrained(self.path("a"))
        tensors = tensors_of(self.path("a"))
        for head, is_taken in ((tensors["model.embed_tokens.weight"].clone(), True),
                               (tensors["model.embed_tokens.weight"] + 1, False)):
            safetensors.torch.save_file(tensors | {"lm_head.weight": head},
                                        self.path("a", "model.safetensors"))
            done = run("--load-dir", self.path("a"), "--save-dir", self.path("b"))
            self.assertEqual(done.returncode == 0, is_taken, done.stderr)

    def test_what_transformers_cannot_do_is_refused_by_the_args_name(self):
        random_model(MODELS["llama2"], 6).save_pretrained(self.path("a"))
        self.convert("--load-dir", self.path("a"), "--save-dir", self.path("b"))
        file = self.path("b", "release", "mp_rank_00", "model_optim_rng.pt")
        state = reference_files.load_file(file)
        for name, value in (("rotary_interleaved", True), ("window_size", [128, 5]), ("qk_l2_norm", True),
                            ("multi_latent_attention", True)):
            before = getattr(state["args"], name, None)
            setattr(state["args"], name, value)
            torch.save(state, file)
            setattr(state["args"], name, before)
            error = self.refused("--load-dir", self.path("b"), "--save-dir", self.path("c"),
                                 "--target-format", "huggingface")
            self.assertIn(name, error)
            self.assertFalse(os.path.exists(self.path("c")))

    def test_a_folder_of_something_else_is_not_replaced(self):
        random_model(MODELS["llama2"], 7).save_pretrained(self.path("a"))
        self.convert("--load-dir", self.path("a"), "--save-dir", self.path("b"))
        os.mkdir(self.path("c"))
        open(self.path("c", "thesis.tex"), "w").close()
        self.assertIn("expected a new or empty folder",
                      self.refused("--load-dir", self.path("b"), "--save-dir", self.path("c"),
                                   "--target-format", "huggingface"))
        self.assertEqual(os.listdir(self.path("c")), ["thesis.tex"])

    @unittest.skipUnless(os.path.isdir(GOLDEN), f"not found: {GOLDEN}")
    def test_golden_models_become_what_megatron_wrote(self):
        cases = (("hf_llama", "megatron_from_hf_llama_tp2", "4",
                  ["--target-tensor-parallel-size", "2", "--true-vocab-size", "290"]),
                 ("hf_gpt2", "megatron_from_hf_gpt2", None, ["--target-names", "legacy"]),
                 ("hf_gpt2_bin", "megatron_from_hf_gpt2", None, ["--target-names", "legacy"]))
        for source, expected, divisible_by, flags in cases:
            told = rank_models(os.path.join(GOLDEN, expected, "iter_0000001"))
            args = told["mp_rank_00"][1]
            divisible_by = divisible_by or str(args["make_vocab_size_divisible_by"])
            self.convert("--load-dir", os.path.join(GOLDEN, source), "--save-dir", self.path(source),
                         "--make-vocab-size-divisible-by", divisible_by, *flags)
            found = rank_models(self.path(source, "release"))
            self.assertEqual(found.keys(), told.keys())
            for rank, (model, _) in told.items():
                self.assertEqual(list(found[rank][0]), list(model))
                self.same_tensors({k: v for k, v in found[rank][0].items() if torch.is_tensor(v)},
                                  {k: v for k, v in model.items() if torch.is_tensor(v)})
                for name in ("num_layers", "hidden_size", "ffn_hidden_size", "kv_channels",
                             "num_attention_heads", "padded_vocab_size", "swiglu",
                             "add_bias_linear", "untie_embeddings_and_output_weights",
                             "tensor_model_parallel_size", "params_dtype"):
                    self.assertEqual(found[rank][1][name], args[name], name)

    @unittest.skipUnless(os.path.isdir(GOLDEN), f"not found: {GOLDEN}")
    def test_golden_checkpoints_of_megatron_become_the_models_they_came_from(self):
        for source, expected, rows in (("megatron_from_hf_gpt2", "hf_gpt2", 300),
                                       ("megatron_from_hf_llama_tp2", "hf_llama", 296)):
            self.convert("--load-dir", os.path.join(GOLDEN, source), "--save-dir",
                         self.path(source), "--target-format", "huggingface",
                         "--true-vocab-size", str(rows))
            told = tensors_of(os.path.join(GOLDEN, expected))
            cut = {name: tensor[:rows] if tensor.shape[0] == 300 else tensor
                   for name, tensor in told.items()}
            self.same_tensors(cut, tensors_of(self.path(source)))


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    unittest.main()
