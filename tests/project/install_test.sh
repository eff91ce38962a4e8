#!/usr/bin/env bash
# Installs the build folder $1 into a temporary prefix, builds each user header and the examples against it, and
# builds and runs a project there that has neither LibTorch nor CUDA. $2: the checkout, $3: the C++ compiler.
set -euo pipefail
build="$1" checkout="$2" compiler="$3"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/prefix" >/dev/null

# configure SOURCE [ARGUMENT ...]: a project against the prefix.
configure() {
  cmake -S "$checkout/$1" -B "$scratch/$(basename "$1")" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_PREFIX_PATH="$scratch/prefix" "${@:2}"
}
without_torch=(-DCMAKE_DISABLE_FIND_PACKAGE_MegTorch=ON -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON)
configure tests/project/consumer "${without_torch[@]}" >/dev/null
cmake --build "$scratch/consumer"
"$scratch/consumer/consumer" "$scratch/small" "$checkout/testdata/tokenizer" "$checkout/testdata/checkpoint"
configure examples "${without_torch[@]}" >/dev/null
cmake --build "$scratch/examples"
configure tests/project/headers >/dev/null
cmake --build "$scratch/headers"

# refuses COMPONENT MESSAGE: find_package says why it cannot give a component.
refuses() {
  said="$(configure tests/project/consumer "${without_torch[@]}" -DCOMPONENTS="$1" 2>&1 || true)"
  if ! grep -F "$2" <<<"$said"; then
    echo "error: find_package(libmeg COMPONENTS $1): expected $2, found $said" >&2
    exit 1
  fi
}
refuses datasets 'component datasets: expected one of base io '
if grep -q 'MEG_WITH_TORCH:.*=ON' "$build/CMakeCache.txt"; then
  refuses generation 'component libtorch: MegTorch not found'
else
  refuses generation 'component generation: expected one of base io '
fi

# Both of those who read Parquet find the installed module, and say so where it is not there.
module="$(find "$scratch/prefix" -name libmeg_arrow_module.so)"
parquet() {
  printf PAR1 >"$scratch/in.parquet"
  for program in "$scratch/consumer/consumer $scratch/in.parquet" \
    "$scratch/prefix/bin/train_tokenizer --vocab-size 300 --output-dir $scratch/out --input $scratch/in.parquet"; do
    said="$($program 2>&1 || true)"
    if ! grep "in.parquet: $1" <<<"$said"; then
      echo "error: $program: expected $1, found $said" >&2
      exit 1
    fi
  done
}
if [ -n "$module" ]; then
  parquet 'Arrow: '
  rm "$module"
fi
parquet 'Parquet file: expected libmeg_arrow_module.so'
for program in "$scratch"/prefix/bin/*; do
  if [ -e "$program" ]; then "$program" --version; fi
done
for general in verify generate; do
  test ! -e "$scratch/prefix/bin/$general"
done
"$scratch/prefix/bin/meg" verify --version
for page in man/man1/meg.1 bash-completion/completions/meg zsh/site-functions/_meg; do
  test -s "$scratch/prefix/share/$page"
done
"$(dirname "$0")/run_path_test.sh" "$scratch/prefix/bin" || [ $? -eq 77 ]
for shim in pretrain_gpt.py tools/preprocess_data.py tools/checkpoint/convert.py; do
  installed="$scratch/prefix/share/libmeg/megatron/$shim"
  if grep -q 'MEG_WITH_TORCH:.*=ON' "$build/CMakeCache.txt" || [ "$shim" != pretrain_gpt.py ]; then
    "$installed" --version
  fi
done
