#!/usr/bin/env bash
# Builds the Python wheel in dist/: libmeg-VERSION-cp310-abi3-manylinux_2_34_x86_64.whl, or, with --train,
# libmeg_train-VERSION-py3-none-manylinux_2_34_x86_64.whl, the programs that need LibTorch. Installs what that needs
# (scripts/setup.sh --wheel; with --train also LibTorch); what is compiled stays in build/wheel and build/train-wheel.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/.."

case "${1:-}" in
  "") project=. build=build/wheel ;;
  --train) project=python/train build=build/train-wheel ;;
  *)
    echo "error: $1: expected --train or nothing" >&2
    exit 2
    ;;
esac

"$here/setup.sh" --wheel
if [ "$project" != . ]; then "$here/setup.sh" --programs; fi
deps="${MEG_DEPS:-$HOME/.cache/libmeg}"
export PATH="$deps/wheel-venv/bin:$PATH"
export PKG_CONFIG_PATH="$deps/wheel-curl/lib/pkgconfig"
# scikit-build-core takes the compiler that Python was built with.
export CC="${CC:-cc}" CXX="${CXX:-c++}"
# The times of files in the wheel, so that a commit always gives the same bytes.
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"

raw="$build/dist"
rm -rf "$raw"
python -m build --wheel --no-isolation --outdir "$raw" "$project"
# Arrow's libraries come with pyarrow, from the extra libmeg[arrow]; LibTorch's, CUDA's and the OpenMP that LibTorch uses with
# torch.
LD_LIBRARY_PATH="$deps/wheel-curl/lib" auditwheel repair --plat manylinux_2_34_x86_64 --only-plat --zip-compression-level 9 \
  --exclude 'libarrow.so.*' --exclude 'libparquet.so.*' --exclude 'libtorch*.so' --exclude 'libc10*.so' \
  --exclude 'libcudart.so.*' --exclude 'libgomp.so.*' --wheel-dir dist "$raw"/*.whl
