#!/usr/bin/env python3
"""Reads torch.distributed.checkpoint folders with dump_dist_tensors and compares every tensor: those
of the oracle by their digests, and what the real torch writes here, bit for bit.

usage: torch_dist_folders_test.py DUMP_PROGRAM
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile

SKIPPED = 77


def dump(program, path):
    """(message of a refusal or None, {name: (dtype, shape, bytes)}, [names of objects])"""
    out = subprocess.run([program, path], capture_output=True, timeout=120)
    if out.returncode != 0:
        return "exit status %d %s" % (out.returncode, out.stderr.decode()[-500:]), {}, []
    data, at, tensors, objects = out.stdout, 0, {}, []
    while True:
        end = data.index(b"\n", at)
        line, at = data[at:end].decode(errors="surrogateescape"), end + 1
        if line == "end":
            return None, tensors, objects
        if line.startswith("refused "):
            return line[len("refused "):], tensors, objects
        if line.startswith("object "):
            objects.append(line[len("object "):])
        if line.startswith("tensor "):
            size, dtype, shape, name = line.split(" ", 4)[1:]
            content, at = data[at:at + int(size)], at + int(size)
            tensors[name] = (dtype, json.loads(shape), content)


def check_oracle(program, oracle):
    wrong, checked = [], 0
    for case in sorted(os.listdir(oracle)):
        folder = os.path.join(oracle, case, "iter_0000200")
        if not os.path.exists(os.path.join(folder, ".metadata")):
            continue
        error, found, _ = dump(program, folder)
        if error:
            wrong.append("%s: %s" % (folder, error))
        listed = json.load(open(os.path.join(oracle, case, "tensors.json")))["iter_0000200"]
        expected = {t["name"]: (t["dtype"], t["shape"], t["sha256"]) for t in listed}
        for name, (dtype, shape, content) in found.items():
            got = (dtype, shape, hashlib.sha256(content).hexdigest())
            checked += 1
            if expected.get(name) != got:
                wrong.append("%s: %s: expected %s, found %s" % (case, name, expected.get(name), got))
    return wrong, checked


def states_of_torch():
    """State dicts of all types, shapes and strides that torch saves in its own ways."""
    import torch
    generator = torch.Generator().manual_seed(7)
    types = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8,
             torch.int16, torch.int32, torch.int64, torch.bool, torch.complex64]
    plain = {"t.%s" % str(dtype): (torch.randn(3, 5, generator=generator) * 9).to(dtype)
             for dtype in types}
    base = torch.randn(6, 7, 4, generator=generator)
    odd = {"transposed": base.permute(2, 0, 1), "slice": base[1:4, ::2, 1], "expanded": base[:1, :1],
           "scalar": torch.tensor(3.5), "empty": torch.empty(0, 4), "deep": base.view(1, 2, 3, 7, 2, 2),
           "parameter": torch.nn.Parameter(base[0].clone()), "object": {"a": [1, "b"]}, "number": 5}
    nested = {"model": {"a.b": base[0], "c": {"d": base[1]}}, "list": [base[2], base[3]]}
    return [plain, odd, nested]


def check_torch(program):
    import torch
    import torch.distributed.checkpoint as checkpoint
    wrong, checked = [], 0
    for number, state in enumerate(states_of_torch()):
        with tempfile.TemporaryDirectory() as folder:
            writer = checkpoint.FileSystemWriter(folder, thread_count=1 + number, sync_files=False)
            checkpoint.save(state, storage_writer=writer, no_dist=True)
            error, found, objects = dump(program, folder)
            if error:
                wrong.append("state %d: %s" % (number, error))
                continue
            read = checkpoint.FileSystemReader(folder).read_metadata()
            expected = {name: torch.empty(item.size, dtype=item.properties.dtype)
                        for name, item in read.state_dict_metadata.items() if hasattr(item, "size")}
            checkpoint.load(expected, checkpoint_id=folder, no_dist=True)
            if set(expected) != set(found):
                wrong.append("state %d: expected %s, found %s" % (number, set(expected), set(found)))
            if len(objects) + len(found) != len(read.state_dict_metadata):
                wrong.append("state %d: objects %s" % (number, objects))
            for name, tensor in expected.items():
                content = tensor.contiguous().flatten().view(torch.uint8) if tensor.numel() else tensor
                raw = bytes(content.tolist())
                got = found.get(name)
                checked += 1
                if got is None or got[1] != list(tensor.shape) or got[2] != raw:
                    wrong.append("state %d: %s differs" % (number, name))
    return wrong, checked


def main():
    program = sys.argv[1]
    shared = os.environ.get("MEG_SHARED") or os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "../../../shared")
    wrong, checked = [], 0
    oracle = os.path.join(shared, "oracle", "checkpoints")
    if os.path.isdir(oracle):
        wrong, checked = check_oracle(program, oracle)
    try:
        import torch  # noqa: F401
    except ImportError:
        print("not found: torch")
    else:
        more, count = check_torch(program)
        wrong, checked = wrong + more, checked + count
    for line in wrong:
        print("WRONG " + line)
    print("%d tensors" % checked)
    if wrong:
        return 1
    return 0 if checked else SKIPPED


sys.exit(main())
