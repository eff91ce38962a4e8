"""Processes in which the real packages run, and what those fork: all of them end when one takes too long.

A package that waits for a process of its own that is gone would otherwise hold a test, and what waits
for the test's output, for ever.
"""
import atexit
import functools
import gc
import importlib
import json
import multiprocessing
import multiprocessing.connection
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

SECONDS = 300  # many times what any of them takes


def end_all_of(process):
    """Each Python among them prints where it stands."""
    os.killpg(process.pid, signal.SIGABRT)
    time.sleep(2)
    os.killpg(process.pid, signal.SIGKILL)


def run_package(words, seconds=SECONDS, **options):
    """What subprocess.run returns for `words`. After `seconds` each of its processes prints where it stands and ends."""
    options["env"] = {**options.get("env", os.environ), "PYTHONFAULTHANDLER": "1"}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True, **options)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        end_all_of(process)
        raise AssertionError(f"{words} took over {seconds} s; {process.communicate()[1][-8000:]}") from None
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def join_ranks(processes, seconds=SECONDS):
    """Waits for started ranks. When one fails, the others, which may wait for it, end too."""
    deadline = time.monotonic() + seconds
    running = processes
    while running and not any(process.exitcode for process in processes) and time.monotonic() < deadline:
        multiprocessing.connection.wait([process.sentinel for process in running], deadline - time.monotonic())
        running = [process for process in running if process.is_alive()]
    for process in running:
        process.kill()
    for process in processes:
        process.join()
    codes = [process.exitcode for process in processes]
    assert not any(codes), f"exit codes of the ranks: {codes}"


class Imported:
    """A Python that has imported a module, and the package with it, which takes longer than what tests do with
    them: each run is a process that is forked from it."""

    def __init__(self, module, python_path):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "megatron_core.processes", module], text=True,
            env={**os.environ, "PYTHONPATH": python_path, "PYTHONFAULTHANDLER": "1"}, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        atexit.register(self.process.communicate)  # it ends with its input

    def run_main(self, *words, seconds=SECONDS):
        """main(*words) of the module."""
        self.errors.truncate(self.errors.seek(0))
        print(json.dumps(words), file=self.process.stdin, flush=True)
        has_answer = select.select([self.process.stdout], [], [], seconds)[0]
        if not has_answer:
            end_all_of(self.process)
        if not has_answer or self.process.stdout.readline() != "0\n":
            self.errors.seek(0)
            reason = "failed" if has_answer else f"took over {seconds} s"
            raise AssertionError(f"{words} {reason}: {self.errors.read()[-8000:]}")


@functools.cache
def imported(module, python_path):
    return Imported(module, python_path)


def serve(module):
    """Runs main() of the module with the words of each line of the input; its exit code is the answer."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    main = importlib.import_module(module).main
    gc.freeze()  # else the first collection in each process copies all of the memory that it shares with this one
    for line in sys.stdin:
        process = multiprocessing.get_context("fork").Process(target=main, args=json.loads(line))
        process.start()
        process.join()
        print(process.exitcode, file=answers, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
