#!/usr/bin/env python3
"""Prints the digest that tests/text/utf8_test.cpp expects: FNV-1a over what Python's
errors="replace" makes of every string of 1 to 4 of the bytes below, in lexical order by length."""
import itertools

BYTES = bytes.fromhex("41 7F 80 8F 90 9F A0 BF C0 C1 C2 DF E0 E1 EC ED EE EF F0 F1 F3 F4 F5 FF")

digest = 0xCBF29CE484222325
for size in range(1, 5):
    for string in itertools.product(BYTES, repeat=size):
        for byte in bytes(string).decode("utf-8", errors="replace").encode() + b"\n":
            digest = (digest ^ byte) * 0x100000001B3 % 2**64
print(f"{digest:#018x}")
