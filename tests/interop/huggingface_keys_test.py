#!/usr/bin/env python3
"""Every key of config.json for every class, beside transformers: what a missing key means, what null means,
and which keys other code than the class itself reads.

huggingface_keys_test.py CHECKPOINT_UTIL [unittest arguments]
"""
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    import transformers
    from transformers import AutoConfig, AutoModelForCausalLM
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM = ""
# Where the default of a class is a shape, tensors fit it, so that the default can be taken.
ROTARY = dict(vocab_size=97, hidden_size=64, intermediate_size=40, num_hidden_layers=2,
              num_attention_heads=32, max_position_embeddings=64, rms_norm_eps=1e-3,
              initializer_range=0.05, bos_token_id=3, eos_token_id=[5, 7], pad_token_id=11)
EXPERTS = dict(num_experts_per_tok=3, router_aux_loss_coef=0.5)
MODELS = {
    "gpt2": dict(vocab_size=97, n_embd=48, n_layer=2, n_head=4, n_positions=64, layer_norm_epsilon=1e-3,
                 bos_token_id=3, eos_token_id=[5, 7], pad_token_id=11),
    "llama": ROTARY | dict(num_key_value_heads=32),
    "mistral": ROTARY | dict(num_key_value_heads=8, sliding_window=None),
    "qwen2": ROTARY | dict(num_key_value_heads=32),
    "qwen3": ROTARY | dict(num_key_value_heads=32, head_dim=128, num_attention_heads=32),
    "mixtral": ROTARY | EXPERTS | dict(num_key_value_heads=8, num_local_experts=8, sliding_window=None),
    "qwen3_moe": ROTARY | EXPERTS | dict(num_key_value_heads=4, num_experts=8, moe_intermediate_size=24,
                                         norm_topk_prob=True),
    "qwen2_moe": ROTARY | EXPERTS | dict(num_key_value_heads=16, num_experts=8, moe_intermediate_size=24,
                                         shared_expert_intermediate_size=24, norm_topk_prob=True)}
# libmeg wants these stated; transformers takes those of a model of 7 billion parameters.
STATED = {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
          "n_embd", "n_layer", "n_head"}
# The others whose defaults would give tensors of other shapes, too large to be tried.
LARGE = {"moe_intermediate_size", "shared_expert_intermediate_size"}
# Of the class itself, and nothing that a folder could have in another way.
OWN = {"model_type", "architectures", "transformers_version", "dtype"}
NEUTRAL = {"use_cache", "output_router_logits", "reorder_and_upcast_attn", "summary_type", "summary_use_proj",
           "summary_proj_to_labels", "summary_first_dropout"}
# With null, the kinds of attention of transformers differ from each other.
AMBIGUOUS = {"is_causal"}
# Refused beyond need: a null that fails in training, and one of a key of transformers 5.0.
STRICT = {("llama", "attention_dropout"), ("qwen2_moe", "num_local_experts")}
# Keys of old files, and of the library's code for every class.
FURTHER = ("rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor", "head_dim",
           "num_key_value_heads", "sliding_window", "use_sliding_window", "max_window_layers", "layer_types",
           "attention_bias", "mlp_bias", "is_causal", "is_encoder_decoder", "attention_chunk_size",
           "quantization_config", "per_layer_config", "num_experts", "num_local_experts", "torch_dtype")


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True)


def random_model(config, seed):
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # Small, so that the epsilon of norms counts.
            noise = torch.randn(parameter.shape, generator=generator) * 0.05
            parameter.copy_(noise + 1 if "norm" in name or ".ln_" in name else noise)
    model.tie_weights()
    return model


def loaded(folder):
    """The model that transformers reads; None if it refuses the folder or misses tensors."""
    try:
        model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
        if info["missing_keys"] or info["mismatched_keys"] or info["unexpected_keys"]:
            return None
        return model.eval()
    except Exception:  # pylint: disable=broad-except
        return None


def compute(folder):
    model = loaded(folder)
    if model is None:
        return None
    tokens = torch.arange(2 * 24).reshape(2, 24) * 7 % 97
    try:
        with torch.no_grad():
            logits = model(tokens).logits
            made = model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=2,
                                  min_new_tokens=2, do_sample=False, output_logits=True,
                                  return_dict_in_generate=True)
    except Exception:  # pylint: disable=broad-except
        return None
    return torch.cat([logits.flatten(), torch.stack(made.logits).flatten()])


known_answers = {}


def answers(folder):
    """Logits of transformers, and those of tokens that it generates with a cache; None where it fails."""
    try:
        config = AutoConfig.from_pretrained(folder)
        config._name_or_path = ""  # pylint: disable=protected-access
        key = [type(config).__name__, config.to_json_string(use_diff=False)]
    except Exception:  # pylint: disable=broad-except
        return None
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            with open(os.path.join(folder, name), "rb") as file:
                key.append(hashlib.sha256(file.read()).hexdigest())
    if tuple(key) not in known_answers:
        known_answers[tuple(key)] = compute(folder)
    return known_answers[tuple(key)]


def write_json(value, *names):
    with open(os.path.join(*names), "w") as file:
        json.dump(value, file)


def read_json(*names):
    with open(os.path.join(*names)) as file:
        return json.load(file)


class Keys(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.root, cls.configs = folder.name, {}
        for seed, (name, values) in enumerate(MODELS.items()):
            config = AutoConfig.for_model(name, **values)
            if name != "gpt2":
                config.rope_parameters = {"rope_type": "default", "rope_theta": 50000.0}
            random_model(config, seed).save_pretrained(cls.path(name))
            cls.configs[name] = read_json(cls.path(name), "config.json")

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.root, *names)

    def folder(self, name, config):
        """The model with another config.json."""
        made = self.path("case")
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(self.path(name), made, copy_function=os.link, ignore=shutil.ignore_patterns("config.json"))
        write_json(config, made, "config.json")
        return made

    def exported(self, folder):
        """What libmeg reads, written again; None if it refuses the folder."""
        out = self.path("out")
        shutil.rmtree(out, ignore_errors=True)
        done = run("--load-dir", folder, "--save-dir", out, "--target-format", "huggingface")
        if done.returncode == 0:
            return out, done.stdout
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
        self.assertFalse(os.path.exists(out))
        return None, done.stderr

    def assert_same_answers(self, folder, out):
        expected, found = answers(folder), answers(out)
        self.assertIsNotNone(expected, "transformers refuses what was read")
        self.assertIsNotNone(found)
        # Differences of defaults are larger by orders.
        self.assertLess((expected - found).abs().max().item(), 1e-5)

    def older(self, config):
        """The config as transformers 4 spells it."""
        config = dict(config)
        if "rope_parameters" in config:
            config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
        return config

    def test_a_missing_key_and_null_mean_what_they_mean_in_transformers(self):
        taken = 0
        for name, config in self.configs.items():
            older = self.older(config)
            for key in sorted(set(config) | set(older) | set(FURTHER) - OWN):
                if key in OWN:
                    continue
                base = config if key in config else older
                changes = {"missing": {k: v for k, v in base.items() if k != key},
                           "null": base | {key: None}}
                for change, changed in changes.items():
                    with self.subTest(model=name, key=key, change=change):
                        folder = self.folder(name, changed)
                        out, message = self.exported(folder)
                        if out is not None:
                            # transformers 5 refuses null for these, which change nothing.
                            if change != "null" or key not in NEUTRAL:
                                self.assert_same_answers(folder, out)
                            taken += 1
                        elif change == "missing" and key in STATED | LARGE:
                            self.assertIn(key if key in STATED else "expected shape", message)
                        else:
                            # Only what transformers fails at or computes in another way.
                            found = answers(folder)
                            self.assertTrue(found is None or not torch.equal(found, answers(self.path(name))) or
                                            key in AMBIGUOUS or (name, key) in STRICT, message)
        self.assertGreater(taken, 200)

    def test_ids_and_other_keys_go_out_as_they_came_in(self):
        for name, config in self.configs.items():
            out, _ = self.exported(self.path(name))
            written = read_json(out, "config.json")
            for key in ("bos_token_id", "eos_token_id", "pad_token_id", "use_cache"):
                self.assertEqual(written.get(key), config.get(key), (name, key))
            self.assertFalse([key for key in written if key.endswith("_config")], name)
            self.assertEqual(loaded(out).generation_config.eos_token_id, [5, 7])

    def test_keys_that_other_code_reads_are_taken_or_refused_as_they_count(self):
        layers = ["full_attention", "sliding_attention"]
        values = {
            "is_causal": [False, True], "attention_chunk_size": [4], "kv_sharing_modes": [["reuse", None]],
            "per_layer_config": [{"1": {"num_attention_heads": 2}}, {}], "layer_types": [layers, layers[:1] * 2],
            "sliding_window": [4, 4096], "use_sliding_window": [True, False], "max_window_layers": [0, 1],
            "text_config": [{"hidden_size": 8}], "decoder": [{}], "generator": [{}], "text_encoder": [{}],
            "transformers_weights": ["other.safetensors", "model.safetensors"], "fusion_config": [{"x": True}],
            "_rope_type_labels": [["full_attention"]], "default_rope_type": ["linear", "default"],
            "default_theta": [5.0], "original_max_position_embeddings": [8], "rope_scaling": [
                {"rope_type": "linear", "factor": 2.0}, {"type": "linear", "factor": 2.0, "rope_theta": 7.0},
                {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                 "original_max_position_embeddings": 8192}, {}],
            "rope_parameters": [{"full_attention": {"rope_theta": 7.0, "rope_type": "default"}},
                                {"rope_type": None, "rope_theta": 7.0}, {"rope_theta": None}],
            "partial_rotary_factor": [0.5, 1.0], "num_hidden_layers": [1], "hidden_size": [32],
            "max_position_embeddings": [32], "num_attention_heads": [2], "tie_word_embeddings": [True],
            "mlp_layer_types": [["dense", "sparse"]], "num_kv_shared_layers": [1], "norm_topk_prob": [False],
            "router_jitter_noise": [0.0], "embd_pdrop": [0.0], "logit_scale": [2.0], "dtype": ["float32"]}
        sliding = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0}
        for name, config in self.configs.items():
            older = self.older(config)
            cases = [{key: value} for key, some in values.items() for value in some]
            cases += [{"original_max_position_embeddings": 4096, "rope_scaling": values["rope_scaling"][2]},
                      sliding, sliding | {"max_window_layers": 1}, sliding | {"layer_types": layers}]
            for case in cases:
                key = next(iter(case))
                base = config if key == "rope_parameters" or key not in older else older
                if "rope_scaling" in case:
                    base = older
                    if name == "gpt2":  # which has none: transformers only checks the words
                        continue
                with self.subTest(model=name, case=case):
                    folder = self.folder(name, base | case)
                    out, message = self.exported(folder)
                    if out is not None:
                        self.assert_same_answers(folder, out)
                    else:
                        self.assertRegex(message, "|".join(case) + "|expected shape|expected tensor|tensor of|"
                                                                   "layer_types|sliding_window|tie_word|rope_")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    transformers.logging.set_verbosity(50)
    transformers.logging.disable_progress_bar()
    unittest.main()
