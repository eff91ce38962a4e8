#!/usr/bin/env python3
"""Reads the oracle's torch files with dump_torch_tensors and compares every tensor.

usage: torch_files_of_the_oracle.py DUMP_PROGRAM
"""

import hashlib
import json
import os
import subprocess
import sys

SKIPPED = 77


def dump(program, path):
    """(message of a refusal or None, {name: (dtype, shape, sha256)})"""
    out = subprocess.run([program, path], capture_output=True, timeout=60)
    if out.returncode != 0:
        return "exit status %d %s" % (out.returncode, out.stderr.decode()[-500:]), None
    data, at, tensors = out.stdout, 0, {}
    while True:
        end = data.index(b"\n", at)
        line, at = data[at:end].decode(errors="surrogateescape"), end + 1
        if line == "end":
            return None, tensors
        if line.startswith("refused "):
            return line[len("refused "):], tensors
        if line.startswith("tensor "):
            size, dtype, shape, name = line.split(" ", 4)[1:]
            content, at = data[at:at + int(size)], at + int(size)
            tensors[name] = (dtype, json.loads(shape), hashlib.sha256(content).hexdigest())


def compare(path, expected, found):
    """Lines that say what differs."""
    wrong = []
    expected = {t["name"]: (t["dtype"], t["shape"], t["sha256"]) for t in expected
                if not t["dtype"].startswith("numpy:")}
    for name, tensor in expected.items():
        if found.get(name) != tensor:
            wrong.append("%s: %s: expected %s, found %s" % (path, name, tensor, found.get(name)))
    return wrong


def check_evil(program, folder):
    wrong = []
    expected = json.load(open(os.path.join(folder, "expected.json")))
    for name, case in expected.items():
        path = os.path.join(folder, name)
        error, found = dump(program, path)
        by_name = "refuse" in case["must"]
        if name.endswith(".safetensors"):
            if error is None:
                wrong.append("%s: read as a torch file" % path)
        elif name.startswith("ok_") and not (error and by_name):
            wrong += ["%s: %s" % (path, error)] if error else compare(
                path, case.get("tensors", []), found)
        elif name.startswith("bad_") and error is None and not by_name_accepts(case["must"]):
            wrong.append("%s: was read: %s" % (path, case["must"]))
        if error:
            print("%-34s %s" % (name, error.replace(folder, "...")))
            if error.startswith("exit status"):
                wrong.append("%s: %s" % (path, error))
    return wrong


def by_name_accepts(must):
    """Whether the oracle allows a damaged file to be read."""
    return "read" in must.split(":")[0] or "or read" in must or must.startswith("accept")


def main():
    program = sys.argv[1]
    shared = os.environ.get("MEG_SHARED") or os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "../../../../shared")
    oracle = os.path.join(shared, "oracle", "checkpoints")
    if not os.path.isdir(oracle):
        print("skipped: not found: " + oracle)
        return SKIPPED
    wrong = check_evil(program, os.path.join(oracle, "evil"))
    files = tensors = 0
    for case in sorted(os.listdir(oracle)):
        listed = os.path.join(oracle, case, "tensors.json")
        if not os.path.exists(listed):
            continue
        for file, expected in json.load(open(listed)).items():
            path = os.path.join(oracle, case, file)
            if not os.path.isfile(path) or not path.endswith((".pt", ".bin")):
                continue
            error, found = dump(program, path)
            wrong += ["%s: %s" % (path, error)] if error else compare(path, expected, found)
            files += 1
            tensors += len(found or ())
    for line in wrong:
        print("WRONG " + line)
    if os.path.exists("EVIL_WAS_EXECUTED"):
        print("WRONG EVIL_WAS_EXECUTED exists")
        return 1
    print("%d files, %d tensors" % (files, tensors))
    return 1 if wrong or files == 0 else 0


sys.exit(main())
