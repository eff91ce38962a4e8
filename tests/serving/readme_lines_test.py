#!/usr/bin/env python3
"""The README's lines about serving, run as they stand there: the server, lm_eval and the openai client.

readme_lines_test.py FOLDER_OF_PROGRAMS
The checkpoint is a small one of that name, its port a free one instead of 5000, and lm_eval's task of that name reads a local
file. Without lm_eval (on the path or beside MEG_LM_EVAL_PYTHON) its line is left out.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

from server_process import ROOT, ServerProcess

sys.path.insert(0, str(ROOT / "tests"))
from python_script import run_script  # noqa: E402

PROGRAMS = os.path.abspath(sys.argv[1])
SHARED = pathlib.Path(os.environ.get("MEG_SHARED") or ROOT.parent / "shared")
MAKE_MODEL = SHARED / "bench" / "make_hf_gpt2.py"
GPT2 = SHARED / "data" / "gpt2"
LAMBADA = SHARED / "data" / "lambada" / "lambada_test.jsonl"
# As lm-eval's own task, which would be downloaded.
TASK = {"task": "lambada_openai", "dataset_path": "json", "test_split": "test", "output_type": "loglikelihood",
        "doc_to_text": "{{text.split(' ')[:-1]|join(' ')}}", "doc_to_target": "{{' '+text.split(' ')[-1]}}",
        "metric_list": [{"metric": "perplexity"}, {"metric": "acc"}]}


def lines_of_readme():
    """The server's command, lm_eval's and the client's."""
    found = re.search(r"^(run_text_generation_server .*)\n(lm_eval .*)\n(python3 -c .*)$",
                      (ROOT / "README.md").read_text(), re.MULTILINE)
    return found.groups()


class ReadmeLines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        held = tempfile.TemporaryDirectory()
        cls.addClassCleanup(held.cleanup)
        cls.folder = folder = pathlib.Path(held.name)
        run_script(MAKE_MODEL, folder / "hf", "--layers", "2", "--hidden", "64", "--heads", "4")
        run_script(ROOT / "tests/generation/hf_gpt2_to_megatron.py", folder / "hf", folder / "checkpoints/gpt2_345m")
        for name in ("vocab.json", "merges.txt"):
            shutil.copy(GPT2 / name, folder / f"gpt2-{name}")
        lines = folder / "lines.jsonl"
        lines.write_text("".join(LAMBADA.read_text().splitlines(keepends=True)[:8]))
        (folder / "tasks").mkdir()
        task = {**TASK, "dataset_kwargs": {"data_files": {"test": str(lines)}}}
        (folder / "tasks" / "task.yaml").write_text(json.dumps(task))  # JSON is YAML
        folders = [PROGRAMS, os.path.dirname(sys.executable), os.environ["PATH"]]
        if python := os.environ.get("MEG_LM_EVAL_PYTHON"):
            folders.insert(2, os.path.dirname(python))
        cls.environment = {**os.environ, "PATH": ":".join(folders), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
                           "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "home"), "CUDA_VISIBLE_DEVICES": ""}
        serve, cls.evaluate, cls.ask = lines_of_readme()
        command, *flags = shlex.split(serve)
        os.chdir(folder)
        cls.server = ServerProcess(shutil.which(command, path=cls.environment["PATH"]), vocabulary=flags,
                                   environment=cls.environment)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.log_text()

    def run_line(self, line, *more):
        self.assertIn("http://localhost:5000/v1", line)
        command = [*shlex.split(line.replace("5000", str(self.server.port))), *more]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return done.stdout

    def test_the_client_is_answered(self):
        answer = self.run_line(self.ask)
        self.assertGreater(len(answer.strip()), 0)
        self.assertIn("/v1/completions 200 ", self.server.log_text())

    def test_lm_eval_prints_its_table(self):
        if not shutil.which("lm_eval", path=self.environment["PATH"]):
            self.skipTest("lm_eval is not installed")
        table = self.run_line(self.evaluate, "--include_path", "tasks")
        self.assertRegex(table, r"\|lambada_openai\|.*\|acc +\|")


if __name__ == "__main__":
    try:
        import openai  # noqa: F401
        import safetensors  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    for needed in (MAKE_MODEL, LAMBADA, GPT2):
        if not needed.exists():
            print(f"skipped: not found: {needed}")
            sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
