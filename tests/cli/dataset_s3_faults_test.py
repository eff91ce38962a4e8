#!/usr/bin/env python3
"""Datasets of a store that fails while they are read: one line, nothing written."""
import os
import struct
import subprocess

import preprocess_case
from faulty_store import FaultyStore, fault
from preprocess_case import MIB

PREFIX = "s3://bucket/set"


class Faults(FaultyStore):
    def setUp(self):
        super().setUp()
        # One sequence a MiB of uint16.
        lengths = [MIB // 2] * 20
        index = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(lengths), len(lengths) + 1)
        index += struct.pack(f"<{len(lengths)}i", *lengths)
        index += struct.pack(f"<{len(lengths)}q", *range(0, 20 * MIB, MIB))
        index += struct.pack(f"<{len(lengths) + 1}q", *range(len(lengths) + 1))
        self.server.objects = {"/bucket/set.idx": index, "/bucket/set.bin": b"\x07\0" * (10 * MIB)}

    def program(self, name, *flags, answer=None):
        self.server.answer = answer
        self.server.requests.clear()
        program = os.path.join(os.path.dirname(preprocess_case.PROGRAM), name)
        return subprocess.run([program, *flags], capture_output=True, text=True, timeout=300,
                              env={**self.environment, "AWS_MAX_ATTEMPTS": "2"})

    def commands(self):
        return (["verify", "dataset", PREFIX, "--vocab-size", "8"], ["verify", "dataset", PREFIX, "--eod", "7"],
                ["merge_datasets", PREFIX, "--output-prefix", self.path("out")],
                ["merge_datasets", PREFIX, "--dtype", "int32", "--output-prefix", self.path("out")],
                ["dataset_inspect", PREFIX, "--sequence", "19", "--json"])

    def test_without_faults(self):
        for command in self.commands():
            with self.subTest(command):
                self.assert_done(self.program(*command))
        self.assertEqual(len(self.read("out.bin")), 40 * MIB)

    def test_memory_is_bounded(self):
        """Of a .bin of 20 MiB no request asks for more than 8, so that what is in memory does not grow with it."""
        for command in self.commands():
            self.assert_done(self.program(*command))
            ranges = [request["range"].removeprefix("bytes=").split("-") for request in self.server.requests]
            self.assertLessEqual(max(int(end) + 1 - int(begin) for begin, end in ranges), 8 * MIB)

    def test_a_store_that_gives_up_in_the_middle(self):
        """The address and the status are named, and no output appears."""
        for command in self.commands():
            with self.subTest(command):
                result = self.program(*command, answer=lambda store: store.path.endswith(".bin") and store.begin > 0
                                      and store.send(503, fault("SlowDown")))
                self.assert_error(result, 1, f"{PREFIX}.bin: the store answered HTTP 503 SlowDown")
                self.assertEqual(self.files(), [])

    def test_what_passes_is_tried_again(self):
        for command in self.commands():
            with self.subTest(command):
                failed = set()

                def answer(store):
                    with store.server.lock:
                        is_first = (store.path, store.begin) not in failed
                        failed.add((store.path, store.begin))
                    return is_first and store.send(500)

                self.assert_done(self.program(*command, answer=answer))

    def test_an_object_that_changes(self):
        for command in self.commands():
            with self.subTest(command):
                result = self.program(*command, answer=lambda store: store.path.endswith(".bin") and store.begin > 0
                                      and store.send_range(etag='"2"'))
                self.assert_error(result, 1, f"{PREFIX}.bin: changed while it was read")
                self.assertEqual(self.files(), [])

    def test_an_index_that_is_denied(self):
        for command in self.commands():
            result = self.program(*command, answer=lambda store: store.send(403, fault("AccessDenied")))
            self.assert_error(result, 1, f"{PREFIX}.idx: access denied: .*HTTP 403")


if __name__ == "__main__":
    preprocess_case.main()
