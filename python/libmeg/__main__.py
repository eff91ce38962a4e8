"""`python -m libmeg COMMAND ...` is `meg COMMAND ...`; `python -m libmeg --shims` prints where find_shims() is."""

import os
import sys

from libmeg import find_shims


def main():
    if sys.argv[1:] == ["--shims"]:
        print(find_shims())
        return
    meg = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "meg")
    os.execv(meg, [meg, *sys.argv[1:]])


if __name__ == "__main__":
    main()
