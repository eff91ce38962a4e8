#!/usr/bin/env bash
# Sets up, builds and runs all tests; ends with ctest's summary. Arguments are passed to ctest.
#
#   scripts/test.sh                      everything
#   MEG_WITH_TORCH=OFF scripts/test.sh   the torch-free half
#   scripts/test.sh -L unit              only the fast tests
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(dirname "$here")"
with_torch="${MEG_WITH_TORCH:-ON}"
jobs="${MEG_JOBS:-$(nproc)}"

"$here/setup.sh"
cd "$root"
cmake --preset release -DMEG_WITH_TORCH="$with_torch"
cmake --build --preset release --parallel "$jobs"
ctest --preset release --parallel "$jobs" "$@"
