#!/usr/bin/env python3
"""libmeg's float conversions against torch's and numpy's, bit for bit.

convert_floats_like_torch.py CONVERT_FLOATS
Every 16-bit pattern, and float32 patterns over the whole range, with every instruction set. Where
the value is a NaN only that is compared: torch itself keeps payloads in some ways and not in
others. Exits with 77 (skipped) where a package is missing.
"""
import os
import subprocess
import sys

try:
    import numpy
    import torch
except ImportError as error:
    print(f"skipped: {error} (scripts/setup.sh installs it)")
    sys.exit(77)

FROM = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}


def convert(program, instruction_set, bits, source, target):
    environment = dict(os.environ, MEG_INSTRUCTION_SET=instruction_set)
    out = subprocess.run([program, source, target], input=bits.tobytes(), env=environment,
                         stdout=subprocess.PIPE, check=True).stdout
    return torch.from_numpy(numpy.frombuffer(out, numpy.uint8).copy()).view(FROM[target])


def same(found, expected):
    as_bits = torch.int32 if expected.dtype == torch.float32 else torch.int16
    equal = found.view(as_bits) == expected.view(as_bits)
    return bool((equal | (found.isnan() & expected.isnan())).all())


def main():
    program = sys.argv[1]
    every = numpy.arange(65536, dtype=numpy.uint16)
    # Odd steps meet every combination of low bits; the middles between 16-bit values come from
    # their patterns with and without what lies below.
    steps = numpy.arange(0, 2**32, 1021, dtype=numpy.uint64).astype(numpy.uint32)
    high = numpy.arange(65536, dtype=numpy.uint32) << 16
    halves = (numpy.arange(2**19, dtype=numpy.uint32) << 13)
    wide = numpy.concatenate([steps] + [high + n for n in (0, 1, 0x7fff, 0x8000, 0x8001, 0xffff)] +
                             [halves + n for n in (0, 0x0fff, 0x1000, 0x1001)])
    checked = 0
    for source in FROM:
        bits = wide if source == "float32" else every
        values = torch.from_numpy(bits.view(numpy.uint8).copy()).view(FROM[source])
        for target in FROM:
            expected = values.to(FROM[target])
            for instruction_set in ("portable", "avx2", "avx512"):
                found = convert(program, instruction_set, bits, source, target)
                if not same(found, expected):
                    sys.exit(f"{source} to {target} ({instruction_set}) differs from torch")
                checked += len(bits)
            if (source, target) == ("float32", "float16"):
                with numpy.errstate(over="ignore", invalid="ignore"):
                    by_numpy = torch.from_numpy(bits.view(numpy.float32).astype(numpy.float16))
                if not same(found, by_numpy):
                    sys.exit("float32 to float16 differs from numpy")
    print(f"{checked} conversions equal torch {torch.__version__}'s")


if __name__ == "__main__":
    main()
