"""The examples of engines that run libmeg in many processes: their shards merge to the bytes of one process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import libmeg

ROOT = Path(__file__).resolve().parents[2]
TESTDATA = Path(os.environ.get("MEG_TESTDATA", ROOT / "testdata"))
EXAMPLES = Path(os.environ.get("MEG_EXAMPLES", ROOT / "examples")) / "python"
VOCAB_FILE, MERGE_FILE = TESTDATA / "tokenizer/vocab.json", TESTDATA / "tokenizer/merges.txt"
ENGLISH = TESTDATA / "quickstart/english.jsonl"


def run_example(name, *arguments):
    command = [sys.executable, EXAMPLES / name, *arguments, VOCAB_FILE, MERGE_FILE]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert run.returncode == 0, run.stdout


def check_bytes_of_one_process(prefix, whole):
    libmeg.preprocess(ENGLISH, whole, tokenizer_type="GPT2BPETokenizer", vocab_file=VOCAB_FILE, merge_file=MERGE_FILE,
                      append_eod=True)
    for kind in ("bin", "idx"):
        expected = Path(f"{whole}_text_document.{kind}").read_bytes()
        assert Path(f"{prefix}_text_document.{kind}").read_bytes() == expected


def test_datatrove(tmp_path):
    pytest.importorskip("datatrove")
    folder = tmp_path / "texts"
    folder.mkdir()
    lines = ENGLISH.read_bytes().splitlines(keepends=True)
    for part in range(4):
        (folder / f"part{part}.jsonl").write_bytes(b"".join(lines[25 * part : 25 * part + 25]))
    run_example("datatrove_preprocess.py", folder, tmp_path / "out")
    check_bytes_of_one_process(tmp_path / "out", tmp_path / "whole")


def test_ray(tmp_path):
    pytest.importorskip("ray.data")
    run_example("ray_preprocess.py", ENGLISH, tmp_path / "out")
    check_bytes_of_one_process(tmp_path / "out", tmp_path / "whole")
