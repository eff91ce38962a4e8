"""Runs a Python script inside the test: what is slow to import, as torch is, is imported once."""

import contextlib
import io
import pathlib
import runpy
import sys
import unittest.mock


def run_script(script, *arguments):
    """The script's output. Its folder is on the path, as for a process of its own."""
    output = io.StringIO()
    path = [str(pathlib.Path(script).parent), *sys.path]
    with unittest.mock.patch.object(sys, "argv", [str(script), *map(str, arguments)]), \
            unittest.mock.patch.object(sys, "path", path), contextlib.redirect_stdout(output):
        runpy.run_path(str(script), run_name="__main__")
    return output.getvalue()
