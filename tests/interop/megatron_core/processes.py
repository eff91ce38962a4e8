"""Processes in which the real packages run, and what those fork: all of them end when one takes too long.

A package that waits for a process of its own that is gone would otherwise hold a test, and what waits
for the test's output, for ever.
"""
import multiprocessing.connection
import os
import signal
import subprocess
import time

SECONDS = 300  # many times what any of them takes


def run_package(words, seconds=SECONDS, **options):
    """What subprocess.run tells of `words`. After `seconds` each of its processes tells where it stands and ends."""
    options["env"] = {**options.get("env", os.environ), "PYTHONFAULTHANDLER": "1"}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True, **options)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGABRT)
        time.sleep(2)
        os.killpg(process.pid, signal.SIGKILL)
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
