"""The programs as functions."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import libmeg
from libmeg import programs

TESTDATA = Path(os.environ.get("MEG_TESTDATA", Path(__file__).resolve().parents[2] / "testdata"))
TOKENIZER = {
    "tokenizer_type": "GPT2BPETokenizer",
    "vocab_file": TESTDATA / "tokenizer/vocab.json",
    "merge_file": TESTDATA / "tokenizer/merges.txt",
}
ENGLISH = TESTDATA / "quickstart/english.jsonl"


def read_pair(prefix):
    return Path(f"{prefix}.bin").read_bytes(), Path(f"{prefix}.idx").read_bytes()


def english_documents():
    with open(ENGLISH, encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def test_documents_give_the_bytes_of_their_file(tmp_path):
    of_file = libmeg.preprocess(ENGLISH, tmp_path / "file", append_eod=True, **TOKENIZER)
    of_documents = libmeg.preprocess(
        documents=english_documents(), output_prefix=tmp_path / "documents", append_eod=True, **TOKENIZER
    )
    assert of_file["documents"] == of_documents["documents"] == 100
    assert read_pair(of_file["datasets"][0]) == read_pair(of_documents["datasets"][0])


def test_texts_are_documents_of_the_first_key(tmp_path):
    texts = ["one", "two \ud83d\ude00"]
    libmeg.preprocess(documents=texts, output_prefix=tmp_path / "t", json_keys=["body"], **TOKENIZER)
    libmeg.preprocess(
        documents=[{"body": text} for text in texts], output_prefix=tmp_path / "d", json_keys="body", **TOKENIZER
    )
    assert read_pair(tmp_path / "t_body_document") == read_pair(tmp_path / "d_body_document")


def test_inputs_are_paths_of_any_kind_and_iterables_of_them(tmp_path):
    of_str = libmeg.preprocess([str(ENGLISH), str(ENGLISH)], str(tmp_path / "a"), **TOKENIZER)
    of_others = libmeg.preprocess(iter([ENGLISH, os.fsencode(ENGLISH)]), os.fsencode(tmp_path / "b"), **TOKENIZER)
    assert of_str["documents"] == of_others["documents"] == 200
    assert read_pair(tmp_path / "a_text_document") == read_pair(tmp_path / "b_text_document")


def test_merged_shards_are_the_bytes_of_one_run(tmp_path):
    documents = list(english_documents())
    libmeg.preprocess(documents=documents, output_prefix=tmp_path / "whole", **TOKENIZER)
    parts = [
        libmeg.preprocess(documents=documents[at : at + 30], output_prefix=tmp_path / f"part{at}", **TOKENIZER)
        for at in range(0, len(documents), 30)
    ]
    merged = libmeg.merge([part["datasets"][0] for part in parts], tmp_path / "merged")
    assert merged["documents"] == len(documents)
    assert read_pair(tmp_path / "merged") == read_pair(tmp_path / "whole_text_document")


def test_reshape_and_verify_agree(tmp_path):
    saved = libmeg.reshape(
        TESTDATA / "checkpoint", tmp_path / "whole", target_tensor_parallel_size=1, target_pipeline_parallel_size=1
    )
    assert Path(saved["saved"]).is_dir()
    assert any("random number generators" in note for note in saved["notes"])
    assert libmeg.verify("diff", TESTDATA / "checkpoint", tmp_path / "whole")["equal"]


def test_verify_reports_what_it_finds(tmp_path):
    prefix = libmeg.preprocess(ENGLISH, tmp_path / "corpus", **TOKENIZER)["datasets"][0]
    assert libmeg.verify("dataset", prefix)["ok"]
    with open(prefix + ".bin", "ab") as bin:
        bin.write(b"x")
    report = libmeg.verify("dataset", prefix)
    assert not report["ok"]
    assert [problem["check"] for problem in report["problems"]] == ["bin_size"]


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: libmeg.verify("dataset", "missing"), FileNotFoundError, "missing.idx: No such file"),
        (lambda: libmeg.verify("nothing", "x"), ValueError, 'expected one of dataset, checkpoint, diff'),
        (lambda: libmeg.merge("missing", "x"), FileNotFoundError, "missing"),
        (lambda: libmeg.merge([], "x"), ValueError, "input: expected a value, found none"),
        (lambda: libmeg.preprocess("missing.jsonl", "x", **TOKENIZER), FileNotFoundError, "missing.jsonl"),
        (lambda: libmeg.preprocess(ENGLISH, "x", vocab_fle="v", **TOKENIZER), ValueError, "--vocab-fle"),
        (lambda: libmeg.preprocess(ENGLISH, "x"), ValueError, "--tokenizer-type: required"),
        (lambda: libmeg.preprocess(ENGLISH, "x", documents=[]), ValueError, "either input or documents"),
        (lambda: libmeg.preprocess(documents=[1], output_prefix="x", **TOKENIZER), TypeError, "document 0"),
        (lambda: libmeg.preprocess(documents="one", output_prefix="x", **TOKENIZER), TypeError, "found one str"),
        (lambda: libmeg.preprocess(documents={"text": "one"}, output_prefix="x", **TOKENIZER), TypeError, "one dict"),
        (lambda: libmeg.preprocess(documents=[{"no": 1}], output_prefix="x", **TOKENIZER), LookupError, "text"),
        (lambda: libmeg.reshape("missing", "x"), FileNotFoundError, "missing"),
        (
            lambda: libmeg.reshape(TESTDATA / "checkpoint", "x", target_tensor_parallel_size=3),
            ValueError,
            "does not divide",
        ),
    ],
)
def test_errors_are_of_the_right_class_and_leave_nothing(call, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message) as raised:
        call()
    assert isinstance(raised.value, libmeg.Error) or error is TypeError
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_errors_of_the_documents_pass_through(tmp_path):
    def documents():
        yield "one"
        raise KeyError("from the iterator")

    with pytest.raises(KeyError, match="from the iterator"):
        libmeg.preprocess(documents=documents(), output_prefix=tmp_path / "x", **TOKENIZER)
    assert list(tmp_path.iterdir()) == []


def test_progress_is_reported_and_may_end_the_work(tmp_path):
    seen = []

    def progress(counts):
        seen.append(counts)
        return counts["documents"] < 1000

    with pytest.raises(libmeg.errors.CancelledError):
        libmeg.preprocess(
            documents=itertools.repeat("a text that never ends"),
            output_prefix=tmp_path / "x",
            progress=progress,
            **TOKENIZER,
        )
    assert seen[-1]["documents"] >= 1000
    assert seen[-1]["total_bytes"] == -1
    assert list(tmp_path.iterdir()) == []


ENDLESS = """
import itertools, sys, libmeg
print("begins", flush=True)
libmeg.preprocess(documents=itertools.repeat("a text that never ends"), output_prefix=sys.argv[1],
                  tokenizer_type="GPT2BPETokenizer", vocab_file=sys.argv[2], merge_file=sys.argv[3])
"""


def test_ctrl_c_ends_the_work_and_leaves_nothing(tmp_path):
    command = [sys.executable, "-c", ENDLESS, tmp_path / "x", TOKENIZER["vocab_file"], TOKENIZER["merge_file"]]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begins\n"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, log = process.communicate(timeout=60)
    assert log.strip().endswith("KeyboardInterrupt")
    assert list(tmp_path.iterdir()) == []


def test_threads_run_side_by_side(tmp_path):
    failures = []

    def run(number):
        try:
            libmeg.preprocess(ENGLISH, tmp_path / str(number), **TOKENIZER)
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len({read_pair(tmp_path / f"{number}_text_document") for number in range(4)}) == 1


def test_calls_leave_no_descriptors_and_threads(tmp_path):
    def call():
        with pytest.raises(FileNotFoundError):
            libmeg.verify("dataset", "missing")

    call()
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(20):
        call()
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == before


def test_a_program_that_is_not_here_is_named():
    with pytest.raises(FileNotFoundError, match="nonsense: this libmeg has no such program"):
        programs.find_program("nonsense")


def test_a_program_ends_where_a_shell_switched_interruptions_off(tmp_path):
    code = ("import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); import libmeg\n"
            "libmeg.preprocess(documents=[1], output_prefix='x', tokenizer_type='NullTokenizer', vocab_size=9)")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "TypeError: document 0" in done.stderr
    assert list(tmp_path.iterdir()) == []
