#!/usr/bin/env python3
"""Models of Hugging Face to rank files and back: checkpoint_util beside `cp -r` of the same folder.

huggingface_bench.py [--family gpt2] [--gigabytes 1.5] [--runs N] [--folder DIR]

Makes Llama and GPT-2 models of random weights. What is imported (one rank, and two of tensor
parallelism) and exported again is compared with the source tensor for tensor; then fresh processes run
interleaved, figures are medians of whole processes. Reports wall-clock time and CPU time, which
depends less on the load of the machine. DIR is best a tmpfs (needs four times the model).
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

from checkpoint_reshape_bench import ROOT, Run, bytes_below, interleaved, machine

MAKE = """
import json, sys
import torch
from safetensors.torch import save_file
folder, family, layers, hidden = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
h, vocabulary, positions = hidden, 32000, 1024
if family == "llama":
    config = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=h,
                  intermediate_size=4 * h, num_attention_heads=h // 64, num_key_value_heads=h // 128,
                  num_hidden_layers=layers, vocab_size=vocabulary, max_position_embeddings=positions,
                  rms_norm_eps=1e-5, rope_theta=10000.0, hidden_act="silu",
                  tie_word_embeddings=False, torch_dtype="bfloat16")
    shapes = {"model.embed_tokens.weight": (vocabulary, h), "model.norm.weight": (h,),
              "lm_head.weight": (vocabulary, h)}
    for n in range(layers):
        at = f"model.layers.{n}."
        shapes |= {at + "input_layernorm.weight": (h,), at + "post_attention_layernorm.weight": (h,),
                   at + "self_attn.q_proj.weight": (h, h), at + "self_attn.k_proj.weight": (h // 2, h),
                   at + "self_attn.v_proj.weight": (h // 2, h), at + "self_attn.o_proj.weight": (h, h),
                   at + "mlp.gate_proj.weight": (4 * h, h), at + "mlp.up_proj.weight": (4 * h, h),
                   at + "mlp.down_proj.weight": (h, 4 * h)}
else:
    config = dict(architectures=["GPT2LMHeadModel"], model_type="gpt2", n_embd=h, n_head=h // 64,
                  n_layer=layers, n_positions=positions, n_ctx=positions, vocab_size=vocabulary,
                  activation_function="gelu_new", layer_norm_epsilon=1e-5, torch_dtype="bfloat16",
                  tie_word_embeddings=True)
    shapes = {"transformer.wte.weight": (vocabulary, h), "transformer.wpe.weight": (positions, h),
              "transformer.ln_f.weight": (h,), "transformer.ln_f.bias": (h,)}
    for n in range(layers):
        at = f"transformer.h.{n}."
        for name, shape in {"attn.c_attn": (h, 3 * h), "attn.c_proj": (h, h), "mlp.c_fc": (h, 4 * h),
                            "mlp.c_proj": (4 * h, h), "ln_1": (h,), "ln_2": (h,)}.items():
            shapes[f"{at}{name}.weight"] = shape
            shapes[f"{at}{name}.bias"] = shape[-1:]
generator = torch.Generator().manual_seed(1)
save_file({name: torch.empty(shape).normal_(0.0, 0.02, generator=generator).to(torch.bfloat16)
           for name, shape in shapes.items()}, folder + "/model.safetensors", {"format": "pt"})
with open(folder + "/config.json", "w") as file:
    json.dump(config, file)
"""

COMPARE = """
import sys
import torch
from safetensors import safe_open
a, b = (safe_open(folder + "/model.safetensors", "pt") for folder in sys.argv[1:])
assert set(a.keys()) == set(b.keys()), set(a.keys()) ^ set(b.keys())
for name in a.keys():
    assert torch.equal(a.get_tensor(name), b.get_tensor(name)), name
"""


def parse_arguments():
    cache = os.environ.get("MEG_DEPS") or os.path.expanduser("~/.cache/libmeg")
    venv = os.path.join(cache, "venv", "bin", "python")
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.5)
    parser.add_argument("--family", choices=["llama", "gpt2"], help="only this; both without it")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "release", "bin",
                                                          "checkpoint_util"))
    parser.add_argument("--python", default=venv if os.path.exists(venv) else sys.executable,
                        help="that has torch and safetensors")
    return parser.parse_args()


class Bench:
    def __init__(self, arguments, folder, family, multiple=1):
        """multiple: of which the number of layers is one."""
        self.arguments, self.folder, self.family = arguments, folder, family
        hidden = 1024
        a_layer = hidden * hidden * (15 if family == "llama" else 12) * 2
        layers = max(1, round(arguments.gigabytes * 1e9 / a_layer / multiple)) * multiple
        os.makedirs(self.path("source"))
        subprocess.run([arguments.python, "-c", MAKE, self.path("source"), family, str(layers),
                        str(hidden)], check=True)
        self.bytes = bytes_below(self.path("source"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def remove(self, name):
        shutil.rmtree(self.path(name), ignore_errors=True)

    def convert(self, source, target, *flags):
        return Run([self.arguments.program, "--load-dir", self.path(source), "--save-dir",
                    self.path(target), *flags])

    def export(self, source, target):
        return self.convert(source, target, "--target-format", "huggingface", "--max-shard-size", "100GB")

    def compare(self):
        """Leaves `tp1` and `tp2` behind, which are exported to what was imported."""
        for ranks in (1, 2):
            self.convert("source", f"tp{ranks}", "--target-tensor-parallel-size", str(ranks))
            self.export(f"tp{ranks}", "back")
            subprocess.run([self.arguments.python, "-c", COMPARE, self.path("source"),
                            self.path("back")], check=True)
            self.remove("back")

    def row(self, name, ours):
        run, copy = interleaved(
            self.arguments.runs,
            [ours, lambda: Run(["cp", "-r", self.path("source"), self.path("out")])],
            lambda: self.remove("out"))
        return (f"| {self.family}: {name} | {run.seconds:.2f} | {copy.seconds:.2f} | "
                f"{copy.seconds / run.seconds:.2f}x | {run.processors:.2f} | {copy.processors:.2f} | "
                f"{self.bytes / run.processors / 1e9:.2f} | {run.peak:.0f} |")

    def rows(self):
        for ranks in (1, 2):
            yield self.row(f"import, TP{ranks}", lambda ranks=ranks: self.convert(
                "source", "out", "--target-tensor-parallel-size", str(ranks)))
            yield self.row(f"export, TP{ranks}",
                           lambda ranks=ranks: self.export(f"tp{ranks}", "out"))


def main():
    arguments = parse_arguments()
    for family in [arguments.family] if arguments.family else ["llama", "gpt2"]:
        with tempfile.TemporaryDirectory(prefix="bench-", dir=arguments.folder) as folder:
            bench = Bench(arguments, folder, family)
            bench.compare()
            print(f"{machine()}, load {os.getloadavg()[0]:.1f}, {bench.bytes / 1e9:.2f} GB read, "
                  f"median of {arguments.runs}\n")
            print("| | s | cp s | of cp | processors s | of cp s | GB/s a core | peak MiB |\n|---|" +
                  "---:|" * 7)
            for row in bench.rows():
                print(row, flush=True)


if __name__ == "__main__":
    main()
