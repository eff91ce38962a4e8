#!/usr/bin/env bash
# On a machine with a GPU, from a tree that is built already, perhaps elsewhere: the GPU tests, a training
# run whose numbers are compared with the CPU's, the kernels' benchmark, a race of training beside its
# peers, and LAMBADA and generation beside transformers. Prints tables; about ten minutes. Fails where a
# test or a number is wrong, or no GPU is there.
#
#   scripts/gpu_check.sh [BUILD_FOLDER]           default: build/release
#   scripts/gpu_check.sh --pack FOLDER [BUILD_FOLDER]
#                                                 gathers in FOLDER what a machine needs that has only
#                                                 this repository, Python and torch: run it there with
#                                                 FOLDER as its BUILD_FOLDER
#
# $MEG_PYTHON (default: python3) has torch, which the programs use too, and for the last two transformers.
# Peers and data are taken from $MEG_SHARED, the build folder's shared/ or ../shared; llm.c's
# train_gpt2cu from $LLMC_BIN. Which of "tests parity kernels race lambada generation" run:
# $MEG_GPU_CHECKS.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
python="${MEG_PYTHON:-python3}"
checks="${MEG_GPU_CHECKS:-tests parity kernels race lambada generation}"
programs=(bin/preprocess_data bin/pretrain_gpt bin/verify bin/evaluate_gpt bin/generate
  bench/kernel_gpu_bench)

pack() {
  local to="$1" from="$2" program
  local venv="${MEG_DEPS:-$HOME/.cache/libmeg}/venv"
  mkdir -p "$to"/{bin,tests,bench,lib,python,shared/{bench,data}}
  for program in "${programs[@]}"; do cp "$from/$program" "$to/$program"; done
  cp "$from"/tests/*_gpu_test "$to/tests/"
  strip "$to"/{bin,tests,bench}/*
  # What is neither the C library, a compiler's, LibTorch's nor CUDA's.
  ldd "$to"/{bin,tests,bench}/* | awk '$3 ~ /^\// { print $3 }' | sort -u |
    grep -v -E '/(lib(c|m|z|dl|rt|util|pthread|gcc_s|stdc\+\+)\.so|lib(torch|c10|cu|nv)|libgomp)|/nvidia/' |
    xargs cp -L -t "$to/lib"
  cp "$shared"/bench/*.py "$to/shared/bench/"
  cp -r "$shared"/data/{gpt2,lambada} "$to/shared/data/"
  cp -r "$venv"/lib/python3.*/site-packages/megatron "$to/python/"
  find "$to/python" -name __pycache__ -prune -exec rm -r {} +
  du -sh "$to"
}

# The programs find LibTorch and CUDA in the python that has them.
use_torch_of_python() {
  local torch
  torch="$("$python" -c 'import torch; print(torch.__path__[0])')"
  local folders
  folders="$(find "$torch/lib" "$torch"/../nvidia/*/lib -maxdepth 0 2>/dev/null | paste -sd:)"
  export LD_LIBRARY_PATH="$build/lib:$folders${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export PYTHONPATH="$build/python${PYTHONPATH:+:$PYTHONPATH}"
}

wanted() { grep -qw "$1" <<<"$checks"; }

# The programs themselves, not ctest: its lists name the paths of the machine that built the tree.
run_tests() {
  local ran=0 program report
  for program in "$build"/tests/*_gpu_test; do
    report="$(timeout 240 "$program" --gtest_brief=1)" || { printf '%s\n' "$report"; exit 1; }
    printf '%s: %s\n' "$(basename "$program")" "$report"
    if ! grep -q 'SKIPPED' <<<"$report"; then ran=$((ran + 1)); fi
  done
  if [ "$ran" -eq 0 ]; then
    echo "error: every GPU test was skipped: no GPU here, or a tree built without CUDA" >&2
    exit 1
  fi
}

kernel_table() {
  local ours peer
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
}

# GPT-345M in bf16, 1024 tokens a sample.
race() {
  local peak=()
  case "$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null || true)" in
    *H200* | *H100*) peak=(--peak-tflops 989.5) ;;
    *A100*) peak=(--peak-tflops 312) ;;
  esac
  timeout 420 "$python" "$root/tests/bench/training_bench.py" "$build/bin/pretrain_gpt" --peers "$shared/bench" \
    --python "$python" --device cuda --dtype bf16 --shape 24 1024 16 50304 1024 --micro-batch-sizes 16 32 \
    --iterations 16 ${peak[@]+"${peak[@]}"}
}

# LAMBADA's lines with a random GPT-345M in bf16.
lambada() {
  timeout 300 "$python" "$root/tests/bench/lambada_bench.py" "$build/bin/evaluate_gpt" \
    "$shared/bench/peer_lambada.py" "$shared/data/lambada/lambada_test.jsonl" --vocab-file \
    "$shared/data/gpt2/vocab.json" --merge-file "$shared/data/gpt2/merges.txt" --lines 5153 \
    --threads "$(nproc)" --runs 1 --device cuda --dtype bf16 --shape 24 1024 16
}

# 16 texts of 128 tokens with the same model.
generation() {
  timeout 300 "$python" "$root/tests/bench/generation_bench.py" "$build/bin/generate" "$shared" \
    --threads "$(nproc)" --rounds 1 --device cuda --dtype bf16 --shape 24 1024 16
}

shared="${MEG_SHARED:-$root/../shared}"
if [ "${1:-}" = --pack ]; then
  pack "${2:?--pack: expected a folder}" "$(cd "${3:-$root/build/release}" && pwd)"
  exit 0
fi
build="$(cd "${1:-$root/build/release}" && pwd)"
if [ -z "${MEG_SHARED:-}" ] && [ -d "$build/shared" ]; then shared="$build/shared"; fi
use_torch_of_python

echo "== device"
if command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
else
  echo "nvidia-smi: not found"
fi
if wanted tests; then echo "== tests"; run_tests; fi
if wanted parity; then
  echo "== parity"
  peer=()
  if [ -f "$shared/bench/peer_train.py" ]; then peer=(--peer "$shared/bench/peer_train.py"); fi
  timeout 300 "$python" "$root/tests/train/device_parity.py" "$build/bin" --device cuda --python "$python" \
    ${peer[@]+"${peer[@]}"}
fi
if wanted kernels; then echo "== kernels"; kernel_table; fi
if wanted race; then echo "== race"; race; fi
if wanted lambada; then echo "== LAMBADA"; lambada; fi
if wanted generation; then echo "== generation"; generation; fi
