#!/usr/bin/env python3
"""Files of numpy.save, of every version of the format, read by libmeg.

npy_files_of_numpy.py DUMP_NPY
Plain arrays must come back with their type, shape and elements; every other kind must be refused in
one line. Exits with 77 (skipped) where numpy is missing.
"""
import os
import subprocess
import sys
import tempfile

try:
    import numpy
    from numpy.lib import format as npy_format
except ImportError as error:
    print(f"skipped: {error} (scripts/setup.sh installs it)")
    sys.exit(77)

TYPES = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
         "float16", "float32", "float64", "complex64", "complex128"]
SHAPES = [(), (0,), (1,), (7,), (0, 2), (5, 2), (2, 0, 3), (2, 3, 4), (1,) * 32]


def dump(program, path):
    return subprocess.run([program, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def check_plain(program, path, array, version):
    with open(path, "wb") as file:
        npy_format.write_array(file, array, version)
    found = dump(program, path)
    shape = ",".join(str(size) for size in array.shape)
    expected = f"{array.dtype.name} ({shape})\n".encode() + array.tobytes()
    if found.returncode != 0 or found.stdout != expected:
        sys.exit(f"{array.dtype} {array.shape} version {version}: {found.stderr.decode()}")


def check_refused(program, path, array, **options):
    numpy.save(path, array, **options)
    found = dump(program, path)
    lines = found.stderr.decode().splitlines()
    if found.returncode != 1 or len(lines) != 1 or not lines[0].startswith(path):
        sys.exit(f"{array.dtype} {array.shape}: expected one line of error, found {lines}")


def main():
    program = sys.argv[1]
    random = numpy.random.RandomState(7)
    checked = 0
    with tempfile.TemporaryDirectory(prefix="meg-test-") as folder:
        path = os.path.join(folder, "a.npy")
        for name in TYPES:
            for shape in SHAPES:
                size = int(numpy.prod(shape))
                values = random.randint(0, 2, size) if name == "bool" else random.bytes(
                    size * numpy.dtype(name).itemsize)
                array = (values.astype(bool) if name == "bool" else
                         numpy.frombuffer(values, name)).reshape(shape)
                for version in ((1, 0), (2, 0), (3, 0)):
                    check_plain(program, path, array, version)
                    checked += 1
        for array in (numpy.arange(6, dtype=">i4"), numpy.array(["a", "bc"]),
                      numpy.array([b"a", b"bc"]), numpy.zeros(3, "M8[s]"),
                      numpy.zeros(2, [("a", "<i4"), ("b", "<f8")]),
                      numpy.asfortranarray(numpy.arange(6).reshape(2, 3)),
                      numpy.zeros(2, "V8"), numpy.zeros(2, "longdouble")):
            check_refused(program, path, array)
            checked += 1
        check_refused(program, path, numpy.array([{}, None], dtype=object), allow_pickle=True)
    print(f"{checked + 1} files")


if __name__ == "__main__":
    main()
