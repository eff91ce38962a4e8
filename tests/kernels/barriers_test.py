#!/usr/bin/env python3
"""Each barrier of the CUDA kernels is needed, and the emulated tests notice its lack.

usage: barriers_test.py KERNELS_EMULATION_TEST FOLDER_OF_KERNELS
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

program, folder = sys.argv[1], pathlib.Path(sys.argv[2])


def barriers_of_kernels():
    return [f"{source.name}:{number}"
            for source in sorted(folder.rglob("*.cu*"))
            for number, line in enumerate(source.read_text().splitlines(), 1)
            if "__syncthreads()" in line.split("//")[0]]


def run(*flags, **variables):
    return subprocess.run([program, *flags], env=os.environ | variables, capture_output=True, text=True, check=False)


def cases():
    suite = ""
    for line in run("--gtest_list_tests").stdout.splitlines():
        name = line.split("#")[0].rstrip()
        if name.endswith("."):
            suite = name
        elif line.startswith("  "):
            yield suite + name.strip()


def cases_of_barriers():
    """For each barrier those that come to it, the fastest first."""
    found = {}
    with tempfile.TemporaryDirectory() as temporary:
        for number, case in enumerate(cases()):
            listed = pathlib.Path(temporary, str(number))
            began = time.monotonic()
            run(f"--gtest_filter={case}", MEG_EMULATION_BARRIERS_TO=str(listed))
            took = time.monotonic() - began
            for barrier in listed.read_text().splitlines() if listed.exists() else ():
                found.setdefault(pathlib.Path(barrier).name, []).append((took, case))
    return {barrier: [case for _, case in sorted(reached)] for barrier, reached in found.items()}


def is_noticed(barrier, reached):
    for case in reached:
        done = run("--gtest_brief=1", f"--gtest_filter={case}", MEG_EMULATION_WITHOUT_BARRIER=barrier)
        if done.returncode == 1 and "[  FAILED  ]" in done.stdout:
            return True
    return False


barriers = barriers_of_kernels()
assert barriers, f"{folder}: no kernel has a barrier"
reached = cases_of_barriers()
unnoticed = [barrier for barrier in barriers if not is_noticed(barrier, reached.get(barrier, []))]
print(f"{len(barriers)} barriers left out one at a time; not noticed: {', '.join(unnoticed) or 'none'}")
sys.exit(1 if unnoticed else 0)
