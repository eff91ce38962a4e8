#!/usr/bin/env bash
# Builds the Python wheel in dist/: libmeg-VERSION-cp310-abi3-manylinux_2_34_x86_64.whl. Installs what that needs
# (scripts/setup.sh --wheel); what is compiled stays in build/wheel.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/.."

"$here/setup.sh" --wheel
deps="${MEG_DEPS:-$HOME/.cache/libmeg}"
export PATH="$deps/wheel-venv/bin:$PATH"
export PKG_CONFIG_PATH="$deps/wheel-curl/lib/pkgconfig"
# scikit-build-core takes the compiler that Python was built with.
export CC="${CC:-cc}" CXX="${CXX:-c++}"
# The times of files in the wheel, so that a commit always gives the same bytes.
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"

raw=build/wheel/dist
rm -rf "$raw"
python -m build --wheel --no-isolation --outdir "$raw"
# Arrow's libraries come with pyarrow, from the extra libmeg[arrow].
LD_LIBRARY_PATH="$deps/wheel-curl/lib" auditwheel repair --plat manylinux_2_34_x86_64 --only-plat --zip-compression-level 9 \
  --exclude 'libarrow.so.*' --exclude 'libparquet.so.*' --wheel-dir dist "$raw"/*.whl
