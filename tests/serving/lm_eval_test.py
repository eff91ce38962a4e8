#!/usr/bin/env python3
"""lm-eval over HTTP beside lm-eval on the same weights in transformers: the same log probabilities,
the same greedy answers, the same texts.

lm_eval_test.py SERVER
Skipped without lm-eval 0.4.13 (in MEG_LM_EVAL_PYTHON or this Python), torch, transformers or the shared files.
"""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

from server_process import ROOT, ServerProcess

sys.path.insert(0, str(ROOT / "tests"))
from python_script import run_script  # noqa: E402

SERVER = os.path.abspath(sys.argv[1])
PYTHON = os.environ.get("MEG_LM_EVAL_PYTHON") or sys.executable
SHARED = pathlib.Path(os.environ.get("MEG_SHARED") or ROOT.parent / "shared")
MAKE_MODEL = SHARED / "bench" / "make_hf_gpt2.py"
GPT2 = SHARED / "data" / "gpt2"
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1",
                   TOKENIZERS_PARALLELISM="false", CUDA_VISIBLE_DEVICES="")
POSITIONS = 128
WORDS = "the of and to in a is that for it as was with be by on not he his but at are 1492 naïve 東京 🙂".split()
TASKS = {
    "meg_choice": {"output_type": "multiple_choice", "doc_to_text": "{{context}}", "doc_to_target": "label",
                   "doc_to_choice": "choices", "metric_list": [{"metric": "acc"}]},
    # As its lambada_openai.
    "meg_lambada": {"output_type": "loglikelihood", "doc_to_text": "{{text.split(' ')[:-1]|join(' ')}}",
                    "doc_to_target": "{{' '+text.split(' ')[-1]}}", "metric_list": [{"metric": "acc"}]},
    "meg_rolling": {"output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{text}}",
                    "metric_list": [{"metric": "bits_per_byte"}]},
    "meg_generate": {"output_type": "generate_until", "doc_to_text": "{{context}}", "doc_to_target": "{{text}}",
                     "generation_kwargs": {"until": [" the", "\n\n"], "max_gen_toks": 20, "do_sample": False},
                     "metric_list": [{"metric": "exact_match"}]},
}

# For Python: as if they were not installed.
ABSENT = """
import importlib.util, sys

def is_absent(name):
    return name.split(".")[0] in ("torch", "transformers", "accelerate")

class Finder:
    def find_spec(self, name, path=None, target=None):
        if is_absent(name):
            raise ModuleNotFoundError("not needed: " + name)

find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if is_absent(name) else find_spec(name, package)
sys.meta_path.insert(0, Finder())
"""


def why_not():
    for needed in (MAKE_MODEL, GPT2 / "vocab.json"):
        if not needed.exists():
            return f"not found: {needed}"
    done = subprocess.run([PYTHON, "-c", "import lm_eval, tenacity, aiohttp, accelerate, torch, transformers"],
                          capture_output=True, text=True)
    return done.stderr.strip().splitlines()[-1] if done.returncode else None


class LmEvalTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.held = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.held.name)
        run_script(MAKE_MODEL, cls.folder / "hf", "--layers", "3", "--hidden", "64", "--heads", "4",
                   "--positions", POSITIONS, "--std", "0.25")
        run_script(ROOT / "tests/generation/hf_gpt2_to_megatron.py", cls.folder / "hf", cls.folder / "small")
        for name in ("vocab.json", "merges.txt"):
            shutil.copy(GPT2 / name, cls.folder / "hf" / name)
        (cls.folder / "hf/tokenizer_config.json").write_text('{"tokenizer_class": "GPT2Tokenizer"}')
        cls.write_tasks()
        cls.server = ServerProcess(SERVER, "--load", cls.folder / "small", "--device", "cpu",
                                   vocabulary=["--vocab-file", GPT2 / "vocab.json",
                                               "--merge-file", GPT2 / "merges.txt"],
                                   environment=ENVIRONMENT)
        cls.hf = cls.run_lm_eval("hf", f"pretrained={cls.folder / 'hf'},dtype=float32,"
                                       f"max_length={POSITIONS - 2}")  # the windows of its HTTP client

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        cls.held.cleanup()
        assert code == 0, cls.server.log_text()

    @classmethod
    def write_tasks(cls):
        generator = random.Random(7)

        def text(low, high):
            return " ".join(generator.choices(WORDS, k=generator.randint(low, high)))
        lines = [{"context": text(1, 30), "choices": [" " + text(1, 8) for _ in range(4)], "label": 1,
                  "text": text(5, 200)} for _ in range(24)]
        (cls.folder / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (cls.folder / "tasks").mkdir()
        for name, task in TASKS.items():
            task = {"task": name, "dataset_path": "json", "test_split": "test",
                    "dataset_kwargs": {"data_files": {"test": str(cls.folder / "lines.jsonl")}}, **task}
            (cls.folder / "tasks" / f"{name}.yaml").write_text(json.dumps(task))  # JSON is YAML

    @classmethod
    def run_lm_eval(cls, model, arguments, *flags, tasks=tuple(TASKS), environment=None):
        """{task: responses by document}"""
        out = cls.folder / f"out{len(list(cls.folder.iterdir()))}"
        command = [PYTHON, "-m", "lm_eval", "--model", model, "--model_args", arguments, "--tasks",
                   ",".join(tasks), "--include_path", str(cls.folder / "tasks"), "--output_path", str(out),
                   "--log_samples", *flags]
        done = subprocess.run(command, env=environment or {**ENVIRONMENT, "HF_HOME": str(cls.folder / "home")},
                              capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-3000:]
        answers = {}
        for task in tasks:
            found, = out.glob(f"**/samples_{task}_*.jsonl")
            samples = sorted(map(json.loads, found.read_text().splitlines()), key=lambda line: line["doc_id"])
            answers[task] = [sample["resps"] for sample in samples]
        return answers

    def arguments(self):
        return f"model=small,base_url=http://127.0.0.1:{self.server.port}/v1/completions,max_length={POSITIONS}"

    def compare(self, served):
        def number(value):
            return float(value[0] if isinstance(value, list) else value)
        for task in ("meg_choice", "meg_lambada", "meg_rolling"):
            self.assertEqual(len(served[task]), len(self.hf[task]))
            for mine, theirs in zip(served[task], self.hf[task]):
                for (own, *_), (other, *_) in zip(mine, theirs, strict=True):
                    self.assertAlmostEqual(number(own) / number(other), 1, delta=1e-5)
                    if task != "meg_rolling":
                        self.assertEqual(str(own[1]), str(other[1]))
        self.assertEqual(served["meg_generate"], self.hf["meg_generate"])

    def test_it_scores_and_generates_as_transformers_does(self):
        self.compare(self.run_lm_eval("local-completions", self.arguments()))

    def test_batches_of_concurrent_clients_do_as_well(self):
        self.compare(self.run_lm_eval("local-completions", self.arguments() + ",num_concurrent=4",
                                      "--batch_size", "8"))

    def test_greedy_answers_are_found(self):
        """Of every model some continuation is greedy: the one that it generates."""
        status, answer = self.server.ask({"prompt": "In the beginning", "temperature": 0, "max_tokens": 5},
                                         "POST", "/v1/completions")
        self.assertEqual(status, 200, answer)
        text = "In the beginning" + answer["choices"][0]["text"]
        _, scored = self.server.ask({"prompt": text, "echo": True, "max_tokens": 1, "logprobs": 1,
                                     "temperature": 0}, "POST", "/v1/completions")
        scores = scored["choices"][0]["logprobs"]
        for logprob, top in list(zip(scores["token_logprobs"], scores["top_logprobs"]))[3:-1]:
            self.assertEqual(logprob, max(top.values()))

    def test_a_client_without_torch_and_transformers_is_enough(self):
        block = self.folder / "block"
        block.mkdir()
        (block / "sitecustomize.py").write_text(ABSENT)
        served = self.run_lm_eval("local-completions", self.arguments(), tasks=("meg_choice",),
                                  environment={**ENVIRONMENT, "HF_HOME": str(self.folder / "home"),
                                               "PYTHONPATH": str(block)})
        self.assertEqual(len(served["meg_choice"]), 24)

    def test_too_long_a_request_names_lm_evals_limit(self):
        status, answer = self.server.ask({"prompt": [[5] * POSITIONS], "max_tokens": 1, "echo": True,
                                          "logprobs": 1}, "POST", "/v1/completions")
        self.assertEqual(status, 400)
        self.assertIn(f"lm-eval: max_length={POSITIONS}", answer["error"]["message"])


if __name__ == "__main__":
    if reason := why_not():
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
