#!/usr/bin/env bash
# Installs the build folder $1 into a temporary prefix and moves that; builds each user header and the examples against
# it, builds and runs a project there that has neither LibTorch nor CUDA, and runs the programs, also as another user.
# $2: the checkout, $3: the C++ compiler.
set -euo pipefail
build="$(realpath "$1")" checkout="$(realpath "$2")" compiler="$3"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/first/prefix" >/dev/null
mv "$scratch/first/prefix" "$scratch/prefix"
with_torch=false
if grep -q 'MEG_WITH_TORCH:.*=ON' "$build/CMakeCache.txt"; then with_torch=true; fi

# Nothing names a folder of the one who built it, nor the first prefix.
deps="${MEG_DEPS:-$HOME/.cache/libmeg}"
if grep -rlaF -e "$scratch/first" -e "$build" -e "$checkout/" -e "$deps" "$scratch/prefix"; then
  echo "error: these files name $scratch/first, $build, $checkout or $deps" >&2
  exit 1
fi

# configure SOURCE [ARGUMENT ...]: a project against the prefix.
configure() {
  cmake -S "$checkout/$1" -B "$scratch/$(basename "$1")" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_PREFIX_PATH="$scratch/prefix" "${@:2}"
}
without_torch=(-DCMAKE_DISABLE_FIND_PACKAGE_MegTorch=ON -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON)
configure tests/project/consumer "${without_torch[@]}" >/dev/null
cmake --build "$scratch/consumer"
"$scratch/consumer/consumer" "$scratch/small" "$checkout/testdata/tokenizer" "$checkout/testdata/checkpoint"
# The same source by pkg-config, all of whose libraries are above the LibTorch boundary.
export PKG_CONFIG_PATH="$scratch/prefix/lib/pkgconfig"
read -ra flags < <(pkg-config --cflags --libs libmeg)
"$compiler" -std=c++20 "$checkout/tests/project/consumer/main.cpp" "${flags[@]}" -o "$scratch/by_pkg_config"
"$scratch/by_pkg_config" "$scratch/by" "$checkout/testdata/tokenizer" "$checkout/testdata/checkpoint"
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
if $with_torch; then
  refuses generation 'component libtorch: MegTorch not found'
else
  refuses generation 'component generation: expected one of base io '
fi

# Both of those who read Parquet find the installed module, and say what is missing where it is not there.
module="$(find "$scratch/prefix" -name libmeg_arrow_module.so)"
parquet() {
  printf PAR1 >"$scratch/in.parquet"
  for program in "$scratch/consumer/consumer $scratch/in.parquet" \
    "$scratch/prefix/bin/train_tokenizer --vocab-size 300 --output-dir $scratch/out --input $scratch/in.parquet"; do
    said="$(env "${@:2}" $program 2>&1 || true)"
    if ! grep "in.parquet: $1" <<<"$said"; then
      echo "error: $program: expected $1, found $said" >&2
      exit 1
    fi
  done
}
if [ -n "$module" ]; then
  parquet 'Arrow: '
  # Without any Python environment in which Arrow could be.
  parquet 'Parquet file: expected libmeg_arrow_module.so.*python3 -m pip install pyarrow==' MEG_DEPS=/none PATH=/none
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
# The text of a dataset by somebody else, who cannot read the builder's folders, in another folder.
somebody() {
  if [ "$(id -u)" -ne 0 ] || ! id nobody >/dev/null 2>&1; then return; fi
  su nobody -s /bin/sh -c "cd / && $1"
}
chmod 755 "$scratch"
mkdir -m 777 "$scratch/outputs"
cp -r "$checkout/testdata/tokenizer" "$checkout/testdata/quickstart/english.jsonl" "$scratch/outputs"
chmod -R a+rX "$scratch/outputs"
out="$scratch/outputs"
shims="$scratch/prefix/share/libmeg/megatron"
somebody "$shims/tools/preprocess_data.py --input $out/english.jsonl --output-prefix $out/english --append-eod \
  --tokenizer-type GPT2BPETokenizer --vocab-file $out/tokenizer/vocab.json \
  --merge-file $out/tokenizer/merges.txt &&
  $scratch/prefix/bin/meg verify dataset $out/english_text_document"

if $with_torch; then
  # One's own LibTorch is found; without one, a line says what to do.
  "$shims/pretrain_gpt.py" --version
  "$scratch/prefix/bin/meg" generate --version
  for command in pretrain_gpt "meg generate"; do
    said="$(MEG_TORCH_ROOT=/none "$scratch/prefix/bin/"$command --version 2>&1 || true)"
    if ! grep -x 'error: meg .*: expected LibTorch 2.*, found none in /none: install it with .pip install torch==.*' \
      <<<"${said/python3 -m /}"; then
      echo "error: $command without LibTorch said $said" >&2
      exit 1
    fi
  done
  # A link to it in the prefix serves everyone who can read it.
  root="$(sed -n 's/^MegTorch_INCLUDE_DIR:PATH=\(.*\)\/include$/\1/p' "$build/CMakeCache.txt")"
  ln -s "$root" "$scratch/prefix/lib/libmeg/torch"
  env MEG_DEPS=/none PATH=/usr/bin:/bin "$scratch/prefix/bin/pretrain_gpt" --version
fi
