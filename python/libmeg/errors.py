"""What libmeg raises: one class for each kind of error, which is also Python's own class for it.

The text of an error is one line that says where, what, what was expected and what was found.
"""


class Error(Exception):
    """Every error of libmeg."""


class InvalidArgumentError(Error, ValueError):
    """An argument is wrong."""


class NotFoundError(Error, FileNotFoundError, LookupError):
    """A file, key or entry does not exist."""


class CorruptionError(Error, ValueError):
    """A file's content contradicts its format."""


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not done by this version."""


class IoError(Error, OSError):
    """The operating system refused."""


class OutOfRangeError(Error, IndexError):
    """An index or a number is outside its range."""


class ResourceExhaustedError(Error, MemoryError):
    """No memory or disk left, or a limit reached."""


class CancelledError(Error):
    """A callback asked for the work to stop."""


class InternalError(Error, RuntimeError):
    """A fault of libmeg itself."""


_CLASSES = {
    "invalid_argument": InvalidArgumentError,
    "not_found": NotFoundError,
    "corruption": CorruptionError,
    "unsupported": UnsupportedError,
    "io_error": IoError,
    "out_of_range": OutOfRangeError,
    "resource_exhausted": ResourceExhaustedError,
    "cancelled": CancelledError,
    "internal": InternalError,
}


def from_code(code: str, message: str) -> Error:
    """The error of a kind, by the name that the C++ library has for it."""
    return _CLASSES[code](message)
