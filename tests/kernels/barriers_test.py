#!/usr/bin/env python3
"""Each barrier of the CUDA kernels is needed, and the emulated tests notice its lack.

usage: barriers_test.py KERNELS_EMULATION_TEST FOLDER_OF_KERNELS
"""

import os
import pathlib
import subprocess
import sys

program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
barriers = [
    f"{source.name}:{number}"
    for source in sorted(folder.rglob("*.cu*"))
    for number, line in enumerate(source.read_text().splitlines(), 1)
    if "__syncthreads()" in line.split("//")[0]
]
assert barriers, f"{folder}: no kernel has a barrier"

unnoticed = []
for barrier in barriers:
    run = subprocess.run(
        [program, "--gtest_brief=1", "--gtest_fail_fast"],
        env=os.environ | {"MEG_EMULATION_WITHOUT_BARRIER": barrier},
        capture_output=True, text=True, check=False)
    if run.returncode != 1 or "[  FAILED  ]" not in run.stdout:
        unnoticed.append(barrier)
print(f"{len(barriers)} barriers left out one at a time; not noticed: {', '.join(unnoticed) or 'none'}")
sys.exit(1 if unnoticed else 0)
