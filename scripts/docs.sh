#!/usr/bin/env bash
# Builds the documentation as one static site in build/site, which needs no server: the pages by task, the C++ reference of
# the user headers (Doxygen, where it is installed), and the Python reference (of the package in build/python, where it is
# built). Fails for a link that leads nowhere.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/.."
deps="${MEG_DEPS:-$HOME/.cache/libmeg}"
site=build/site
venv="$deps/docs-venv"

if ! cmp -s scripts/requirements-docs.txt "$venv/requirements.txt"; then
  "$deps/venv/bin/python" -m venv --clear "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r scripts/requirements-docs.txt
  cp scripts/requirements-docs.txt "$venv/requirements.txt"
fi

rm -rf "$site"
mkdir -p "$site"
"$here/make_site.py" build/site-pages "$site"
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --config-file build/site-pages.yml 2>&1 |
  sed "/^INFO /d" >&2

if command -v doxygen >/dev/null; then
  headers="$(sed -n '/^user:/,/^support:/s/^\(libmeg.*\.h\)$/\1/p' libmeg/installed_headers.txt | tr '\n' ' ')"
  doxygen - <<EOF
PROJECT_NAME = libmeg
INPUT = $headers docs/library.md
USE_MDFILE_AS_MAINPAGE = docs/library.md
STRIP_FROM_PATH = $PWD
OUTPUT_DIRECTORY = $site
HTML_OUTPUT = cpp
GENERATE_LATEX = NO
HAVE_DOT = NO
EXTRACT_ALL = YES
SHOW_FILES = YES
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
WARN_IF_DOC_ERROR = NO
EOF
else
  echo "note: the C++ reference is left out: doxygen is not installed" >&2
fi

if [ -d build/python/package/libmeg ]; then
  packages="$(echo "$deps"/venv/lib/python3*/site-packages)"
  PYTHONPATH="build/python/package:$packages" "$venv/bin/python" - "$site/python" <<'EOF'
import pathlib, sys, libmeg, pdoc

for name in libmeg.__all__:
    setattr(libmeg, name, getattr(libmeg, name))  # what is imported when it is first used
pdoc.pdoc("libmeg", output_directory=pathlib.Path(sys.argv[1]))
EOF
else
  echo "note: the Python reference is left out: cmake --preset python builds the package" >&2
fi
echo "$site/index.html"
