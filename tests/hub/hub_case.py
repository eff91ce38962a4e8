"""A hub as a process of its own, with folders of its own."""

import http.client
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serving"))

from server_process import ROOT, ServerProcess  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else pathlib.Path()
TINY = ROOT / "testdata" / "checkpoint"
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512,
          "intermediate_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 8,
          "num_key_value_heads": 8, "vocab_size": 8000, "max_position_embeddings": 64,
          "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False,
          "torch_dtype": "float32", "rope_theta": 10000.0}


def write_llama(folder):
    """A model of 54 MB of random bits, without a package that knows the format."""
    hidden, inner, vocabulary = 512, 1024, 8000
    shapes = {"model.embed_tokens.weight": [vocabulary, hidden], "model.norm.weight": [hidden],
              "lm_head.weight": [vocabulary, hidden]}
    for layer in range(2):
        name = f"model.layers.{layer}."
        for part in "qkvo":
            shapes[f"{name}self_attn.{part}_proj.weight"] = [hidden, hidden]
        for part in ("gate", "up"):
            shapes[f"{name}mlp.{part}_proj.weight"] = [inner, hidden]
        shapes[name + "mlp.down_proj.weight"] = [hidden, inner]
        for part in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{name}{part}.weight"] = [hidden]
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in sorted(shapes.items()):
        size = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir(parents=True)
    data = random.Random(5).randbytes(1 << 20)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for at in range(0, end, len(data)):
            file.write(data[:end - at])
    (folder / "config.json").write_text(json.dumps(CONFIG))


def export(source, *flags):
    """The files of the folder that checkpoint_util makes of a checkpoint, by name."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([PROGRAMS / "checkpoint_util", "--load-dir", source, "--save-dir",
                        folder + "/hf", "--target-format", "huggingface", *flags], check=True,
                       capture_output=True)
        return {path.name: path.read_bytes() for path in pathlib.Path(folder, "hf").iterdir()}


class HubCase(unittest.TestCase):
    """A hub of `self.root`, which make_root() fills."""

    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name).resolve() / "runs"
        cls.root.mkdir()
        cls.make_root()
        cls.server = ServerProcess(PROGRAMS / "serve_checkpoints", *cls.flags,
                                   vocabulary=[str(cls.root)])

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        cls.folder.cleanup()
        assert code == 0, cls.server.log_text()

    @classmethod
    def make_root(cls):
        shutil.copytree(TINY, cls.root / "gpt" / "tiny")

    def get(self, path, headers=None, method="GET", body=None):
        """(status, headers, body)"""
        client = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            client.request(method, path, body, headers or {})
            answer = client.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            client.close()

    def json(self, path, expected=200, **options):
        status, _, body = self.get(path, **options)
        self.assertEqual(status, expected, body)
        return json.loads(body)

    def file(self, name, repository="gpt/tiny", revision="main", **options):
        return self.get(f"/{repository}/resolve/{revision}/{name}", **options)

    def refused(self, path, code, **options):
        status, headers, body = self.get(path, **options)
        self.assertEqual((status, headers["X-Error-Code"]), (404, code), body)
        return json.loads(body)["error"]


def main():
    # Sockets that threads leave open are closed with the process.
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], warnings="ignore")
