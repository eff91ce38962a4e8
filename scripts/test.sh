#!/usr/bin/env bash
# Sets up, builds and passes all tests; ends with ctest's summary. Arguments go to ctest.
#
#   scripts/test.sh                      everything
#   MEG_WITH_TORCH=OFF scripts/test.sh   the torch-free half
#   scripts/test.sh -L unit              only the quick tests
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
