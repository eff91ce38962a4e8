#!/usr/bin/env bash
# The stages of continuous integration, each set up, built and tested on its own:
#
#   scripts/ci.sh release      everything (scripts/test.sh)
#   scripts/ci.sh torch-free   what needs no LibTorch: builds, unit tests
#   scripts/ci.sh asan         unit tests of the torch-free half under the address and undefined-behaviour sanitizers,
#                              and the fuzzers' corpora replayed
#   scripts/ci.sh tsan         the same under the thread sanitizer
#   scripts/ci.sh fuzz         the fuzzers' corpora replayed under clang's sanitizers, which see uses after a scope's
#                              end that gcc's do not
#   scripts/ci.sh tidy [REV]   clang-tidy over the sources that changed since REV; over all without REV
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/.."
jobs="${MEG_JOBS:-$(nproc)}"

# The torch-free half under one of CMake's presets, with the tests that need no files from elsewhere.
torch_free() {
  MEG_WITH_TORCH=OFF "$here/setup.sh"
  cmake --preset "$1" -DMEG_WITH_TORCH=OFF -DMEG_BUILD_BENCH=OFF
  cmake --build --preset "$1" --parallel "$jobs"
  ctest --preset "$1" --parallel "$jobs" -L unit
}

fuzz() {
  MEG_WITH_TORCH=OFF "$here/setup.sh"
  cmake --preset fuzz
  cmake --build --preset fuzz --parallel "$jobs" --target fuzzers
  ctest --preset fuzz --parallel "$jobs" -R '^fuzz\.'
}

tidy() {
  MEG_WITH_TORCH=OFF "$here/setup.sh"
  cmake --preset tidy
  # Headers that the build makes.
  cmake --build --preset tidy --parallel "$jobs" --target meg_serving
  if [ $# -gt 0 ]; then
    git diff --name-only --diff-filter=d "$1" -- 'libmeg/*.cpp' 'tools/*.cpp'
  else
    git ls-files -- 'libmeg/*.cpp' 'tools/*.cpp'
  fi |
    # What is not compiled without LibTorch has no command in the database.
    grep -Fxf <(sed -n "s|^ *\"file\": \"$PWD/\(.*\)\",\?$|\1|p" build/tidy/compile_commands.json) |
    xargs -r -P "$jobs" -n 4 clang-tidy-14 -p build/tidy --quiet --warnings-as-errors='*'
}

case "${1:-}" in
  release) "$here/test.sh" ;;
  torch-free) torch_free torch-free ;;
  asan | tsan) torch_free "$1" ;;
  fuzz) fuzz ;;
  tidy) tidy "${@:2}" ;;
  *)
    echo "usage: scripts/ci.sh release|torch-free|asan|tsan|fuzz|tidy [REV]" >&2
    exit 2
    ;;
esac
