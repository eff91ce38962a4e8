#!/usr/bin/env python3
"""Holds the order of libmeg's rooms.

A room includes only itself and rooms above it in ROOMS; nothing in libmeg/ includes tools/ or tests/;
no LibTorch or CUDA header is included above the line. Prints each offence, exits 1 if there is any.
"""

import pathlib
import re
import sys

# From the ground up: what each room may include besides itself.
ROOMS = {
    "core": set(),
    "megatron": {"core"},
    "model": {"core", "megatron"},
    "tokenizer": {"core", "megatron"},
    "dataset": {"core", "megatron", "tokenizer"},
    "checkpoint": {"core", "megatron", "model"},
    # ---- the line: LibTorch and CUDA only below ----
    "parallel": {"core", "megatron", "model"},
    "nn": {"core", "megatron", "model", "checkpoint", "parallel"},
    "train": {"core", "megatron", "model", "tokenizer", "dataset", "checkpoint", "parallel", "nn"},
    "inference": {"core", "megatron", "model", "tokenizer", "dataset", "checkpoint", "parallel",
                  "nn"},
}
# What dataset may know of tokenizer: the interface, never how tokens are made.
INTERFACE = {"tokenizer.h", "tokenizer_identity.h", "token_buffer.h"}
BELOW_THE_LINE = {"parallel", "nn", "train", "inference"}
# The folders of checkpoint: what each may include of its room besides itself.
CHECKPOINT = {
    "pickle": set(),
    "torch_file": {"pickle"},
    "megatron": {"pickle", "torch_file"},
    "transfer": {"pickle", "torch_file"},
    "reshard": {"pickle", "torch_file", "megatron", "transfer"},
    "inspect": {"pickle", "torch_file", "megatron"},
    "verify": {"pickle", "torch_file", "megatron"},
    "training": {"pickle", "torch_file", "megatron"},
}
# The folders of train that stand above the line: built and tested without LibTorch, each alone.
PLAIN_TRAIN = {"schedule", "logging"}
PLAIN_ROOMS = {"core", "megatron", "model", "dataset"}
# What stands above the line of inference: the server and the interface by which it knows an engine.
SERVING_ROOMS = {"core", "megatron", "tokenizer"}
ENGINE_INTERFACE = "generation_engine.h"
TORCH = re.compile(r"^(ATen|c10|torch|gloo|nccl|cuda|cublas|cudnn)")
INCLUDE = re.compile(r'^\s*#\s*include\s*(<[^>]+>|"[^"]+")')


def offence(where, target):
    """What is wrong with the file at `where` (its parts) including `target` (a path), or None."""
    room = where[1]
    parts = target.split("/")
    if room == "train" and where[2] in PLAIN_TRAIN:
        if TORCH.match(target):
            return f"train/{where[2]} stands above the line: no LibTorch, no CUDA"
        if parts[0] == "libmeg" and parts[1:3] != ["train", where[2]] and parts[1] not in PLAIN_ROOMS:
            return f"train/{where[2]} may include only itself and {', '.join(sorted(PLAIN_ROOMS))}"
    if room == "inference" and (where[2] == "server" or where[-1] == ENGINE_INTERFACE):
        if TORCH.match(target):
            return f"inference/{'/'.join(where[2:])} stands above the line: no LibTorch, no CUDA"
        own = parts[1:3] == ["inference", "server"] or parts[-1] == ENGINE_INTERFACE
        if parts[0] == "libmeg" and not own and parts[1] not in SERVING_ROOMS:
            return f"inference/server may include only itself, {ENGINE_INTERFACE} and " + ", ".join(
                sorted(SERVING_ROOMS))
    if parts[0] == "libmeg":
        if parts[1] != room and parts[1] not in ROOMS[room]:
            return f"room {room} may not include room {parts[1]}"
        if room == "dataset" and parts[1] == "tokenizer" and parts[2] not in INTERFACE:
            return f"room dataset sees only tokenizer's {', '.join(sorted(INTERFACE))}"
        if room == "dataset" and where[2] != "samples" and parts[1:3] == ["dataset", "samples"]:
            return "dataset/ may not include dataset/samples/, which stands on it"
        if room == "checkpoint" and parts[1] == "checkpoint":
            if parts[2] != where[2] and parts[2] not in CHECKPOINT[where[2]]:
                return f"checkpoint/{where[2]} may not include checkpoint/{parts[2]}"
    elif parts[0] in ("tools", "tests"):
        return f"the library may not include {parts[0]}/"
    elif TORCH.match(target) and room not in BELOW_THE_LINE:
        return f"room {room} stands above the line: no LibTorch, no CUDA"
    return None


def check(root):
    found = []
    for path in sorted((root / "libmeg").rglob("*")):
        if path.suffix not in (".h", ".cpp", ".cu", ".cuh"):
            continue
        where = path.relative_to(root)
        room = where.parts[1]
        if room not in ROOMS:
            found.append(f"{where}: unknown room {room}")
            continue
        if room == "checkpoint" and where.parts[2] not in CHECKPOINT:
            found.append(f"{where}: unknown folder of checkpoint {where.parts[2]}")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            problem = match and offence(where.parts, match.group(1)[1:-1])
            if problem:
                found.append(f"{where}:{number}: {problem}: {line.strip()}")
        if room == "nn" and where.parts[2:3] == ("kernels",) and "ATen" in path.read_text():
            found.append(f"{where}: kernels know raw pointers and a stream, no LibTorch")
    return found


if __name__ == "__main__":
    problems = check(pathlib.Path(__file__).resolve().parent.parent)
    print("\n".join(problems) or "the rooms stand in order")
    sys.exit(1 if problems else 0)
