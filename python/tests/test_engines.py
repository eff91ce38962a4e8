"""The examples of other packages' engines: many processes do together what one does, and loops get the same samples."""

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
    return done.stdout


def run_example(name, *arguments):
    return run(EXAMPLES / name, *arguments, VOCAB_FILE, MERGE_FILE)


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


def test_loops_of_jax_and_grain(tmp_path):
    pytest.importorskip("grain")
    pytest.importorskip("jax")
    flags = dict(tokenizer_type="GPT2BPETokenizer", vocab_file=VOCAB_FILE, merge_file=MERGE_FILE)
    libmeg.preprocess(ENGLISH, tmp_path / "english", append_eod=True, **flags)
    prefix = tmp_path / "english_text_document"
    train, _, _ = libmeg.gpt_datasets(data_path=prefix, split="1,0,0", seq_length=64, train_samples=32,
                                      global_batch_size=8, micro_batch_size=8, eod_mask_loss=True, **flags)
    expected = []
    for first in range(0, len(train) // 8 * 8, 8):
        batch = train[range(first, first + 8)]
        expected.append([batch["loss_mask"].sum(), (batch["labels"] * batch["loss_mask"]).sum()])
    assert len(expected) >= 32 // 8
    lines = [line.split() for line in run_example("jax_samples.py", prefix).splitlines()]
    for loop in ("grain", "threads"):
        assert [[float(word) for word in line[1:]] for line in lines if line[0] == loop] == expected
