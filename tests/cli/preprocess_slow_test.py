#!/usr/bin/env python3
"""preprocess_data as a process: memory for long lines, which needs hundreds of megabytes."""
import os
import resource
import struct
import subprocess
import sys

import preprocess_case
from preprocess_case import MIB, PreprocessData


class Slow(PreprocessData):
    def run_and_measure(self, *flags):
        """Peak resident memory of a run that must end well, bytes.

        A process inherits its parent's peak, so a small one stands between."""
        between = ("import resource, subprocess, sys; "
                   "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
                   "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        result = subprocess.run([sys.executable, "-c", between, *self.command(*flags)],
                                capture_output=True, text=True, timeout=600)
        self.assert_done(result)
        return int(result.stdout) * 1024

    def test_a_line_of_300_megabytes(self):
        paragraph = "the quick brown fox, 12345. " * 64 + "\\n\\u00e9 "
        file = self.path("in.jsonl")
        with open(file, "w") as out:
            out.write('{"text": "short"}\n{"text": "')
            for _ in range(300 * 1000 * 1000 // len(paragraph)):
                out.write(paragraph)
            out.write('"}\n{"text": "short"}\n')
        longest = os.path.getsize(file)
        self.assertGreater(longest, 290 * 1000 * 1000)
        for workers in (1, 2):
            peak = self.run_and_measure("--input", file, "--workers", str(workers))
            bound = 128 * MIB + workers * 64 * MIB + 6 * longest
            print(f"line of {longest / MIB:.0f} MiB, {workers} workers: "
                  f"peak {peak / MIB:.0f} MiB, bound {bound / MIB:.0f} MiB")
            self.assertLess(peak, bound)
            self.assertEqual([len(d) > 1000 for d in self.documents()], [False, True, False])

    def test_a_line_of_millions_of_short_texts(self):
        texts = 95 * MIB // 4
        file = self.path("in.jsonl")
        with open(file, "w") as out:
            out.write('{"text": ["a"' + ',"b"' * (texts - 1) + "]}\n")
        for workers in (1, 2):
            peak = self.run_and_measure("--input", file, "--workers", str(workers))
            bound = 128 * MIB + workers * 64 * MIB + 3 * os.path.getsize(file)
            print(f"{texts} texts, {workers} workers: "
                  f"peak {peak / MIB:.0f} MiB, bound {bound / MIB:.0f} MiB")
            self.assertLess(peak, bound)
            tokens, index = self.output()
            self.assertEqual(len(tokens), 2 * texts)
            self.assertEqual(struct.unpack_from("<QQ", index, 18), (texts, 2))


if __name__ == "__main__":
    preprocess_case.main()
