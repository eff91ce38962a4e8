"""The programs of libmeg as functions: their flags are keywords, their answers dictionaries.

A flag is written with underscores (``append_eod=True`` is ``--append-eod``, ``json_keys=["text"]`` is ``--json-keys
text``); False and None leave it out. ``python -m libmeg PROGRAM --help`` lists a program's flags. What a program does
not know, it refuses by name.

A program runs as a process of its own: it needs no memory of this one, other threads go on, and Ctrl-C ends it in good
order, with nothing half-written. ``progress`` is called about ten times a second with a dictionary of counts
(``documents``, ``tokens``, ``bytes``; ``total_bytes`` and ``total_documents`` are -1 where unknown); where it returns
False the work ends with CancelledError.
"""

import contextlib
import json
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path

from libmeg import errors

_PREFIX = Path(__file__).absolute().parent
_POLL_SECONDS = 0.1


def find_program(name: str) -> str:
    """The path of a program, such as "preprocess_data" or "verify"."""
    for folder in ("bin", "libexec/libmeg"):
        path = _PREFIX / folder / name
        if os.access(path, os.X_OK):
            return str(path)
    raise errors.NotFoundError(f"{name}: this libmeg has no such program")


def flags_of(options):
    """Keywords as words of a command line."""
    flags = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        flags.append("--" + name.replace("_", "-"))
        if value is True:
            continue
        is_one = isinstance(value, (str, bytes)) or not isinstance(value, Iterable)
        words = [_word(one) for one in ([value] if is_one else value)]
        if not words:
            raise errors.InvalidArgumentError(f"{name}: expected a value, found none")
        flags += words
    return flags


def _word(value):
    return os.fsdecode(value) if isinstance(value, (bytes, os.PathLike)) else str(value)


class _Process:
    """A running program and what it says meanwhile."""

    def __init__(self, command, takes_input, progress):
        self._progress = progress
        self._events = queue.SimpleQueue()
        self.error = None
        self._notes = []
        self._output = tempfile.TemporaryFile()
        self._log = tempfile.TemporaryFile()
        reading, writing = os.pipe()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE if takes_input else subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._log,
                env={**os.environ, "LIBMEG_EVENTS_FD": str(writing)},
                pass_fds=[writing],
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._reader = threading.Thread(target=self._read_events, args=(reading,), daemon=True)
        self._reader.start()

    def _read_events(self, descriptor):
        with open(descriptor, encoding="utf-8") as lines:
            for line in lines:
                self._events.put(json.loads(line))
        self._events.put(None)

    def _handle(self, event):
        kind = event.pop("event")
        if kind == "error":
            self.error = event
        elif kind == "progress":
            if self._progress is not None and self._progress(event) is False:
                raise errors.CancelledError("progress: returned False")
        else:
            self._notes.append(f"{kind}: {event['message']}")

    def _handle_waiting(self):
        while not self._events.empty():
            event = self._events.get()
            if event is not None:
                self._handle(event)

    def write(self, lines):
        """Gives the program its input, whose end it sees only here; returns early where it ended."""
        pipe = self._process.stdin
        try:
            for line in lines:
                pipe.write(line)
                self._handle_waiting()
            pipe.close()
        except BrokenPipeError:
            pass  # It says why.

    def wait(self):
        """The exit code, when it has ended and everything it said was heard."""
        while True:
            try:
                event = self._events.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                continue  # Signals are heard between two calls.
            if event is None:
                return self._process.wait()
            self._handle(event)

    def stop(self):
        # Not SIGINT, which shells switch off for what they start in the background.
        self._process.terminate()
        self._process.wait()

    def failure(self, code):
        if self.error is not None:
            return errors.from_code(self.error["code"], self.error["message"])
        self._log.seek(0)
        last = self._log.read().decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        return errors.InternalError(f"{Path(self._process.args[0]).name}: ended with code {code}: {last[0]}")

    def answer(self):
        """What it printed; None where that is nothing."""
        self._output.seek(0)
        text = self._output.read()
        if not text:
            return None
        answer = json.loads(text)
        answer.setdefault("notes", [])
        answer["notes"] += [note for note in self._notes if note not in answer["notes"]]
        return answer

    def close(self):
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._reader.join()
        self._output.close()
        self._log.close()


def _run(program, arguments, options, *, progress=None, lines=None, accepted=(0,)):
    command = [find_program(program), *arguments, *flags_of({**options, "json": True})]
    process = _Process(command, lines is not None, progress)
    try:
        try:
            if lines is not None:
                process.write(lines)
            code = process.wait()
        except BaseException:
            process.stop()
            raise
        answer = process.answer() if code in accepted else None
        if answer is None:
            raise process.failure(code)
        return answer
    finally:
        process.close()


def _document_lines(documents, key):
    if isinstance(documents, (str, bytes, dict)):
        raise TypeError(f"documents: expected an iterable of str or dict, found one {type(documents).__name__}")
    for number, document in enumerate(documents):
        if isinstance(document, str):
            document = {key: document}
        elif not isinstance(document, dict):
            raise TypeError(f"document {number}: expected str or dict, found {type(document).__name__}")
        yield json.dumps(document).encode() + b"\n"


def preprocess(input=None, output_prefix=None, *, documents=None, progress=None, **options) -> dict:
    """Texts to `.bin/.idx` datasets, as `preprocess_data` does.

    input: a path or several. Or else documents: an iterable, whose elements are texts or dictionaries that have
    the `json_keys`; they are taken one after another, in bounded memory. Tokenizers are named by Megatron's flags
    (`tokenizer_type`, `vocab_file`, `tokenizer_model` ...).

    Returns the counts `documents`, `tokens`, `bytes` (of input) ... and the prefixes of the `datasets`.
    """
    if (input is None) == (documents is None):
        raise errors.InvalidArgumentError("expected either input or documents")
    lines = None
    if documents is not None:
        keys = options.get("json_keys", "text")
        lines = _document_lines(documents, keys if isinstance(keys, str) else keys[0])
        input = "-"
    options = {"input": input, "output_prefix": output_prefix, **options}
    return _run("preprocess_data", [], options, progress=progress, lines=lines)


def merge(input, output_prefix, *, progress=None, **options) -> dict:
    """Several `.bin/.idx` datasets to one, in order, as `merge_datasets` does.

    input: prefixes, or folders of datasets. Returns `datasets`, `documents`, `sequences`, `tokens`, `bytes`.
    """
    return _run("merge_datasets", [], {"input": input, "output_prefix": output_prefix, **options}, progress=progress)


def reshape(load_dir, save_dir, *, progress=None, **options) -> dict:
    """A checkpoint to another layout or format, optimizer state included, as `checkpoint_util` does.

    options: such as `target_tensor_parallel_size=4, target_pipeline_parallel_size=2` or
    `target_format="huggingface"`. Returns the `saved` folder, `parameters`, `bytes` and `notes`.
    """
    return _run("checkpoint_util", [], {"load_dir": load_dir, "save_dir": save_dir, **options}, progress=progress)


def verify(what, *paths, progress=None, **options) -> dict:
    """Checks files field by field, as `verify` does.

    what: "dataset", "checkpoint", "diff" (two checkpoints) or "manifest". Returns the report of `verify --json`: `ok`
    or `equal` and the `problems` found, which are no exceptions; files that cannot be read are.
    """
    return _run("verify", [what, *map(os.fspath, paths)], options, progress=progress, accepted=(0, 1))
