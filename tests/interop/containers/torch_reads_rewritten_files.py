#!/usr/bin/env python3
"""Files that rewrite_torch_file makes of torch's own: byte for byte the same but for the
fingerprint, and read by torch.

torch_reads_rewritten_files.py REWRITE_PROGRAM DUMP_PROGRAM [unittest arguments]
"""
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile
from collections import OrderedDict

try:
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

REWRITE, DUMP = sys.argv[1:3]
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int16,
          torch.int32, torch.int64, torch.uint8, torch.bool, torch.complex64, torch.complex128,
          torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2]


def random_tensor(numel, dtype):
    size = torch.empty(0, dtype=dtype).element_size()
    data = torch.randint(0, 2 if dtype == torch.bool else 256, (numel * size,), dtype=torch.uint8)
    return data.view(dtype)


def without_fingerprint(path):
    """The file's bytes with the serialization id and its CRC blanked."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    archive = zipfile.ZipFile(path)
    info = [i for i in archive.infolist() if i.filename.endswith(".data/serialization_id")][0]
    name, extra = struct.unpack_from("<HH", data, info.header_offset + 26)
    at = info.header_offset + 30 + name + extra
    assert data[at:at + 40].isdigit()
    data[at:at + 40] = b"0" * 40
    data[at + 44:at + 48] = bytes(4)  # in the descriptor
    entry = data.rindex(b"PK\1\2")
    data[entry + 16:entry + 20] = bytes(4)  # in the directory
    return bytes(data)


def raw(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def random_view(rng, base):
    """A view by slices, transposes and expands, as models make them."""
    view = base
    for _ in range(rng.randrange(4)):
        if view.dim() == 0:
            break
        dim = rng.randrange(view.dim())
        choice = rng.randrange(4)
        if choice == 0:
            start = rng.randrange(view.shape[dim] + 1)
            view = view.narrow(dim, start, rng.randrange(view.shape[dim] - start + 1))
        elif choice == 1:
            view = view.transpose(dim, rng.randrange(view.dim()))
        elif choice == 2 and view.shape[dim] > 1:
            view = view[(slice(None),) * dim + (slice(0, None, rng.randrange(1, 4)),)]
        else:
            view = view.unsqueeze(dim).expand(*view.shape[:dim], 3, *view.shape[dim:])
    return view


class RewrittenFiles(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        os.makedirs(os.path.join(self.folder.name, os.path.dirname(name)), exist_ok=True)
        return os.path.join(self.folder.name, name)

    def rewrite(self, source, target):
        subprocess.run([REWRITE, source, target], check=True, timeout=300)

    def save_and_rewrite(self, value, **options):
        source, target = self.path("a/model_optim_rng.pt"), self.path("b/model_optim_rng.pt")
        for path in (source, target):
            if os.path.exists(path):
                os.remove(path)
        torch.save(value, source, **options)
        self.rewrite(source, target)
        return source, target

    def check_same_bytes(self, value):
        source, target = self.save_and_rewrite(value)
        self.assertEqual(without_fingerprint(source), without_fingerprint(target))
        self.assertIsNone(zipfile.ZipFile(target).testzip())
        return (torch.load(target, weights_only=True),
                torch.load(target, weights_only=True, mmap=True))

    def test_a_state_dict_gives_the_same_bytes(self):
        value = OrderedDict((f"layer.{i}.weight", torch.randn(3, i + 1)) for i in range(40))
        value["step"] = 5
        value["nested"] = {"lr": 0.1, "list": [1, None, True, "word", (1, 2)], "none": None}
        for loaded in self.check_same_bytes(value):
            for name in list(value)[:40]:
                self.assertTrue(torch.equal(loaded[name], value[name]))
            self.assertEqual(loaded["nested"], value["nested"])

    def test_every_dtype_gives_the_same_bytes(self):
        value = {str(dtype): random_tensor(13, dtype) for dtype in DTYPES}
        for loaded in self.check_same_bytes(value):
            for name, tensor in value.items():
                self.assertEqual(loaded[name].dtype, tensor.dtype)
                self.assertEqual(raw(loaded[name]), raw(tensor))

    def test_views_of_one_storage_give_the_same_bytes(self):
        base = torch.randn(8, 6)
        value = {"whole": base, "t": base.t(), "row": base[3], "column": base[:, 2],
                 "empty": base[8:], "scalar": base[1, 1], "expanded": base[:1].expand(5, 6),
                 "again": base, "zero": torch.zeros(0), "zero2": torch.zeros(3, 0, 2)}
        for loaded in self.check_same_bytes(value):
            for name, tensor in value.items():
                self.assertTrue(torch.equal(loaded[name], tensor), name)
            self.assertEqual(loaded["t"].data_ptr(), loaded["whole"].data_ptr())

    def test_a_lone_tensor_gives_the_same_bytes(self):
        for loaded in self.check_same_bytes(torch.arange(7)):
            self.assertTrue(torch.equal(loaded, torch.arange(7)))

    def test_a_thousand_storages_give_the_same_bytes(self):
        self.check_same_bytes([torch.full((i % 5 + 1,), float(i)) for i in range(1500)])

    def test_the_old_form_is_rewritten_as_the_new_one(self):
        base = torch.randn(6, 5)
        value = {"w": base, "t": base.t(), "h": torch.randn(4).bfloat16(), "u": torch.arange(9)}
        _, target = self.save_and_rewrite(value, _use_new_zipfile_serialization=False)
        loaded = torch.load(target, weights_only=True)
        for name, tensor in value.items():
            self.assertTrue(torch.equal(loaded[name], tensor), name)

    def test_more_than_4_gib_are_read_with_their_holes(self):
        numel = (5 << 28) + 1
        source, target = self.path("a/big.pt"), self.path("b/big.pt")
        with torch.serialization.skip_data():
            torch.save({"big": torch.empty(numel), "small": torch.empty(3)}, source)
        self.assertLess(os.stat(source).st_blocks * 512, 1 << 20)
        for record, at, values in (("big/data/0", 4 * (numel - 1), (7.0,)),
                                   ("big/data/1", 0, (1.0, 2.0, 3.0))):
            with open(source, "r+b") as file:
                file.seek(zipfile.ZipFile(source).getinfo(record).header_offset)
                header = file.read(30)
                file.seek(sum(struct.unpack("<HH", header[26:])) + at, os.SEEK_CUR)
                file.write(struct.pack("<%df" % len(values), *values))
        self.rewrite(source, target)
        self.assertLess(os.stat(target).st_blocks * 512, 16 << 20)
        loaded = torch.load(target, mmap=True, weights_only=True)
        self.assertEqual(loaded["big"].shape, (numel,))
        self.assertEqual(loaded["big"][-2:].tolist(), [0, 7])
        self.assertEqual(loaded["small"].tolist(), [1, 2, 3])

    def test_a_deflated_pickle_is_read(self):
        value = {"w": torch.arange(6.).view(2, 3), "words": ["again"] * 1000}
        source, target = self.path("a.pt"), self.path("deflated.pt")
        torch.save(value, source)
        with zipfile.ZipFile(source) as archive, zipfile.ZipFile(target, "w") as deflated:
            for info in archive.infolist():
                kind = zipfile.ZIP_STORED if "/data/" in info.filename else zipfile.ZIP_DEFLATED
                deflated.writestr(info.filename, archive.read(info), compress_type=kind)
        self.assertEqual(self.dump(target), {"w": ("float32", "[2,3]", raw(value["w"]))})

    def test_random_views_are_read_as_torch_reads_them(self):
        rng = random.Random(4)
        torch.manual_seed(4)
        for legacy in (False, True):
            value = {}
            for i in range(150):
                dtype = rng.choice(DTYPES[:12] if legacy else DTYPES)
                shape = [rng.choice([1, 2, 3, 5, 40]) for _ in range(rng.randrange(5))]
                numel = 1
                for size in shape:
                    numel *= size
                value[f"v{i}"] = random_view(rng, random_tensor(numel, dtype).view(shape))
            path = self.path("views.pt")
            torch.save(value, path, _use_new_zipfile_serialization=not legacy)
            found = self.dump(path)
            self.assertEqual(len(found), len(value))
            for name, tensor in value.items():
                expected = (str(tensor.dtype).replace("torch.", ""),
                            str(list(tensor.shape)).replace(" ", ""), raw(tensor))
                self.assertEqual(found[name], expected, name)

    def dump(self, path):
        data = subprocess.run([DUMP, path], check=True, capture_output=True).stdout
        at, tensors = data.index(b"\n") + 1, {}
        self.assertTrue(data.startswith(b"file "), data[:300])
        while not data.startswith(b"end\n", at):
            end = data.index(b"\n", at)
            _, size, dtype, shape, name = data[at:end].decode().split(" ", 4)
            tensors[name] = (dtype, shape, data[end + 1:end + 1 + int(size)])
            at = end + 1 + int(size)
        return tensors


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
