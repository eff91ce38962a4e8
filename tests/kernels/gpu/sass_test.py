#!/usr/bin/env python3
"""CUDA kernels move memory in words as wide as they are meant to, in the machine code.

usage: sass_test.py LIBRARY_OF_KERNELS ARCHITECTURE

Needs cuobjdump, of a CUDA toolkit or of Triton's package; skips without it, and without kernels.
"""

import collections
import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys


def find_cuobjdump():
    folders = ["/usr/local/cuda/bin"]
    triton = importlib.util.find_spec("triton")
    if triton is not None:
        folders.append(str(pathlib.Path(triton.origin).parent / "backends/nvidia/bin"))
    return shutil.which("cuobjdump") or shutil.which("cuobjdump", path=":".join(folders))


def accesses_of_kernels(cuobjdump, library, architecture):
    """{mangled name: {("LD" or "ST", bits): how many instructions of global memory}}"""
    listing = subprocess.run([cuobjdump, "-sass", "-arch", architecture, library],
                             capture_output=True, text=True, check=True).stdout
    kernels = {}
    for line in listing.splitlines():
        if function := re.search(r"Function : (\S+)", line):
            accesses = kernels[function[1]] = collections.Counter()
        # LD and ST are of pointers whose memory the compiler does not know: loaded ones.
        elif access := re.search(r"\b(LD|ST)G?\.E(?:\.\w+)*?(?:\.[USF]?(8|16|64|128))?(?:\.\w+)* ", line):
            accesses[access[1], int(access[2] or 32)] += 1
    return kernels


# Kernel, by a part of its mangled name; load or store; bits; expected: at least or at most so many.
EXPECTED = [
    # The logits; besides them the label's is read alone.
    ("14forward_kernelIfLi4EEEvNS0_26SoftmaxCrossEntropyForward", "LD", 128, ">=", 1),
    ("14forward_kernelIfLi4EEEvNS0_26SoftmaxCrossEntropyForward", "LD", 32, "<=", 1),
    ("14forward_kernelI6__halfLi8EEEvNS0_26SoftmaxCrossEntropyForward", "LD", 128, ">=", 1),
    ("14forward_kernelI6__halfLi8EEEvNS0_26SoftmaxCrossEntropyForward", "LD", 16, "<=", 1),
    ("14forward_kernelI13__nv_bfloat16Li8EEEvNS0_26SoftmaxCrossEntropyForward", "LD", 128, ">=", 1),
    ("14forward_kernelI13__nv_bfloat16Li8EEEvNS0_26SoftmaxCrossEntropyForward", "LD", 16, "<=", 1),
]
for operation in ("LD", "ST"):
    for element in ("6__half", "13__nv_bfloat16"):
        for call in ("15backward_kernelI{}Li8EEEvNS0_27SoftmaxCrossEntropyBackward",
                     "bias_gelu_cu_.*14forward_kernelI{}Li8", "bias_gelu_cu_.*15backward_kernelI{}Li8"):
            EXPECTED += [(call.format(element), operation, 128, ">=", 1),
                         (call.format(element), operation, 16, "<=", 0)]
for pair in ("6__halfS3_", "13__nv_bfloat16S3_"):
    # Statistics of a row are single floats.
    for call, operation in (("14forward_kernelI{}Li8ELi4EEEvNS0_21DropoutAddNormForward", "ST"),
                            ("15backward_kernelI{}Li8ELi[0-9]EEEvNS0_22DropoutAddNormBackward", "LD")):
        EXPECTED += [(call.format(pair), operation, 32, "<=", 2),
                     (call.format(pair), operation, 16, "<=", 0)]
    EXPECTED += [("14forward_kernelI%sLi8ELi4EEEvNS0_21DropoutAddNormForward" % pair, "LD", 16, "<=", 0),
                 ("15backward_kernelI%sLi8ELi[0-9]EEEvNS0_22DropoutAddNormBackward" % pair, "ST", 16, "<=", 0)]
for element in ("6__half", "13__nv_bfloat16"):
    EXPECTED += [
        # Keys, values and the query; the new key and value are written by a loop of single elements.
        ("11part_kernelI%sLi8EEEvNS0_15CachedAttention" % element, "LD", 128, ">=", 8),
        ("11part_kernelI%sLi8EEEvNS0_15CachedAttention" % element, "LD", 16, "<=", 2),
        ("10sum_kernelI%sLi8EEEvNS0_17EmbeddingBackward" % element, "LD", 128, ">=", 8),
        ("10sum_kernelI%sLi8EEEvNS0_17EmbeddingBackward" % element, "LD", 16, "<=", 0),
        ("10sum_kernelI%sLi8EEEvNS0_17EmbeddingBackward" % element, "ST", 16, "<=", 0),
    ]
for element in ("6__half", "13__nv_bfloat16"):
    for call in ("rotary_heads_cu_.*11copy_kernelI{}Li8ELb0", "swiglu_cu_.*14forward_kernelI{}Li8",
                 "swiglu_cu_.*15backward_kernelI{}Li8"):
        EXPECTED += [(call.format(element), operation, bits, "<=", 0)
                     for operation in ("LD", "ST") for bits in (16, 32, 64)]
EXPECTED += [
    # Gradients of all three types; the elements after the last pack go one by one.
    ("12chunk_kernelEPKNS0_14GradientTensor", "LD", 128, ">=", 3),
    # 16-bit weights; two bytes at a time only as much as in the loop over single elements.
    ("11adam_kernelILb1E", "ST", 64, ">=", 2),
    ("11adam_kernelILb1E", "ST", 16, "<=", "11adam_kernelILb0E"),
]


def main():
    library, architecture = sys.argv[1:]
    cuobjdump = find_cuobjdump()
    if cuobjdump is None:
        print("skipped: cuobjdump is not installed")
        return 77
    kernels = accesses_of_kernels(cuobjdump, library, architecture)
    if not kernels:
        print(f"skipped: {library} has no code for {architecture}")
        return 77

    def accesses(part):
        names = [name for name in kernels if re.search(part, name)]
        assert len(names) == 1, f"{part}: expected one kernel, found {len(names)} of {len(kernels)}"
        return kernels[names[0]]

    wrong = 0
    for kernel, operation, bits, how, limit in EXPECTED:
        found = accesses(kernel)[operation, bits]
        if isinstance(limit, str):
            limit = accesses(limit)[operation, bits]
        if not (found >= limit if how == ">=" else found <= limit):
            print(f"{kernel}: {operation} of {bits} bits: expected {how} {limit}, found {found}")
            wrong += 1
    print(f"{len(EXPECTED)} expectations, {wrong} not met")
    return 1 if wrong else 0


sys.exit(main())
