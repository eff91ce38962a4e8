#!/usr/bin/env bash
# On a machine with a GPU: runs the GPU tests and the GPU benchmark of the kernels of a tree that is
# built already, perhaps elsewhere, and prints a table; a minute or two. Fails where a test fails or
# none could run. PyTorch's times stand beside where `python3` (or $MEG_PYTHON) has it.
#
#   scripts/gpu_check.sh [BUILD_FOLDER]     default: build/release
#
# The build folder needs only tests/*_gpu_test and bench/kernel_gpu_bench. Where the CUDA runtime
# (libcudart.so.13) is not found, LD_LIBRARY_PATH says where it is.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
build="$(cd "${1:-$root/build/release}" && pwd)"
python="${MEG_PYTHON:-python3}"

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
  report="$(timeout 240 "$program" --gtest_brief=1)" || { printf '%s\n' "$report"; exit 1; }
  printf '%s: %s\n' "$(basename "$program")" "$report"
  if ! grep -q 'SKIPPED' <<<"$report"; then ran=$((ran + 1)); fi
done
if [ "$ran" -eq 0 ]; then
  echo "error: every GPU test was skipped: no GPU here, or a tree built without CUDA" >&2
  exit 1
fi

echo "== speed"
if [ ! -x "$build/bench/kernel_gpu_bench" ]; then
  echo "bench/kernel_gpu_bench is not in this tree: no table"
  exit 0
fi
ours="$(timeout 120 "$build/bench/kernel_gpu_bench")"
peer="$(timeout 120 "$python" "$root/tests/bench/kernel_gpu_peer.py")" || {
  echo "no PyTorch with a GPU for $python: its column stays empty"
  peer=""
}
awk '
  FNR == NR { if (NF == 3) torch[$1 " " $2] = $3; next }
  FNR == 1 {
    print "| kernel | type | rung | ms | GB/s | % of a copy | PyTorch ms | ratio |"
    print "|---|---|---|---:|---:|---:|---:|---:|"
  }
  {
    time = torch[$1 " " $2]
    ratio = time == "" || $4 <= 0 ? "" : sprintf("%.2fx", time / $4)
    printf "| %s | %s | %s | %s | %s | %s | %s | %s |\n", $1, $2, $3, $4, $5, $6, time, ratio
  }' <(printf '%s\n' "$peer") <(printf '%s\n' "$ours")
