#!/usr/bin/env python3
"""Files of the safetensors package through libmeg's reader and writer, and damaged ones through both.

safetensors_of_the_package.py REWRITE_SAFETENSORS
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import safetensors
    import torch
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PROGRAM = ""
TYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32,
         torch.int64, torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
         torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64]
SHAPES = [(), (1,), (3, 5), (0, 4), (2, 3, 4)]


def rewrite(source, target):
    return subprocess.run([PROGRAM, source, target], capture_output=True, text=True)


def all_tensors():
    generator = torch.Generator().manual_seed(1)
    tensors = {}
    for dtype in TYPES:
        for shape in SHAPES:
            size = torch.empty(shape, dtype=dtype).numel() * torch.empty((), dtype=dtype).element_size()
            data = torch.randint(0, 2, (size,), dtype=torch.uint8, generator=generator)
            name = f"{dtype}.{'x'.join(map(str, shape))}"
            tensors[name] = (data.view(dtype) if size else torch.empty(shape, dtype=dtype)).reshape(shape)
    tensors['odd "name" \\ of \u00fc'] = torch.arange(3)
    return tensors


def header_of(path):
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        return file.read(length), file.read()


def package_takes(path):
    """The package's own verdict: name -> (dtype, shape), or None."""
    try:
        with open(path, "rb") as file:
            return {name: (of["dtype"], list(of["shape"]))
                    for name, of in safetensors.deserialize(file.read())}
    except (safetensors.SafetensorError, ValueError):
        return None


class SafetensorsOfThePackage(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def test_rewritten_files_are_the_same_byte_for_byte(self):
        for metadata in (None, {"format": "pt"}):
            save_file(all_tensors(), self.path("a"), metadata=metadata)
            self.assertEqual(rewrite(self.path("a"), self.path(f"b{metadata is None}")).stderr, "")
            with open(self.path("a"), "rb") as a, open(self.path(f"b{metadata is None}"), "rb") as b:
                self.assertEqual(a.read(), b.read())

    def test_the_package_reads_what_libmeg_wrote(self):
        tensors = all_tensors()
        save_file(tensors, self.path("a"), metadata={"format": "pt"})
        self.assertEqual(rewrite(self.path("a"), self.path("b")).returncode, 0)
        found = load_file(self.path("b"))
        self.assertEqual(found.keys(), tensors.keys())
        for name, tensor in tensors.items():
            self.assertEqual((found[name].dtype, found[name].shape), (tensor.dtype, tensor.shape))
            bytes_of = [t.contiguous().reshape(-1).view(torch.uint8) for t in (found[name], tensor)
                        if t.numel()]
            self.assertTrue(not bytes_of or torch.equal(*bytes_of), name)

    def damaged(self, generator, header, data):
        """A header with one thing changed, as text or in its tree."""
        tree = json.loads(header)
        names = [name for name in tree if name != "__metadata__"]
        entry = tree[generator.choice(names)]
        kind = generator.randrange(6)
        if kind == 0:
            at = generator.randrange(len(header))
            return header[:at] + bytes([generator.randrange(256)]) + header[at + 1:], data
        if kind == 1:
            entry["data_offsets"][generator.randrange(2)] += generator.choice([-8, -1, 1, 8, 2**63])
        elif kind == 2 and entry["shape"]:
            entry["shape"][0] = generator.choice([0, 1, -1, 2**31, 2**62, 2**64, 1.5])
        elif kind == 3:
            entry["dtype"] = generator.choice(["F32", "BF16", "F64", "F4", "f32", 3, None])
        elif kind == 4:
            data = data[:generator.randrange(len(data))] if generator.random() < 0.5 else data + b"x"
        else:
            del entry[generator.choice(list(entry))]
        return json.dumps(tree, separators=(",", ":")).encode(), data

    def test_what_libmeg_takes_the_package_takes_alike(self):
        save_file({"a": torch.ones(2, 3), "b": torch.ones(4, dtype=torch.bfloat16),
                   "c": torch.tensor(1)}, self.path("a"), metadata={"format": "pt"})
        header, data = header_of(self.path("a"))
        generator = random.Random(3)
        taken = refused = 0
        for _ in range(300):
            changed, rest = self.damaged(generator, header, data)
            with open(self.path("c"), "wb") as file:
                file.write(struct.pack("<Q", len(changed)) + changed + rest)
            run = rewrite(self.path("c"), self.path("d"))
            if run.returncode == 0:
                taken += 1
                self.assertIsNotNone(package_takes(self.path("c")), changed)
                self.assertEqual(package_takes(self.path("c")), package_takes(self.path("d")))
                os.remove(self.path("d"))
            else:
                refused += 1
                self.assertEqual(run.returncode, 1, run.stderr)
                self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        self.assertGreater(taken, 10)
        self.assertGreater(refused, 100)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
