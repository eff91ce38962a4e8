"""The wheels libmeg and libmeg-train as their users have them, where torch is linked into the environment before the last
tests: scripts/test_wheel.sh runs this with TORCH, the site-packages that have it."""

import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sysconfig

import pytest

SCRIPTS = pathlib.Path(sysconfig.get_path("scripts"))
PACKAGES = pathlib.Path(sysconfig.get_path("platlib"))
PROGRAMS = ["evaluate_gpt", "generate", "pretrain_gpt", "run_text_generation_server", "score"]


def run(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)


def error_of(*command):
    """The one line that a program says where it refuses."""
    done = run(*command)
    assert done.returncode == 1, done
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


@pytest.fixture
def torch():
    for name in ("torch", "nvidia"):
        os.symlink(pathlib.Path(os.environ["TORCH"]) / name, PACKAGES / name)
    yield
    for name in ("torch", "nvidia"):
        os.unlink(PACKAGES / name)


def test_extra_asks_for_the_same_version():
    version = importlib.metadata.version("libmeg")
    assert importlib.metadata.version("libmeg-train") == version
    assert f"libmeg-train=={version}; extra == 'train'" in [
        wanted.replace('"', "'") for wanted in importlib.metadata.requires("libmeg")]


@pytest.mark.parametrize("program", PROGRAMS)
def test_names_the_torch_that_is_missing(program):
    wanted = [one.removeprefix("torch==") for one in importlib.metadata.requires("libmeg-train")][0]
    assert f"expected LibTorch {wanted}, found none" in error_of(SCRIPTS / program, "--version")


def test_names_another_torch():
    folder = PACKAGES / "torch"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "libtorch_cpu.so").write_bytes(b"")
    (folder / "version.py").write_text("__version__ = '2.15.0+cu130'\n")
    try:
        assert f"found 2.15.0 in {folder}: install it with" in error_of(SCRIPTS / "pretrain_gpt", "--version")
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_find_torch(torch, program):
    for command in ([SCRIPTS / program], [SCRIPTS / "meg", program.replace("_", "-")]):
        done = run(*command, "--version")
        assert done.returncode == 0, done.stderr
        assert "LibTorch 2." in done.stdout


def test_trains_and_resumes(torch, tmp_path):
    for steps in (2, 3):
        done = run(SCRIPTS / "pretrain_gpt", "--num-layers", "1", "--hidden-size", "16", "--num-attention-heads", "2",
                   "--seq-length", "8", "--max-position-embeddings", "8", "--micro-batch-size", "1", "--lr", "1e-3",
                   "--train-iters", steps, "--log-interval", "1", "--eval-iters", "0", "--mock-data", "--tokenizer-type",
                   "NullTokenizer", "--vocab-size", "64", "--override-opt_param-scheduler", "--save", tmp_path, "--load", tmp_path)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "latest_checkpointed_iteration.txt").read_text() == str(steps)
