"""The wheel as its users have it: what is beside Python after pip, and what it does. scripts/test_wheel.sh runs this where
neither a compiler nor the checkout is in sight; python/tests tests the module."""

import hashlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import sysconfig

import pytest

import libmeg

PACKAGE = pathlib.Path(libmeg.__file__).parent
SCRIPTS = pathlib.Path(sysconfig.get_path("scripts"))
TESTDATA = pathlib.Path(__file__).resolve().parents[2] / "testdata"
PROGRAMS = sorted([*(PACKAGE / "bin").iterdir(), *(PACKAGE / "libexec" / "libmeg").iterdir()])
TOKENIZER = ["--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", TESTDATA / "tokenizer" / "vocab.json",
             "--merge-file", TESTDATA / "tokenizer" / "merges.txt"]


def run(*command, **environment):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment})


def output_of(*command):
    done = run(*command)
    assert done.returncode == 0, done.stderr
    return done.stdout


def error_of(*command, **environment):
    """The one line that a program says where it refuses."""
    done = run(*command, **environment)
    assert done.returncode != 0
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def script(name):
    return SCRIPTS / name


def digests(prefix):
    return [hashlib.sha256(pathlib.Path(f"{prefix}_text_document.{end}").read_bytes()).hexdigest() for end in ("bin", "idx")]


@pytest.fixture(scope="module")
def english(tmp_path_factory):
    """The dataset of the README's first command."""
    prefix = tmp_path_factory.mktemp("data") / "english"
    output_of(script("preprocess_data"), "--input", TESTDATA / "quickstart" / "english.jsonl", "--output-prefix", prefix,
              "--append-eod", *TOKENIZER)
    return prefix


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_script_of_the_same_name_runs_each_program(program):
    said = output_of(script(program.name), "--version")
    assert said == output_of(program, "--version")
    assert said.splitlines()[0] == f"{program.name} (libmeg) {libmeg.__version__}"


def test_programs_are_those_that_meg_knows():
    choices = output_of(script("meg"), "--help")
    for program in PROGRAMS:
        assert program.name == "meg" or program.name.replace("_", "-") in choices


@pytest.mark.parametrize("command", ["evaluate-gpt", "generate", "pretrain-gpt", "run_text_generation_server"])
def test_programs_that_need_torch_are_named(command):
    said = error_of(script("meg"), command, "--load", "checkpoints")
    assert said.startswith(f"error: meg {command.replace('_', '-')}: needs LibTorch")


def test_a_dataset_is_inspected_and_verified(english):
    assert "documents" in output_of(script("dataset_inspect"), f"{english}_text_document")
    said = output_of(script("verify"), "dataset", f"{english}_text_document", "--vocab-size", "2257", "--eod", "2256")
    assert said.endswith(": ok (100 sequences, 100 documents, 40580 tokens, uint16)\n")


def test_a_checkpoint_is_inspected_and_reshaped(tmp_path):
    source = TESTDATA / "checkpoint"
    assert "tensor" in output_of(script("checkpoint_inspect"), source)
    output_of(script("checkpoint_util"), "--load-dir", source, "--save-dir", tmp_path / "reshaped", "--true-vocab-size", "75",
              "--target-tensor-parallel-size", "1", "--target-pipeline-parallel-size", "1")
    said = output_of(script("verify"), "diff", source, tmp_path / "reshaped")
    assert said.endswith("equal (52 parameters, 208 tensors, 17088 elements)\n")


def test_shims_take_megatrons_command_lines(english, tmp_path):
    shims = pathlib.Path(libmeg.find_shims())
    # As Megatron's documentation writes it.
    output_of(sys.executable, shims / "tools" / "preprocess_data.py", "--input", TESTDATA / "quickstart" / "english.jsonl",
              "--output-prefix", tmp_path / "shim", "--vocab-file", TESTDATA / "tokenizer" / "vocab.json", "--tokenizer-type",
              "GPT2BPETokenizer", "--merge-file", TESTDATA / "tokenizer" / "merges.txt", "--append-eod", "--workers", "2")
    assert digests(tmp_path / "shim") == digests(english)
    assert "pretrain_gpt" in error_of(sys.executable, shims / "pretrain_gpt.py")


def test_stores_are_reached_by_the_libraries_in_the_wheel():
    said = error_of(script("dataset_inspect"), "s3://bucket/corpus", AWS_ENDPOINT_URL="https://127.0.0.1:1",
                    AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret", AWS_MAX_ATTEMPTS="1")
    assert "s3://bucket/corpus.idx: Failed to connect to 127.0.0.1 port 1" in said


def test_parquet_is_read_with_the_extra_or_refused_by_its_name(english, tmp_path):
    file = tmp_path / "english.parquet"
    command = [script("preprocess_data"), "--input", file, "--output-prefix", tmp_path / "columns", "--append-eod", *TOKENIZER]
    if importlib.util.find_spec("pyarrow") is None:
        file.write_bytes(b"PAR1")
        done = run(*command)
        assert done.returncode == 1
        assert "(pip install 'libmeg[arrow]' brings what it needs)" in done.stderr.splitlines()[-1]
        return
    import pyarrow
    import pyarrow.parquet
    lines = (TESTDATA / "quickstart" / "english.jsonl").read_text(encoding="utf-8").splitlines()
    pyarrow.parquet.write_table(pyarrow.table({"text": [json.loads(line)["text"] for line in lines]}), file)
    output_of(*command)
    assert digests(tmp_path / "columns") == digests(english)


def test_there_are_man_pages_and_types_and_nothing_for_a_compiler():
    pages = pathlib.Path(sysconfig.get_path("data")) / "share" / "man" / "man1"
    for program in PROGRAMS:
        assert program.parent.name != "bin" or (pages / f"{program.name}.1").stat().st_size > 0
    assert (PACKAGE / "py.typed").exists() and (PACKAGE / "_core.pyi").exists()
    assert not [path for path in PACKAGE.rglob("*") if path.suffix in (".a", ".cmake", ".cpp", ".h", ".pc")]
