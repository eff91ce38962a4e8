#!/usr/bin/env bash
# Sets up, builds and runs all tests; ends with ctest's summary and the output of failed tests, and fails for a skipped
# test that tests/allowed_skips.txt does not list. Arguments are passed to ctest.
#
#   scripts/test.sh                      everything
#   MEG_WITH_TORCH=OFF scripts/test.sh   the torch-free half
#   scripts/test.sh -L unit              only the fast tests
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(dirname "$here")"
with_torch="${MEG_WITH_TORCH:-ON}"
jobs="${MEG_JOBS:-$(nproc)}"
results="$root/build/release/Testing/results.xml"

"$here/setup.sh"
cd "$root"
cmake --preset release -DMEG_WITH_TORCH="$with_torch" -DMEG_BUILD_PYTHON=ON
cmake --build --preset release --parallel "$jobs"
rm -f "$results"
# unittest says at the end of its output how many cases were skipped.
code=0
ctest --preset release --parallel "$jobs" --output-junit "$results" --test-output-size-passed 65536 \
  --test-output-truncation middle "$@" || code=$?
if [ -e "$results" ]; then python3 "$here/check_results.py" "$results"; fi  # none where ctest only lists tests
exit "$code"
