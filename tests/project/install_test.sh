#!/usr/bin/env bash
# Installs the build folder $1 into a temporary prefix and builds and runs a project against it.
# $2: the consumer's source folder, $3: the C++ compiler.
set -euo pipefail
build="$1" source="$2" compiler="$3"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/prefix" >/dev/null
cmake -S "$source" -B "$scratch/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$scratch/prefix" >/dev/null
cmake --build "$scratch/build"
"$scratch/build/consumer"
for program in "$scratch"/prefix/bin/*; do
  if [ -e "$program" ]; then "$program" --version; fi
done
"$(dirname "$0")/run_path_test.sh" "$scratch/prefix/bin" || [ $? -eq 77 ]
for shim in pretrain_gpt.py tools/preprocess_data.py tools/checkpoint/convert.py; do
  installed="$scratch/prefix/share/libmeg/megatron/$shim"
  if grep -q 'MEG_WITH_TORCH:.*=ON' "$build/CMakeCache.txt" || [ "$shim" != pretrain_gpt.py ]; then
    "$installed" --version
  fi
done
