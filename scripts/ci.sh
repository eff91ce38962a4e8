#!/usr/bin/env bash
# Runs stages of continuous integration; each sets up, builds and tests on its own.
#
#   scripts/ci.sh STAGE ...
#
#   release      everything (scripts/test.sh)
#   torch-free   the half that needs no LibTorch: builds it and runs its unit tests
#   asan         unit tests of the torch-free half, including the fuzzers' corpora, under the address and
#                undefined-behaviour sanitizers
#   tsan         the same under the thread sanitizer
#   fuzz         the fuzzers' corpora, replayed under clang's sanitizers, which detect uses after the end of a scope
#                that gcc's do not
#   headers      compiles every header by itself: some hundred small files, which take minutes
#   packages     makes what users install, and tests it where neither the checkout nor a compiler is in sight; builds the
#                site of the documentation, whose links must lead somewhere
#   tidy[=REV]   clang-tidy on the sources that changed since REV; without REV on all of them, which takes hours
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/.."
jobs="${MEG_JOBS:-$(nproc)}"

# torch_free PRESET TARGET [CTEST_ARGUMENT ...]
torch_free() {
  MEG_WITH_TORCH=OFF "$here/setup.sh"
  cmake --preset "$1"
  cmake --build --preset "$1" --parallel "$jobs" --target "$2"
  ctest --preset "$1" --parallel "$jobs" "${@:3}"
}

tidy() {
  MEG_WITH_TORCH=OFF "$here/setup.sh"
  cmake --preset tidy
  # Generated headers.
  cmake --build --preset tidy --parallel "$jobs" --target meg_serving
  if [ $# -gt 0 ]; then
    git diff --name-only --diff-filter=d "$1" -- 'libmeg/*.cpp' 'tools/*.cpp'
  else
    git ls-files -- 'libmeg/*.cpp' 'tools/*.cpp'
  fi |
    # Sources that are not compiled without LibTorch have no command in the database.
    grep -Fxf <(sed -n "s|^ *\"file\": \"$PWD/\(.*\)\",\?$|\1|p" build/tidy/compile_commands.json) |
    xargs -r -P "$jobs" -n 4 clang-tidy-14 -p build/tidy --quiet --warnings-as-errors='*'
}

headers() {
  "$here/setup.sh"
  cmake --preset release
  cmake --build --preset release --parallel "$jobs" --target all_verify_interface_header_sets
}

packages() {
  rm -rf dist
  "$here/build_wheel.sh"
  "$here/build_wheel.sh" --train
  "$here/test_wheel.sh" dist/libmeg-*.whl
  "$here/test_wheel.sh" --train dist/libmeg-*.whl dist/libmeg_train-*.whl
  "$here/setup.sh" --packages
  "$here/build_packages.sh"
  "$here/test_packages.sh"
  "$here/docs.sh"
}

stage() {
  case "$1" in
    release) "$here/test.sh" ;;
    torch-free) torch_free torch-free all -L unit ;;
    # Tests in Python run programs, which would have to be built for them.
    asan | tsan) torch_free "$1" unit_tests -L unit -LE python ;;
    fuzz) torch_free fuzz fuzzers -R '^fuzz\.' ;;
    headers) headers ;;
    packages) packages ;;
    tidy) tidy ;;
    tidy=*) tidy "${1#tidy=}" ;;
    *)
      echo "usage: scripts/ci.sh release|torch-free|asan|tsan|fuzz|headers|packages|tidy[=REV] ..." >&2
      exit 2
      ;;
  esac
}

[ $# -gt 0 ] || stage ""
for name in "$@"; do
  began=$SECONDS
  stage "$name"
  echo "ci: $name passed in $((SECONDS - began)) s"
done
