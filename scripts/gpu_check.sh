#!/usr/bin/env bash
# On a machine with a GPU: runs the GPU tests of a tree that is built already, and fails where one of
# them fails or none could run.
#
#   scripts/gpu_check.sh [BUILD_FOLDER]     default: build/release
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
build="$(cd "${1:-$root/build/release}" && pwd)"

echo "== device"
if command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
else
  echo "nvidia-smi: not found"
fi

# The programs themselves, not ctest: its lists name the paths of the machine that built the tree.
echo "== correctness"
ran=0
for program in "$build"/tests/*_gpu_test; do
  report="$("$program" --gtest_brief=1)" || { printf '%s\n' "$report"; exit 1; }
  printf '%s: %s\n' "$(basename "$program")" "$report"
  if ! grep -q 'SKIPPED' <<<"$report"; then ran=$((ran + 1)); fi
done
if [ "$ran" -eq 0 ]; then
  echo "error: every GPU test was skipped: no GPU here, or a tree built without CUDA" >&2
  exit 1
fi
