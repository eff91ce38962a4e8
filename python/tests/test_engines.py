"""The examples of engines that run libmeg in many processes: together they do what one process does."""

import json
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


def run(*arguments):
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, done.stdout


def run_example(name, *arguments):
    run(EXAMPLES / name, *arguments, VOCAB_FILE, MERGE_FILE)


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


def check_survivors_of_one_call(name, tmp_path):
    """Of documents in four files, a third of which are an earlier one with a few words changed."""
    texts = [json.loads(line)["text"] for line in ENGLISH.read_text().splitlines()]
    for number in range(50):
        texts.insert(2 * number + 1, texts[number].replace(" the ", " a ", 1))
    folder = tmp_path / "texts"
    folder.mkdir()
    for part in range(4):
        lines = [json.dumps({"text": text, "id": i}) + "\n" for i, text in enumerate(texts) if i // 40 == part]
        (folder / f"part{part}.jsonl").write_text("".join(lines))
    output = tmp_path / "out"
    output.mkdir()
    run(EXAMPLES / name, folder, output, 3)
    run("-m", "libmeg", "clean_dataset", "--near-duplicates", "--input", folder, "--output", tmp_path / "whole.jsonl")
    whole = (tmp_path / "whole.jsonl").read_text()
    assert 20 < len(whole.splitlines()) < len(texts)
    found = [line for part in sorted(output.glob("*.jsonl")) for line in part.read_text().splitlines()]
    assert sorted(found) == sorted(whole.splitlines())


def test_near_duplicates_by_datatrove(tmp_path):
    pytest.importorskip("datatrove")
    check_survivors_of_one_call("datatrove_near_duplicates.py", tmp_path)


def test_near_duplicates_by_ray(tmp_path):
    pytest.importorskip("ray")
    check_survivors_of_one_call("ray_near_duplicates.py", tmp_path)


def test_ray(tmp_path):
    pytest.importorskip("ray.data")
    run_example("ray_preprocess.py", ENGLISH, tmp_path / "out")
    check_bytes_of_one_process(tmp_path / "out", tmp_path / "whole")
