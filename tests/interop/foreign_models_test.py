#!/usr/bin/env python3
"""Models that are no GPT model of ours: each is refused in one line that names what it is, and nothing is
written. The real megatron-core and transformers say what such models are called and made of.

foreign_models_test.py CHECKPOINT_UTIL VERIFY [unittest arguments]
"""
import json
import os
import shutil

from checkpoint_case import NEWER, CheckpointCase, run_tests

os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
# What an error names; None: the model is taken.
MODELS = {
    "plain": None, "latent_attention": "multi_latent_attention",
    "low_rank_queries": "multi_latent_attention", "predicted_tokens": "mtp_num_layers",
    "output_gate": "attention_output_gate"}
# These are of packages that cannot be built here: Mamba, ModelOpt, fla.
PARAMETERS = {
    "decoder.layers.0.mixer.in_proj.weight": "hybrid_layer_pattern",
    "decoder.layers.0.self_attention.A_log": "experimental_attention_variant",
    "decoder.layers.0.self_attention.core_attention.indexer.linear_wq_b.weight":
        "experimental_attention_variant",
    "decoder.layers.0.mlp.fc1_latent_proj.weight": "moe_latent_size",
    "decoder.layers.0.mlp.linear_fc1.weight_quantizer._amax": "ModelOpt",
    "decoder.layers.0.cross_attention.encoder.layers.0.mlp.linear_fc1.weight": "retro_add_retriever",
    "encoder.layers.0.self_attention.linear_qkv.weight": "T5",
    "vision_model.conv1.weight": "multimodal"}
ARGUMENTS = {
    "moe_mlp_glu_interleave_size": 32, "moe_shared_expert_glu_interleave_size": 32,
    "heterogeneous_layers_config_path": "layers.json",
    "heterogeneous_layers_config_encoded_json": "{}"}


class Megatron(CheckpointCase):
    def setUp(self):
        super().setUp()
        self.run_main("megatron_core.foreign_models", self.folder)

    def expect_refused(self, load, word):
        for form in ("torch", "torch_dist", "huggingface"):
            with self.subTest(load=load, form=form):
                self.assertIn(word, self.refuse(load, "--target-format", form))
        done = self.run_program(self.verify, "checkpoint", load, code=1)
        self.assertIn(word, done.stdout + done.stderr)

    def test_models_of_the_package(self):
        for name, word in MODELS.items():
            for form in ("ranks", "dist"):
                load = self.path(os.path.join(name, form))
                if word is None:
                    self.convert(load, f"{name}_{form}_whole")
                else:
                    self.expect_refused(load, word)

    def test_parameters_and_arguments(self):
        import torch
        path = os.path.join(self.path("changed"), "mp_rank_00", "model_optim_rng.pt")
        shutil.copytree(self.path("plain/ranks/iter_0000001"), self.path("changed"))
        state = torch.load(path, weights_only=False)
        for name, word in PARAMETERS.items():
            torch.save({**state, "model": {**state["model"], name: torch.zeros(4, 4)}}, path)
            self.expect_refused(self.path("changed"), word)
        plain = vars(state["args"])
        for name, value in ARGUMENTS.items():
            torch.save({**state, "args": type(state["args"])(**plain, **{name: value})}, path)
            self.expect_refused(self.path("changed"), f"args: {name} ")


class NewerMegatron(Megatron):
    python_path = (NEWER,)


class HuggingFace(CheckpointCase):
    def expect_refused(self, word, **files):
        """files: texts by name; a dot is written as two underscores."""
        folder = self.path("model")
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        for name, text in files.items():
            with open(os.path.join(folder, name.replace("__", ".")), "w") as file:
                file.write(text)
        with self.subTest(word=word):
            self.assertIn(word, self.refuse(folder))

    def test_architectures_of_transformers(self):
        from transformers import AutoConfig
        words = {name: "model_type: expected one of gpt2, llama" for name in (
            "phi", "gptj", "opt", "bloom", "mamba", "t5", "bert", "deepseek_v3", "gpt_oss", "cohere")}
        for name, word in {**words, "falcon": "new_decoder_architecture: expected True"}.items():
            config = AutoConfig.for_model(name).to_json_string(use_diff=False)
            self.expect_refused(word, config__json=config,
                                model__safetensors="")

    def test_quantized_models(self):
        from transformers import LlamaConfig
        from transformers.utils.quantization_config import QuantizationMethod
        config = LlamaConfig().to_dict()
        for method in QuantizationMethod:
            for key in ("quantization_config", "compression_config"):
                changed = {**config, key: {"quant_method": method.value}}
                self.expect_refused(f"{key}: expected", config__json=json.dumps(changed),
                                    model__safetensors="")

    def test_adapters(self):
        from transformers import LlamaConfig
        config = LlamaConfig().to_json_string(use_diff=False)
        adapter = json.dumps({"peft_type": "LORA", "base_model_name_or_path": "base"})
        for files in ({"adapter_model__safetensors": ""},
                      {"adapter_model__safetensors": "", "config__json": config},
                      {"model__safetensors": "", "config__json": config}):
            self.expect_refused("adapter_config.json: adapters of PEFT", adapter_config__json=adapter,
                                **files)

    def test_files_of_other_programs(self):
        self.expect_refused("GGUF of llama.cpp", **{"model-Q4__gguf": "GGUF", "config__json": "{}"})
        self.assertIn("GGUF of llama.cpp", self.refuse(self.path("model/model-Q4.gguf")))
        self.expect_refused("Meta's Llama format", params__json="{}",
                            **{"consolidated__00__pth": ""})
        self.expect_refused("weights of TensorFlow", tf_model__h5="", config__json="{}")
        self.expect_refused("archive of NeMo", model__nemo="")
        with open(self.path("model.safetensors"), "w"):
            pass
        self.assertIn("expected the folder with its config.json",
                      self.refuse(self.path("model.safetensors")))


if __name__ == "__main__":
    run_tests()
