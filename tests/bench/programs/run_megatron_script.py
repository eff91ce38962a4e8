#!/usr/bin/env python3
"""run_megatron_script.py CHECKOUT SCRIPT [ARGUMENTS ...]: runs a script of a Megatron-LM checkout as it is.

Its megatron package goes before an installed megatron-core, and Python 3.11 gets typing.override, a decorator of 3.12 that
changes nothing of what it decorates.
"""
import os
import runpy
import sys
import typing


def main():
    checkout, script = sys.argv[1:3]
    if not hasattr(typing, "override"):
        typing.override = lambda method: method
    sys.path.insert(0, checkout)
    sys.argv = [os.path.join(checkout, script), *sys.argv[3:]]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
