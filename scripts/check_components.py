#!/usr/bin/env python3
"""Checks the order of libmeg's components.

A component (a folder of libmeg/) includes only itself and the components that ORDER names for it; nothing
includes a file of another component's `internal` folder; the folders of checkpoint/ and tokenizer/ have an
order of their own; the installed headers include only each other, and those for support have a user header
that needs them; no LibTorch or CUDA header is included above the LibTorch boundary; nothing in libmeg/ includes
tools/ or tests/; each file is in the namespace of its component; no message names a flag instead of a field.
Prints each offence, exits 1 if there is any.
"""

import pathlib
import re
import sys

# The components from the ground up: what each may include besides itself.
ORDER = {
    "base": "",
    "io": "base",
    "text": "base",
    "chat": "base io text",
    "numpy": "base io text",
    "megatron": "base text",
    "model": "base text megatron",
    "tokenizer": "base io text megatron",
    "s3": "base io text",
    "dataset": "base io text s3",
    "preprocess": "base io text tokenizer s3 dataset",
    "cleaning": "base io text numpy tokenizer dataset preprocess",
    "packing": "base io text chat numpy tokenizer dataset preprocess",
    "samples": "base io text numpy megatron model dataset",
    "checkpoint": "base io text megatron model",
    "schedule": "base text megatron model",
    "logging": "base io megatron model",
    "serving": "base io text tokenizer",
    "hub": "base io text checkpoint serving",
    "kernels": "base",
    # ---- the LibTorch boundary: LibTorch is known only below ----
    "libtorch": "base kernels",
    "parallel": "base text model libtorch",
    "nn": "base text megatron model checkpoint kernels libtorch parallel",
    "train": "base io text megatron model dataset samples checkpoint schedule logging kernels libtorch parallel nn",
    "resume": "base model checkpoint samples schedule logging libtorch nn train",
    "generation": "base text tokenizer serving kernels libtorch parallel nn",
    "evaluation": "base io text tokenizer libtorch parallel nn",
    "app": "base text megatron model tokenizer dataset checkpoint libtorch parallel nn",
}
BELOW_THE_BOUNDARY = {"libtorch", "parallel", "nn", "train", "resume", "generation", "evaluation", "app"}
# The folders of a component that have an order of their own: what each may include of it besides itself.
FOLDERS = {
    "checkpoint": {
        "state": "",
        "container": "state",
        "transfer": "state container",
        "dialects": "state container transfer",
        "convert": "state container transfer dialects",
        "training": "state container transfer dialects convert",
        "inspect": "state container transfer dialects",
        "verify": "state container transfer dialects",
    },
    "tokenizer": {
        "interface": "",
        "unicode": "",
        "json": "",
        "regex": "unicode",
        "words": "unicode",
        "models": "interface unicode json words",
        "steps": "interface unicode json regex words models",
        "files": "interface json words models steps",
        "registry": "interface json words models files",
        "training": "json words models steps",
        "inspect": "interface json words models steps files",
    },
}
# The folders of tokenizer that have public headers. In all of them `internal` stands directly below the folder.
TOKENIZER_FACE = {"interface", "registry", "training", "inspect"}
TORCH = re.compile(r"^(ATen|c10|torch|gloo|nccl)")
CUDA = re.compile(r"^(cuda|cublas|cudnn)")
INCLUDE = re.compile(r'^\s*#\s*include\s*(<[^>]+>|"[^"]+")')
LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"')
# Their messages name flags of Megatron itself, of other programs, or of a program that answers.
NAME_FLAGS = {
    "checkpoint/verify/manifest_file.cpp",
    "dataset/internal/append_dataset.cpp",
    "dataset/verify_dataset.cpp",
    "io/internal/unpacker.cpp",
    "megatron/argument_rows.cpp",
    "s3/internal/module/store_settings.cpp",
    "serving/http/internal/allowed_hosts.cpp",
    "train/trainer.cpp",
}
NAMESPACE = re.compile(r"^namespace (meg[\w:]*) \{", re.M)


def offence(where, target):
    """What is wrong with the file at `where` (its parts) including `target` (a path), or None."""
    parts = target.split("/")
    if where[0] != "libmeg":
        if where[0] in ("tools", "examples") and parts[0] == "libmeg" and "internal" in parts:
            return "internal headers are their component's own"
        return None
    component = where[1]
    if parts[0] in ("tools", "tests"):
        return f"the library may not include {parts[0]}/"
    if TORCH.match(target) and component not in BELOW_THE_BOUNDARY:
        return f"{component} stands above the LibTorch boundary"
    if CUDA.match(target) and component not in BELOW_THE_BOUNDARY | {"kernels"}:
        return f"{component} knows no CUDA"
    if parts[0] != "libmeg":
        return None
    if parts[1] != component:
        if parts[1] not in ORDER[component].split():
            return f"{component} may not include {parts[1]}"
        if "internal" in parts:
            return "internal headers are their component's own"
        if component == "preprocess" and parts[1] == "tokenizer" and parts[2] != "interface":
            return "preprocess sees only tokenizer's interface, never how tokens are made"
    elif component in FOLDERS and parts[2] not in (where[2], *FOLDERS[component][where[2]].split()):
        return f"{component}/{where[2]} may not include {component}/{parts[2]}"
    return None


def wrong_folder(parts):
    """What is wrong with where a file of libmeg/ lies, or None."""
    component = parts[1]
    if component not in ORDER:
        return f"unknown component {component}"
    if component in FOLDERS and (len(parts) == 3 or parts[2] not in FOLDERS[component]):
        return f"expected in one of the folders {', '.join(FOLDERS[component])} of {component}"
    if component == "tokenizer" and parts[-1].endswith(".h") and parts[3] != "internal":
        if "internal" in parts or parts[2] not in TOKENIZER_FACE:
            return f"expected in tokenizer/{parts[2]}/internal"
    return None


def names_flag(where, line):
    """Whether a line of the library has a text with a flag in it, outside comments."""
    if where.parts[0] != "libmeg" or where.relative_to("libmeg").as_posix() in NAME_FLAGS:
        return False
    return any(re.search("--[a-z]{2}", text) for text in LITERAL.findall(f" {line}".partition(" //")[0]))


def headers_of(text):
    """The two parts of libmeg/installed_headers.txt."""
    user, _, support = text.partition("support:\n")
    return tuple(set(re.findall(r"^libmeg/\S+\.h$", part, re.M)) for part in (user, support))


def wrong_headers(root):
    """What is wrong with the list of installed headers."""
    name = "libmeg/installed_headers.txt"
    user, support = headers_of((root / name).read_text())
    reached, waiting = set(), sorted(user)
    while waiting:
        header = waiting.pop()
        if header in reached:
            continue
        reached.add(header)
        if not (root / header).is_file() or "internal" in header.split("/"):
            yield f"{name}: {header}: expected a header in no folder `internal`"
            continue
        for included in re.findall(r'^#include "(libmeg/[^"]+)"', (root / header).read_text(), re.M):
            waiting.append(included)
            if included not in user | support:
                yield f"{name}: {header} includes {included}, which is not installed"
    yield from (f"{name}: {header}: no user header needs it" for header in sorted(support - reached))


def wrong_namespace(component, text):
    """A namespace of the text that is not its component's, or None."""
    own = "meg" if component == "base" else f"meg::{component}"
    for name in NAMESPACE.findall(text):
        if name != own and not (component != "base" and name.startswith(own + "::")):
            return f"expected namespace {own}, found {name}"
    return None


def check(root):
    found = list(wrong_headers(root))
    for folder in ("libmeg", "tools", "examples"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".cu", ".cuh"):
                continue
            where = path.relative_to(root)
            text = path.read_text()
            if folder == "libmeg":
                problem = wrong_folder(where.parts)
                if problem:
                    found.append(f"{where}: {problem}")
                    continue
                problem = wrong_namespace(where.parts[1], text)
                if problem:
                    found.append(f"{where}: {problem}")
            for number, line in enumerate(text.splitlines(), 1):
                match = INCLUDE.match(line)
                problem = match and offence(where.parts, match.group(1)[1:-1])
                if names_flag(where, line):
                    problem = "expected a field in backquotes, found a flag"
                if problem:
                    found.append(f"{where}:{number}: {problem}: {line.strip()}")
    return found


if __name__ == "__main__":
    problems = check(pathlib.Path(__file__).resolve().parent.parent)
    print("\n".join(problems) or "the components stand in order")
    sys.exit(1 if problems else 0)
