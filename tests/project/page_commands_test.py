#!/usr/bin/env python3
"""Runs the commands that a page shows and compares what they print with what it shows.

page_commands_test.py PAGE.md PROGRAM_FOLDER...

Of every ```console block, `$ command` lines are run (a backslash at the end continues them), in one shell for the
whole page, in an empty folder that holds links to the repository's testdata/ and scripts/. The lines below a
command are what it prints, in order:

- `...` stands for any number of lines, at the end of a line for its rest
- numbers with a fraction, dates and rates may differ, everything else may not
- a command may fail only where an `error: ` is shown

Port 5000 becomes a free one. Exit status 77: a program of the page was not built.
"""

import os
import pathlib
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
# What differs from run to run and from machine to machine.
VARYING = [(re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "DATE"),
           (re.compile(r"-?\d+\.\d+(E[+-]?\d+)?", re.IGNORECASE), "REAL"),
           (re.compile(r"^tokens/s: \d+"), "tokens/s: REAL"),
           (re.compile(r" +"), " ")]


def commands_of(page):
    """(command, shown lines) of the console blocks, in order."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif found and found[-1][0].endswith("\\"):
                found[-1] = (f"{found[-1][0]}\n{line}", [])
            else:
                found[-1][1].append(line)
    return found


def free_port():
    """A port outside the range from which systems give ports away by themselves."""
    while True:
        port = random.randrange(20000, 30000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def run(commands, work, folders):
    """(exit status, output) of each command."""
    port = str(free_port())
    script = ""
    for number, (command, _) in enumerate(commands):
        script += f"{{ {command.replace('5000', port)}\n}} >{number}.out 2>&1\necho $? >{number}.exit\n"
    environment = {**os.environ, "PATH": ":".join([*map(str, folders), os.environ["PATH"]]), "OMP_NUM_THREADS": "1",
                   "COLUMNS": "80"}
    for name in ("RANK", "WORLD_SIZE", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        environment.pop(name, None)
    shell = subprocess.Popen(["bash", "-u", "-c", script], cwd=work, env=environment,
                             stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        shell.wait()
    finally:
        try:
            os.killpg(shell.pid, signal.SIGKILL)  # What the page left running.
        except ProcessLookupError:
            pass
    return [(int((work / f"{number}.exit").read_text() or 1),
             (work / f"{number}.out").read_text(errors="replace").replace(port, "5000"))
            for number in range(len(commands))]


def plain(line):
    for pattern, replacement in VARYING:
        line = pattern.sub(replacement, line)
    return line.strip()


def agrees(shown, printed):
    if shown.endswith("..."):
        return printed.startswith(shown[:-3].rstrip())
    return printed == shown


def difference(shown, printed):
    """The first shown line that does not come where it should, or None."""
    rest = [plain(line) for line in printed]
    anywhere = False
    for line in shown:
        if line.strip() == "...":
            anywhere = True
            continue
        places = [place for place, candidate in enumerate(rest) if agrees(plain(line), candidate)]
        if not places or (places[0] > 0 and not anywhere):
            return line
        rest = rest[places[0] + 1:]
        anywhere = False
    return None if anywhere or not any(rest) else f"(nothing more, found: {rest[0]})"


def main():
    page, *folders = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    commands = commands_of(page.read_text(encoding="utf-8"))
    if not commands:
        sys.exit(f"error: {page}: expected console blocks, found none")
    named = {word for command, _ in commands for word in shlex.split(command, comments=True)}
    known = {path.stem for where in ("tools", "examples") for path in (SOURCE / where).glob("*.cpp")}
    lacking = sorted(name for name in named & known
                     if not any((folder / name).exists() for folder in folders))
    if lacking:
        print(f"skipped: not built: {' '.join(lacking)}")
        sys.exit(77)
    failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        work = pathlib.Path(scratch)
        for name in ("examples", "scripts", "testdata"):
            (work / name).symlink_to(SOURCE / name)
        for (command, shown), (status, printed) in zip(commands, run(commands, work, folders)):
            wrong = difference(shown, printed.splitlines())
            should_fail = any(line.startswith("error: ") for line in shown)
            if wrong is not None or (status != 0) != should_fail:
                failures += 1
                print(f"{page.name}: $ {command}\nexit status {status}; not printed as shown: {wrong}\n"
                      f"printed:\n{printed}")
    print(f"{len(commands) - failures} of {len(commands)} commands did as {page.name} shows")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
