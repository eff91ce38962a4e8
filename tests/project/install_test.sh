#!/usr/bin/env bash
# Installs the build folder $1 into a temporary prefix, builds the examples against it, and builds and
# runs a project there. $2: the project's source folder, $3: that of the examples, $4: the C++ compiler.
set -euo pipefail
build="$1" consumer="$2" examples="$3" compiler="$4"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/prefix" >/dev/null
for source in "$consumer" "$examples"; do
  project="$scratch/$(basename "$source")"
  cmake -S "$source" -B "$project" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$scratch/prefix" >/dev/null
  cmake --build "$project"
done
"$scratch/consumer/consumer"
# Both of those who read Parquet find the installed module, and say so where it is not there.
module="$(find "$scratch/prefix" -name libmeg_arrow.so)"
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
parquet 'Parquet file: expected libmeg_arrow.so'
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
