#!/usr/bin/env python3
"""The 345M model in fp32 takes the bytes that the tutorials print.

reference_sizes_test.py PROGRAM [unittest arguments]
Makes the checkpoint with the shared folder's bench/make_checkpoint.py: 0.7 GB, and up to 1.4 GB at
a time of outputs.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import torch

    from reference import cases
    from reference import files as reference_files
    from reference import names as reference_names
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM = ""
MAKER = os.path.join(cases.SHARED, "bench/make_checkpoint.py")
SPACE = 4 << 30
MIB = 1 << 20
# Target -> parameters on every rank, and what ls and du print for their files.
SIZES = {
    (1, 1): ([354_871_296], ["1.3G"]),
    (2, 1): ([178_100_224] * 2, ["680M"] * 2),
    (1, 4): ([128_137_216, 75_577_344, 75_577_344, 127_090_688], ["489M", "288M", "288M", "485M"]),
}
OVERHEAD = 200_000  # Of the archive: names, headers, alignment and the pickle.


def place():
    for folder in ("/dev/shm", tempfile.gettempdir()):
        if os.path.isdir(folder) and shutil.disk_usage(folder).free > SPACE:
            return folder
    return None


class Sizes(unittest.TestCase):
    def test_are_those_of_the_tutorials(self):
        with tempfile.TemporaryDirectory(prefix="meg-test-", dir=place()) as folder:
            source = os.path.join(folder, "source")
            subprocess.run([sys.executable, MAKER, source, "--no-optim"], check=True)
            for (tp, pp), (parameters, printed) in SIZES.items():
                with self.subTest(tp=tp, pp=pp):
                    self.check(folder, source, tp, pp, parameters, printed)

    def check(self, folder, source, tp, pp, parameters, printed):
        save = os.path.join(folder, "saved")
        process = cases.reshape(PROGRAM, source, save, tp, pp, "--true-vocab-size", "50257",
                                "--target-params-dtype", "fp32")
        self.assertEqual(process.returncode, 0, process.stderr)
        ranks = reference_files.iteration_folder(save)
        for name, count, text in zip(sorted(os.listdir(ranks)), parameters, printed, strict=True):
            path = os.path.join(ranks, name, "model_optim_rng.pt")
            size = os.path.getsize(path)
            self.assertLessEqual(4 * count, size)
            self.assertLess(size, 4 * count + OVERHEAD)
            unit = {"M": MIB, "G": 1024 * MIB}[text[-1]]
            self.assertAlmostEqual(size / unit, float(text[:-1]), delta=0.05 if "." in text else 1)
            state = torch.load(path, mmap=True, weights_only=False,
                               pickle_module=reference_files.PickleModule)
            tensors = reference_names.flat(state["model"]).values()
            self.assertEqual(sum(tensor.numel() for tensor in tensors), count)
            self.assertEqual({tensor.dtype for tensor in tensors}, {torch.float32})
        shutil.rmtree(save)


if __name__ == "__main__":
    if not os.path.exists(MAKER):
        print("skipped: no shared folder with bench/make_checkpoint.py")
        sys.exit(77)
    if place() is None:
        print(f"skipped: needs {SPACE >> 30} GB of free space")
        sys.exit(77)
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
