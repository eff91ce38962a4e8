#!/usr/bin/env bash
# Checks results and speed on a machine with a GPU, in a tree that is already built, perhaps elsewhere.
# Every part runs even if others failed; its output also goes to $OUT/PART.log, and the results to
# $OUT/results.md. Fails at the end if a part failed, or if none ran on a GPU.
#
#   scripts/gpu_check.sh [BUILD_FOLDER]       default: the pack that holds this script, or build/release
#   scripts/gpu_check.sh --pack FOLDER [BUILD_FOLDER]
#                                             packs into FOLDER what a machine with just Python and torch
#                                             needs: run `bash FOLDER/scripts/gpu_check.sh` there
#
# $MEG_GPU_CHECKS names the parts to run; each group of parts takes less than nine minutes:
#   tests        the GPU tests; those of the kernels also under compute-sanitizer if it is installed
#   parity       training on the CPU, the GPU and with plain PyTorch; bitwise equal resumption; fp32
#                inference on the CPU, the GPU and with transformers
#   kernels      the kernels' benchmark beside PyTorch
#
#   race         GPT-345M training beside its peers
#
#   lambada      scoring LAMBADA beside transformers
#   generation   greedy generation beside transformers
#
# $MEG_PYTHON (default: python3) must have torch, which the programs use too, and transformers. Peers and
# data are read from $MEG_SHARED, the pack or ../shared, and llm.c's train_gpt2cu from $LLMC_BIN. If
# lengths vary, peers use cuDNN's attention last (TORCH_CUDNN_SDPA_DEPRIORITIZED=1), because it makes a new
# plan for each length. MEG_GPU_CHECK_DEVICE=cpu rehearses the parts that need no GPU, with small shapes.
set -euo pipefail
self="${BASH_SOURCE[0]}"
root="$(cd "$(dirname "$self")/.." && pwd)"
python="${MEG_PYTHON:-python3}"
device="${MEG_GPU_CHECK_DEVICE:-cuda}"
most_bytes=$((48 << 20))  # of a pack
programs=(bin/pretrain_gpt bin/verify bin/evaluate_gpt bin/generate
  bench/kernel_gpu_bench)
# The source files that the parts run or read.
sources=(scripts/gpu_check.sh testdata/quickstart/english.jsonl testdata/tokenizer/{vocab.json,merges.txt}
  tests/bench/{kernel_gpu_peer,training_bench,lambada_bench,generation_bench}.py
  tests/generation/{device_parity,hf_gpt2_to_megatron}.py tests/train/device_parity.py)
peer_scripts=(peer_train peer_megatron_core peer_lambada peer_generate peer_preprocess make_hf_gpt2)

fail() { echo "error: $*" >&2; exit 1; }

skip() { echo "skipped: $*"; exit 77; }

# The libraries of programs that are neither the C library's, a compiler's, LibTorch's nor CUDA's.
own_libraries() {
  local found
  found="$(ldd "$@")"
  if grep -q 'not found' <<<"$found"; then fail "$(grep -m1 'not found' <<<"$found" | xargs)"; fi
  awk '$3 ~ /^\// { print $3 }' <<<"$found" | sort -u |
    { grep -v -E '/(lib(c|m|z|dl|rt|util|pthread|gcc_s|stdc\+\+)\.so|lib(torch|c10|cu|nv)|libgomp)|/nvidia/' || true; }
}

pack() {
  local to="$1" from="$2" file torch packed=()
  local venv="${MEG_DEPS:-$HOME/.cache/libmeg}/venv"
  for file in "${programs[@]}"; do
    if [ ! -f "$from/$file" ]; then fail "$from/$file: not built (a build without CUDA has no kernels)"; fi
  done
  torch="$(ldd "$from/bin/pretrain_gpt" | awk '$1 == "libtorch_cpu.so" { print $3 }')"
  if [ ! -f "$(dirname "$torch")/libtorch_cuda.so" ]; then
    fail "$(dirname "$torch"): this LibTorch is for CPUs only: build with the wheel that has CUDA"
  fi
  if [ -e "$to" ] && [ -n "$(ls -A "$to")" ]; then fail "$to: expected a new or an empty folder"; fi
  mkdir -p "$to"/{lib,python,shared/bench,shared/data}
  for file in "${programs[@]}" $(cd "$from" && ls tests/*_gpu_test); do
    install -D --strip "$from/$file" "$to/$file"
    packed+=("$to/$file")
  done
  for file in "${sources[@]}"; do install -D "$root/$file" "$to/$file"; done
  # Here, because the parts need the dataset and not the program.
  "$from/bin/preprocess_data" --input "$to/testdata/quickstart/english.jsonl" --output-prefix \
    "$to/testdata/quickstart/english" --tokenizer-type GPT2BPETokenizer --append-eod --vocab-file \
    "$to/testdata/tokenizer/vocab.json" --merge-file "$to/testdata/tokenizer/merges.txt" >"$to/preprocess.log"
  own_libraries "${packed[@]}" | xargs -r cp -L -t "$to/lib"
  for file in "${peer_scripts[@]}"; do cp "$shared/bench/$file.py" "$to/shared/bench/"; done
  cp -r "$shared"/data/{gpt2,lambada} "$to/shared/data/"
  cp -r "$venv"/lib/python3.*/site-packages/megatron "$to/python/"
  find "$to/python" -name __pycache__ -prune -exec rm -r {} +
  find "$to/python" -name '*.so' -exec strip --strip-unneeded {} +  # the wheel's has 5 MiB of symbols
  chmod -R u+w "$to"
  gzip "${packed[@]}"
  local bytes
  bytes="$(du -sb "$to" | cut -f1)"
  echo "$to: $((bytes >> 20)) MiB"
  if [ "$bytes" -gt "$most_bytes" ]; then fail "$to: expected at most $((most_bytes >> 20)) MiB"; fi
}

# Where python has a package, which is not imported: that takes seconds.
folder_of() {
  "$python" -c '
import importlib.util, sys
found = importlib.util.find_spec(sys.argv[1])
print(found.submodule_search_locations[0]) if found else sys.exit(1)' "$1"
}

# The programs find LibTorch and CUDA in the python that has them.
use_torch_of_python() {
  local torch folders
  torch="$(folder_of torch)" || fail "$python: has no torch"
  folders="$(find "$torch/lib" "$torch"/../nvidia/*/lib -maxdepth 0 2>/dev/null | paste -sd:)"
  export LD_LIBRARY_PATH="$build/lib:$folders${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export PYTHONPATH="$build/python${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
}

need_gpu() {
  local reason
  if [ "$device" != cuda ]; then skip "a rehearsal on a CPU"; fi
  if [ ! -e /dev/nvidiactl ]; then skip "no GPU: this machine has no NVIDIA driver (/dev/nvidiactl)"; fi
  reason="$("$python" -c '
import sys, torch
if torch.version.cuda is None:
    sys.exit("this torch is for CPUs only")
try:
    torch.cuda.init()
except Exception as error:
    sys.exit(str(error).splitlines()[0])' 2>&1)" || skip "no GPU: ${reason##*$'\n'}"
}

need_shared() {
  local file
  for file in "$@"; do
    if [ ! -e "$shared/$file" ]; then skip "$shared/$file: not there"; fi
  done
}

need_transformers() {
  folder_of transformers >/dev/null || skip "$python has no transformers"
}

# Two steps of one part: both run, the worse result is the part's.
both() {
  local first=0 second=0
  "$1" || first=$?
  "$2" || second=$?
  if [ "$first" -ne 0 ] && [ "$first" -ne 77 ]; then return "$first"; fi
  if [ "$second" -ne 0 ] && [ "$second" -ne 77 ]; then return "$second"; fi
  if [ "$first" -eq 77 ] && [ "$second" -eq 77 ]; then return 77; fi
}

# The programs themselves, not ctest: its lists name the paths of the machine that built the tree.
gpu_tests() (
  need_gpu
  ran=0
  failed=0
  for program in "$build"/tests/*_gpu_test; do
    report="$(timeout --foreground 100 "$program" --gtest_brief=1 2>&1)" || failed=1
    printf '== %s\n%s\n' "$(basename "$program")" "$report"
    if grep -q 'PASSED  \] [1-9]' <<<"$report"; then ran=1; fi
  done
  if [ "$failed" -ne 0 ]; then exit 1; fi
  if [ "$ran" -eq 0 ]; then skip "every GPU test: this tree was built without CUDA"; fi
)

sanitized_tests() (
  need_gpu
  if ! command -v compute-sanitizer >/dev/null; then skip "compute-sanitizer is not installed"; fi
  failed=0
  for tool in memcheck racecheck; do
    echo "== compute-sanitizer --tool $tool"
    report="$(timeout --foreground 75 compute-sanitizer --tool "$tool" --error-exitcode 1 "$build/tests/kernels_gpu_test" \
      --gtest_brief=1 2>&1)" || {
      case "$report" in
        *"Device not supported"*) echo "skipped: compute-sanitizer does not know this device" ;;
        *) failed=1 ;;
      esac
    }
    tail -30 <<<"$report"
  done
  exit "$failed"
)

tests() { both gpu_tests sanitized_tests; }

training_parity() (
  if [ "$device" = cuda ]; then need_gpu; fi
  peers=()
  if [ -f "$shared/bench/peer_train.py" ]; then peers=(--peer "$shared/bench/peer_train.py"); fi
  "$python" "$root/tests/train/device_parity.py" "$build/bin" --device "$device" --python "$python" \
    ${peers[@]+"${peers[@]}"}
)

inference_parity() (
  if [ "$device" = cuda ]; then need_gpu; fi
  need_shared bench/make_hf_gpt2.py data/lambada data/gpt2
  TORCH_CUDNN_SDPA_DEPRIORITIZED=1 "$python" "$root/tests/generation/device_parity.py" "$build/bin" \
    --shared "$shared" --device "$device" --python "$python"
)

parity() { both training_parity inference_parity; }

kernels() (
  need_gpu
  ours="$("$build/bench/kernel_gpu_bench")"
  peer="$("$python" "$root/tests/bench/kernel_gpu_peer.py")" || echo "PyTorch's column stays empty"
  awk '
    FNR == NR { if (NF == 3) torch[$1 " " $2] = $3; next }
    FNR == 1 {
      print "| kernel | type | access | ms | GB/s | % of a copy | PyTorch ms | ratio |"
      print "|---|---|---|---:|---:|---:|---:|---:|"
    }
    {
      time = torch[$1 " " $2]
      ratio = time == "" || $4 <= 0 ? "" : sprintf("%.2fx", time / $4)
      printf "| %s | %s | %s | %s | %s | %s | %s | %s |\n", $1, $2, $3, $4, $5, $6, time, ratio
    }' <(printf '%s\n' "$peer") <(printf '%s\n' "$ours")
)

# GPT-345M in bf16, 1024 tokens a sample. cuDNN's attention is the peers' fastest: one shape, many steps.
race() (
  need_shared bench/peer_train.py bench/peer_megatron_core.py
  size=(--dtype bf16 --shape 24 1024 16 50304 1024 --micro-batch-sizes 16 32 --iterations 16)
  if [ "$device" = cuda ]; then need_gpu; else size=(--shape 2 64 2 256 32 --iterations 4); fi
  case "$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null || true)" in
    *H200* | *H100*) size+=(--peak-tflops 989.5) ;;
    *A100*) size+=(--peak-tflops 312) ;;
  esac
  "$python" "$root/tests/bench/training_bench.py" "$build/bin/pretrain_gpt" --peers "$shared/bench" \
    --python "$python" --device "$device" "${size[@]}"
)

inference_size() {
  if [ "$device" = cuda ]; then echo --dtype bf16 --shape 24 1024 16; else echo --shape 2 64 2; fi
}

# LAMBADA's lines with a random GPT-345M in bf16.
lambada() (
  lines=5153
  if [ "$device" = cuda ]; then need_gpu; else lines=20; fi
  need_shared bench/peer_lambada.py data/lambada data/gpt2
  need_transformers
  read -ra size < <(inference_size)
  # A GPU is busy only with larger batches than a CPU.
  if [ "$device" = cuda ]; then size+=(--peer-batch-tokens 16384); fi
  TORCH_CUDNN_SDPA_DEPRIORITIZED=1 "$python" "$root/tests/bench/lambada_bench.py" "$build/bin/evaluate_gpt" \
    "$shared/bench/peer_lambada.py" "$shared/data/lambada/lambada_test.jsonl" --vocab-file \
    "$shared/data/gpt2/vocab.json" --merge-file "$shared/data/gpt2/merges.txt" --lines "$lines" \
    --threads "$(nproc)" --runs 1 --device "$device" "${size[@]}"
)

# 16 texts of 128 tokens with the same model.
generation() (
  if [ "$device" = cuda ]; then need_gpu; fi
  need_shared bench/peer_generate.py data/lambada data/gpt2
  need_transformers
  read -ra size < <(inference_size)
  TORCH_CUDNN_SDPA_DEPRIORITIZED=1 "$python" "$root/tests/bench/generation_bench.py" "$build/bin/generate" \
    "$shared" --threads "$(nproc)" --rounds 1 --device "$device" "${size[@]}"
)

# Most seconds of a part; of those that the header names together less than nine minutes.
seconds_of() {
  if [ "$device" != cuda ]; then echo 3600 && return; fi
  case "$1" in
    tests) echo 200 ;;
    parity) echo 220 ;;
    kernels) echo 110 ;;
    race) echo 530 ;;
    *) echo 260 ;;
  esac
}

# A process of its own for each part, so that none outlasts its time or ends the others.
run_part() {
  local part="$1" begin="$SECONDS" status=0 result
  echo "== $part"
  timeout --kill-after=5 "$(seconds_of "$part")" bash "$self" --part "$part" "$build" 2>&1 |
    tee "$out/$part.log" || status=$?
  case "$status" in
    0) result=good; ran=1 ;;
    77) result="$(grep '^skipped' "$out/$part.log" | tail -1)" ;;
    124 | 137) result="FAILED: took longer than $(seconds_of "$part") s"; failed=1 ;;
    *) result="FAILED: $(grep -v '^ *$' "$out/$part.log" | tail -1)"; failed=1 ;;
  esac
  printf '| %s | %s | %d |\n' "$part" "$result" $((SECONDS - begin)) >>"$out/results.md"
}

default_build() { if [ -d "$root/bin" ]; then echo "$root"; else echo "$root/build/release"; fi; }

shared="${MEG_SHARED:-$root/../shared}"
case "${1:-}" in
  --pack)
    pack "${2:?--pack: expected a folder}" "$(cd "${3:-$root/build/release}" && pwd)"
    exit 0
    ;;
  --part) build="$3" ;;
  *) build="$(cd "${1:-$(default_build)}" && pwd)" ;;
esac
if [ -z "${MEG_SHARED:-}" ] && [ -d "$build/shared" ]; then shared="$build/shared"; fi
if [ "${1:-}" = --part ]; then
  "$2"
  exit
fi

# A pack's programs travel compressed. Files that were carried may have lost their modes.
find "$build"/{bin,tests,bench} -maxdepth 1 -name '*.gz' -exec gunzip {} + 2>/dev/null || true
chmod u+x "$build"/{bin,tests,bench}/* 2>/dev/null || true
use_torch_of_python
out="${OUT:-$(mktemp -d)}"
mkdir -p "$out"
ran=0
failed=0
{
  echo "# $(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || echo no GPU)"
  "$python" -c 'from importlib.metadata import version; print("torch", version("torch"))'
  printf '\n| part | result | seconds |\n|---|---|---:|\n'
} >"$out/results.md"
for part in ${MEG_GPU_CHECKS:-tests parity kernels race lambada generation}; do
  case "$part" in
    tests | parity | kernels | race | lambada | generation) run_part "$part" ;;
    *) fail "MEG_GPU_CHECKS: expected tests, parity, kernels, race, lambada or generation, found $part" ;;
  esac
done
cat "$out/results.md"
echo "logs: $out"
if [ "$failed" -ne 0 ]; then fail "a part failed"; fi
if [ "$ran" -eq 0 ]; then fail "no part ran: no GPU here"; fi
