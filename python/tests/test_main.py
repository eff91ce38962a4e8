"""Programs and Megatron's script names, found through the module."""

import pathlib
import subprocess
import sys

import libmeg

IN_A_SUBINTERPRETER = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
run = getattr(interpreters, "exec", None) or interpreters.run_string
import sys
run(interpreters.create(), f'''
import sys
sys.path[:] = {sys.path}
try:
    import libmeg
except ImportError as error:
    print(error)
''')
"""


def output_of(*command):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout


def test_python_m_libmeg_is_meg():
    meg = pathlib.Path(libmeg.__file__).parent / "bin" / "meg"
    for arguments in (["--version"], ["preprocess-data", "--version"], ["verify", "--help"]):
        assert output_of(sys.executable, "-m", "libmeg", *arguments) == output_of(meg, *arguments)


def test_shims_are_found_and_run():
    shims = pathlib.Path(libmeg.find_shims())
    assert output_of(sys.executable, "-m", "libmeg", "--shims") == f"{shims}\n"
    said = output_of(sys.executable, shims / "tools" / "preprocess_data.py", "--version")
    assert said == output_of(sys.executable, "-m", "libmeg", "preprocess-data", "--version")


def test_a_subinterpreter_is_refused():
    said = output_of(sys.executable, "-c", IN_A_SUBINTERPRETER)
    assert "subinterpreter" in said and len(said.splitlines()) == 1
