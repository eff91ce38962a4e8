"""The classes that libmeg raises."""

import pytest

import libmeg


def test_every_class_is_an_error_of_libmeg_with_its_message():
    for code in libmeg.errors._CLASSES:
        error = libmeg.errors.from_code(code, "corpus.idx: No such file or directory")
        assert isinstance(error, libmeg.Error)
        assert str(error) == "corpus.idx: No such file or directory"


@pytest.mark.parametrize(
    "code, builtin",
    [
        ("invalid_argument", ValueError),
        ("not_found", FileNotFoundError),
        ("io_error", OSError),
        ("out_of_range", IndexError),
        ("resource_exhausted", MemoryError),
    ],
)
def test_a_class_is_also_that_of_python(code, builtin):
    assert isinstance(libmeg.errors.from_code(code, ""), builtin)
