#!/usr/bin/env bash
# scripts/gpu_check.sh on a machine without a GPU: what it packs of the build folder $1 works in another
# place, each part says what it left out and why, and none hides behind one that fails. $2: a Python with
# torch.
set -euo pipefail
build="$1" python="$2"
source="$(cd "$(dirname "$0")/../.." && pwd)"
shared="${MEG_SHARED:-$source/../shared}"
if [ ! -f "$build/bench/kernel_gpu_bench" ]; then
  echo "skipped: a build without CUDA or benchmarks"
  exit 77
fi
if [ ! -d "$shared/bench" ]; then
  echo "skipped: no shared folder at $shared"
  exit 77
fi
if [ -e /dev/nvidiactl ]; then
  echo "skipped: this machine has a GPU"
  exit 77
fi
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

expect() {
  if ! grep -q -e "$1" "$2"; then
    echo "error: expected $1, found:"
    cat "$2"
    exit 1
  fi
}

check() { # [VARIABLE=VALUE ...]; in an empty environment, beside nothing that a checkout has
  (cd "$scratch" && env -i PATH=/usr/bin:/bin HOME="$scratch" OUT="$scratch/out" MEG_PYTHON="$python" "$@" \
    bash "$scratch/pack/scripts/gpu_check.sh" >"$scratch/log" 2>&1)
}

# A LibTorch for CPUs.
mkdir "$scratch/torch"
ln -s "$(ldd "$build/bin/pretrain_gpt" | awk '$1 == "libtorch_cpu.so" { print $3 }')" "$scratch/torch/libtorch_cpu.so"
if LD_LIBRARY_PATH="$scratch/torch" "$source/scripts/gpu_check.sh" --pack "$scratch/none" "$build" 2>"$scratch/log"; then
  echo "error: a LibTorch for CPUs was packed"
  exit 1
fi
expect "error: $scratch/torch: this LibTorch is for CPUs only" "$scratch/log"

"$source/scripts/gpu_check.sh" --pack "$scratch/pack" "$build"
chmod -R a-x+X "$scratch/pack"  # As files arrive that were carried.

if check; then
  echo "error: it passed without a GPU"
  exit 1
fi
for part in tests parity kernels race lambada generation; do
  expect "^| $part | skipped: " "$scratch/out/results.md"
  expect "no GPU" "$scratch/out/$part.log"
done
expect "^error: no part ran: no GPU here" "$scratch/log"

# A part that fails does not hide the next.
rm "$scratch/pack/tests/bench/training_bench.py"
if check MEG_GPU_CHECK_DEVICE=cpu MEG_GPU_CHECKS="race kernels"; then
  echo "error: it passed without training_bench.py"
  exit 1
fi
expect '^| race | FAILED: .*training_bench.py' "$scratch/out/results.md"
expect '^| kernels | skipped: a rehearsal on a CPU | ' "$scratch/out/results.md"
expect '^error: a part failed' "$scratch/log"
