#!/usr/bin/env python3
"""vLLM as a judge of the hub: `vllm serve NAME/run --revision ...` answers as our own server does from the same
tensor- and pipeline-parallel rank files.

vllm_serves_runs.py FOLDER_OF_PROGRAMS
Skipped without vLLM (in MEG_VLLM_PYTHON or this Python), torch or transformers.
"""

import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

from hub_case import PROGRAMS, HubCase, main
from server_process import TOKENIZER, ServerProcess

PYTHON = os.environ.get("MEG_VLLM_PYTHON") or sys.executable
NAME, REVISION = "llama/run", "release"
SECONDS = 600  # vLLM compiles some of its code when it starts

try:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def why_not():
    done = subprocess.run([PYTHON, "-c", "import vllm"], capture_output=True, text=True)
    return done.stderr.strip().splitlines()[-1] if done.returncode else None


def write_model(folder):
    """As wide a head as vLLM computes on a CPU, and weights whose greedy choice is clear."""
    torch.manual_seed(3)
    vocabulary = json.loads((TOKENIZER / "vocab.json").read_text())
    end = vocabulary["<|endoftext|>"]
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=128, intermediate_size=256, num_hidden_layers=4, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=128, initializer_range=0.2, bos_token_id=end, eos_token_id=end))
    model.save_pretrained(folder)
    for file in ("vocab.json", "merges.txt"):
        (folder / file).write_bytes((TOKENIZER / file).read_bytes())
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "GPT2Tokenizer"}')


class VllmServer(ServerProcess):
    """`vllm serve` of a model of the hub at a free port."""

    def __init__(self, hub, folder):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.log = folder / "vllm.log"
        environment = dict(os.environ, HF_ENDPOINT=f"http://127.0.0.1:{hub.port}", HF_HOME=str(folder / "home"),
                           HF_HUB_DISABLE_TELEMETRY="1", VLLM_NO_USAGE_STATS="1", VLLM_CPU_KVCACHE_SPACE="1",
                           VLLM_CACHE_ROOT=str(folder / "cache"))
        command = [pathlib.Path(PYTHON).parent / "vllm", "serve", NAME, "--revision", REVISION, "--port", str(self.port),
                   "--dtype", "float32", "--enforce-eager"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        self.wait_for_health()

    def wait_for_health(self):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            try:
                client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
                client.request("GET", "/health")
                if client.getresponse().status == 200:
                    return
            except OSError:
                time.sleep(1)
        self.stop()
        raise RuntimeError("vLLM did not start: " + self.log.read_text()[-3000:])

    def stop(self, number=signal.SIGTERM):
        """Its workers are of its process group."""
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(timeout=60)


class Vllm(HubCase):
    @classmethod
    def make_root(cls):
        write_model(pathlib.Path(cls.folder.name) / "hf")
        subprocess.run([PROGRAMS / "checkpoint_util", "--load-dir", cls.folder.name + "/hf", "--save-dir",
                        cls.root / "llama" / "run", "--target-format", "torch", "--target-tensor-parallel-size", "2",
                        "--target-pipeline-parallel-size", "2"], check=True, capture_output=True)

    def setUp(self):
        self.vllm = VllmServer(self.server, pathlib.Path(self.folder.name))
        self.addCleanup(self.vllm.stop)
        self.own = ServerProcess(PROGRAMS / "run_text_generation_server", "--load", self.root / "llama" / "run",
                                 "--device", "cpu")
        self.addCleanup(self.own.stop)

    def test_its_completions_are_those_of_our_server(self):
        # vLLM 0.32 repeats a prompt of ids that ends within a character, and leaves out what a text has of its last one.
        for prompt in (["the", "of and to"], [[1, 2, 3, 50], [40, 41]]):
            with self.subTest(prompt=prompt):
                theirs, ours = (self.choices(server, {"model": model, "prompt": prompt}) for server, model in
                                ((self.vllm, NAME), (self.own, "run")))
                for choice, own in zip(theirs, ours, strict=True):
                    self.assertEqual(choice["text"], own["text"].rstrip("\ufffd"))
                    for expected, found in zip(choice["logprobs"]["token_logprobs"], own["logprobs"]["token_logprobs"],
                                               strict=True):
                        if expected is None or found is None:  # a text's first token
                            self.assertEqual(found, expected)
                        else:
                            self.assertAlmostEqual(found, expected, delta=1e-4)

    def choices(self, server, request):
        status, answer = server.ask_openai({**request, "max_tokens": 12, "temperature": 0, "logprobs": 1,
                                            "echo": True})
        self.assertEqual(status, 200, answer)
        return sorted(answer["choices"], key=lambda choice: choice["index"])


if __name__ == "__main__":
    if reason := why_not():
        print(f"skipped: {reason}")
        sys.exit(77)
    main()
