#!/usr/bin/env python3
"""Every family of Hugging Face that libmeg reads: through each layout and back, and computed beside transformers.

huggingface_families_test.py BIN COMPUTE_CHECKPOINT [unittest arguments]
The models are of real configurations at small sizes, with random weights, norms and biases.
"""
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

os.environ["OMP_NUM_THREADS"] = "1"  # such small models are no work for threads
try:
    import numpy
    import safetensors.torch
    import torch
    import transformers
    from transformers import AutoConfig, AutoModelForCausalLM
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

BIN = COMPUTE = ""
LENGTH = 48
WINDOW = 12
VOCABULARY = 104
SIZES = dict(vocab_size=VOCABULARY, hidden_size=48, intermediate_size=80, num_hidden_layers=4,
             num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=64,
             bos_token_id=3, eos_token_id=5, pad_token_id=None)
NEOX = {k: v for k, v in SIZES.items() if k != "num_key_value_heads"}
FALCON = {k: v for k, v in NEOX.items() if k != "intermediate_size"} | dict(
    num_kv_heads=2, ffn_hidden_size=96, new_decoder_architecture=True)
GEMMA = SIZES | dict(head_dim=16)
MIXED = ["sliding_attention", "full_attention"] * 2


def plain(theta, **others):
    return dict(rope_type="default", rope_theta=theta, **others)


MODELS = {
    "starcoder2": ("starcoder2", SIZES | dict(sliding_window=None, rope_parameters=plain(1e5))),
    "starcoder2_window": ("starcoder2", SIZES | dict(sliding_window=WINDOW, use_bias=False,
                                                     tie_word_embeddings=False)),
    "phi3": ("phi3", SIZES | dict(sliding_window=WINDOW)),
    "phi4": ("phi3", SIZES | dict(num_key_value_heads=4, rope_parameters=plain(
        250000.0, partial_rotary_factor=0.7))),
    "granite": ("granite", SIZES | dict(embedding_multiplier=12.0, logits_scaling=8.0, residual_multiplier=0.22,
                                        attention_multiplier=0.015625, rope_parameters=plain(1e7))),
    "smollm3": ("smollm3", SIZES),
    "smollm3_window": ("smollm3", SIZES | dict(no_rope_layers=[1, 0, 0, 1], use_sliding_window=True,
                                               sliding_window=WINDOW)),
    "olmo2": ("olmo2", SIZES | dict(rope_parameters=plain(500000.0))),
    "olmo3": ("olmo3", SIZES | dict(sliding_window=WINDOW)),
    "gpt_neox": ("gpt_neox", NEOX),
    "gpt_neox_sequential": ("gpt_neox", NEOX | dict(use_parallel_residual=False, hidden_act="gelu_fast",
                                                    rope_parameters=plain(1e4, partial_rotary_factor=1.0))),
    "falcon": ("falcon", FALCON),
    "falcon_biases": ("falcon", FALCON | dict(bias=True, tie_word_embeddings=False)),
    "gemma": ("gemma", GEMMA),
    "gemma2": ("gemma2", GEMMA | dict(sliding_window=WINDOW, query_pre_attn_scalar=144)),
    "gemma2_open": ("gemma2", GEMMA | dict(layer_types=["full_attention"] * 4, query_pre_attn_scalar=16,
                                           attn_logit_softcapping=None, final_logit_softcapping=None)),
    "gemma3": ("gemma3_text", GEMMA | dict(sliding_window=WINDOW, sliding_window_pattern=2, query_pre_attn_scalar=168)),
    "gemma3_linear": ("gemma3_text", GEMMA | dict(
        sliding_window=WINDOW, layer_types=MIXED, rope_parameters={
            "full_attention": dict(rope_type="linear", factor=8.0, rope_theta=1e6),
            "sliding_attention": plain(1e4)}))}
# Zero-centred norms.
AROUND_ZERO = ("gemma", "gemma2", "gemma3_text")


def random_model(config, seed):
    """No weight or bias is a constant, so that none can be mistaken for another."""
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    generator = torch.Generator().manual_seed(seed)
    ones = 0 if config.model_type in AROUND_ZERO else 1
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator) * 0.15
            is_norm = "norm" in name or ".ln_" in name
            parameter.copy_(noise * 2 + ones if is_norm and name.endswith("weight") else noise)
    model.tie_weights()
    return model


def tensors_of(folder):
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        found |= safetensors.torch.load_file(path)
    return found


def tokens_of(rows, length):
    return torch.arange(rows * length).reshape(rows, length) * 7 % VOCABULARY


class Families(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="meg-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.root, cls.models = folder.name, {}
        for seed, (name, (model_type, values)) in enumerate(MODELS.items()):
            config = AutoConfig.for_model(model_type, **values)
            cls.models[name] = random_model(config, seed)
            cls.models[name].save_pretrained(cls.path(name))

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.root, *names)

    def run_program(self, *command, code=0):
        done = subprocess.run([os.path.join(BIN, command[0]), *map(str, command[1:])], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, code, (command, done.stdout[-1500:], done.stderr))
        return done.stdout + done.stderr

    def convert(self, load, save, *flags):
        return self.run_program("checkpoint_util", "--load-dir", self.path(load), "--save-dir", self.path(save), *flags)

    def assert_same_tensors(self, a, b):
        self.assertEqual(a.keys(), b.keys())
        for name, tensor in a.items():
            self.assertEqual(tensor.dtype, b[name].dtype, name)
            self.assertTrue(torch.equal(tensor, b[name]), name)

    def test_every_layout_comes_back_tensor_for_tensor_with_the_same_config(self):
        layouts = {"torch": ["--target-tensor-parallel-size", "2", "--target-pipeline-parallel-size", "2",
                             "--make-vocab-size-divisible-by", "16"],
                   "torch_dist": ["--target-format", "torch_dist"]}
        for name in MODELS:
            for layout, flags in layouts.items():
                with self.subTest(name, layout=layout):
                    self.convert(name, f"{name}_{layout}", *flags)
                    back = f"{name}_{layout}_hf"
                    self.convert(f"{name}_{layout}", back, "--target-format", "huggingface")
                    self.assert_same_tensors(tensors_of(self.path(name)), tensors_of(self.path(back)))
                    expected, found = (AutoConfig.from_pretrained(self.path(folder)) for folder in (name, back))
                    for config in (expected, found):
                        config._name_or_path = ""  # pylint: disable=protected-access
                    self.assert_same_config(expected.to_dict(), found.to_dict())
                    model = AutoModelForCausalLM.from_pretrained(self.path(back), attn_implementation="eager").eval()
                    with torch.no_grad():
                        tokens = tokens_of(1, LENGTH)
                        difference = (model(tokens).logits - self.models[name](tokens).logits).abs().max().item()
                        # Two spellings of GELU differ by rounding.
                        self.assertLess(difference, 1e-5)

    def assert_same_config(self, expected, found):
        # Sizes and settings that are said in several ways, or that nothing reads.
        said = {"head_dim", "rope_theta", "rope_scaling", "rope_local_base_freq", "partial_rotary_factor", "rotary_pct",
                "rotary_emb_base", "is_causal", "sliding_window_pattern", "_sliding_window_pattern", "rotary_ndims",
                "torch_dtype", "transformers_version", "num_ln_in_parallel_attn", "use_bidirectional_attention",
                "no_rope_layer_interval", "architectures", "dtype", "sliding_window", "layer_types", "hidden_act"}
        for key in expected.keys() - said:
            self.assertEqual(expected[key], found.get(key), key)

    def computed(self, folder):
        windows = torch.cat([tokens_of(2, LENGTH), torch.full((2, 1), 9)], 1)
        numpy.save(self.path("windows.npy"), windows.numpy().astype(numpy.int64))
        out = tempfile.mkdtemp(dir=self.root)
        done = subprocess.run([COMPUTE, folder, self.path("windows.npy"), out], capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        arrays = {name: numpy.fromfile(os.path.join(out, name), numpy.float32) for name in os.listdir(out)}
        return windows, arrays

    def test_logits_and_gradients_are_those_of_transformers(self):
        largest = {}
        for name, model in self.models.items():
            with self.subTest(name):
                windows, arrays = self.computed(self.path(name))
                model.zero_grad()
                logits = model(windows[:, :-1]).logits
                torch.nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten()).backward()
                found = torch.from_numpy(arrays["logits"]).view(logits.shape)
                difference = (found - logits).abs().max().item()
                squares = [sum((array.astype(numpy.float64) ** 2).sum() for key, array in arrays.items()
                               if key.startswith("gradient.")),
                           sum((p.grad.double() ** 2).sum().item() for p in model.parameters())]
                largest[name] = (difference, logits.abs().max().item(), abs(squares[0] / squares[1] - 1))
                self.assertLess(difference, 1e-5 * max(1, logits.abs().max().item()))
                self.assertLess(abs(squares[0] / squares[1] - 1), 1e-4)
        print("\n".join(f"{name}: logits {values[0]:.1e} of {values[1]:.1f}, squared gradients {values[2]:.1e}"
                        for name, values in largest.items()))

    def test_generated_tokens_are_those_of_transformers_beyond_the_window(self):
        prompt, count = tokens_of(1, 17), 24
        for name, model in self.models.items():
            with self.subTest(name):
                # No token ends a text; the last one, NullTokenizer's end, is never drawn.
                self.run_program("generate", "--load", self.path(name), "--tokenizer-type", "NullTokenizer",
                                 "--vocab-size", VOCABULARY - 1, "--prompts", " ".join(map(str, prompt[0].tolist())),
                                 "--tokens-to-generate", count, "--device", "cpu", "--greedy", "--ignore-eod",
                                 "--output", self.path("texts.jsonl"))
                with open(self.path("texts.jsonl")) as file:
                    found = json.loads(file.readline())["ids"]
                self.assertEqual(len(found), count)
                # Each is the most likely one after those before it: one pass of transformers shows all of them.
                with torch.no_grad():
                    logits = model(torch.cat([prompt, torch.tensor([found])], 1)).logits[0, 16:-1, :VOCABULARY - 1]
                self.assertEqual(found, logits.argmax(-1).tolist())


if __name__ == "__main__":
    BIN, COMPUTE = sys.argv.pop(1), sys.argv.pop(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    unittest.main()
