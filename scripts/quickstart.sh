#!/usr/bin/env bash
# From text to the .bin/.idx that Megatron-LM trains from, to the samples of a training run, and a
# checkpoint brought from TP2 PP2 to one rank, in one command: installs what compiling needs, builds the programs, runs them and shows what
# they made.
#
#   scripts/quickstart.sh                        on the small files in testdata/
#   scripts/quickstart.sh --input YOUR.jsonl --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt
#                                                on yours; makes ./YOUR_text_document.bin and .idx
#
# Further flags (--json-keys, --output-prefix, --workers ...) go to preprocess_data.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(dirname "$here")"
build="$root/build/quickstart"

inputs=()
keys=(text)
prefix=""
vocab_file=""
merge_file=""
others=()

# Reads the flags that are needed here, in both spellings and with or without `=`.
read_arguments() {
  local flag
  while [ $# -gt 0 ]; do
    flag="${1%%=*}"
    flag="${flag//_/-}"
    if [ "$flag" = --help ] || [ "$flag" = -h ]; then
      sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
      exit 0
    fi
    case "$flag" in
      --input | --json-keys | --output-prefix | --vocab-file | --merge-file) ;;
      *) others+=("$1"); shift; continue ;;
    esac
    local -a values=()
    if [[ "$1" == *=* ]]; then values+=("${1#*=}"); fi
    shift
    while [ $# -gt 0 ] && [[ "$1" != --* ]]; do values+=("$1"); shift; done
    if [ "${#values[@]}" -eq 0 ]; then
      echo "error: $flag: expected a value" >&2
      exit 2
    fi
    case "$flag" in
      --input) inputs=("${values[@]}") ;;
      --json-keys) keys=("${values[@]}") ;;
      --output-prefix) prefix="${values[0]}" ;;
      --vocab-file) vocab_file="${values[0]}" ;;
      --merge-file) merge_file="${values[0]}" ;;
    esac
  done
}

build_programs() {
  local log="$build/quickstart.log"
  mkdir -p "$build"
  if [ ! -x "$build/bin/verify" ]; then echo "building libmeg (some minutes) ..."; fi
  if ! { cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMEG_WITH_TORCH=OFF \
           -DMEG_BUILD_TESTS=OFF -DMEG_BUILD_BENCH=OFF &&
         cmake --build "$build" --target preprocess_data prepare_cache dataset_inspect verify \
           checkpoint_inspect checkpoint_util; } >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    echo "error: the build failed; the whole log is $log" >&2
    exit 1
  fi
}

# Shows a command as it could be typed, and runs it.
show() {
  printf '\n$'
  printf ' %q' "${@/#"$PWD/"/}"
  printf '\n'
  "$@"
}

# The index caches of a short training run on the dataset, and what its third step sees.
prepare_samples() {
  local run=(--data-path "$1" --seq-length 64 --train-iters 10 --micro-batch-size 2
    --global-batch-size 4 --eval-iters 1 --data-cache-path "$build/data/cache"
    --vocab-file "$vocab_file" --merge-file "$merge_file")
  show "$bin/prepare_cache" "${run[@]}"
  show "$bin/dataset_inspect" --trace --step 3 "${run[@]}"
}

# The small checkpoint of testdata/: what it holds, the same on one rank, and that nothing was lost.
reshape_checkpoint() {
  local source="$embedded/checkpoint" target="$build/data/checkpoint_tp1_pp1"
  show "$bin/checkpoint_inspect" "$source"
  show "$bin/checkpoint_util" --load-dir "$source" --save-dir "$target" \
    --target-tensor-parallel-size 1 --target-pipeline-parallel-size 1 --true-vocab-size 75
  show "$bin/verify" checkpoint "$target"
  show "$bin/verify" diff "$source" "$target"
}

read_arguments "$@"
embedded="$root/testdata"
with_checkpoint=false
if [ "${#inputs[@]}" -eq 0 ]; then
  with_checkpoint=true
  inputs=("$embedded/quickstart/english.jsonl")
  prefix="${prefix:-$build/data/english}"
else
  name="$(basename "${inputs[0]}")"
  if [ "$name" = - ]; then name=stdin; fi
  prefix="${prefix:-$PWD/${name%%.*}}"
fi
check=()
if [ -z "$vocab_file$merge_file" ]; then
  vocab_file="$embedded/tokenizer/vocab.json"
  merge_file="$embedded/tokenizer/merges.txt"
  check=(--vocab-size 2257 --eod 2256)
  vocabulary_note="note: this is the small vocabulary of testdata/ (2257 tokens); for training give \
GPT-2's own with --vocab-file and --merge-file"
fi

"$here/setup.sh" --build-only
build_programs
bin="$build/bin"

show "$bin/preprocess_data" --input "${inputs[@]}" --json-keys "${keys[@]}" \
  --output-prefix "$prefix" --tokenizer-type GPT2BPETokenizer --vocab-file "$vocab_file" \
  --merge-file "$merge_file" --append-eod ${others[@]+"${others[@]}"}
for key in "${keys[@]}"; do
  dataset="${prefix}_${key}_document"
  show "$bin/dataset_inspect" "$dataset"
  show "$bin/dataset_inspect" "$dataset" --document 0 --decode --vocab-file "$vocab_file" \
    --merge-file "$merge_file"
  show "$bin/verify" dataset "$dataset" ${check[@]+"${check[@]}"}
done

printf '\nmade:\n'
for key in "${keys[@]}"; do ls -lh "${prefix}_${key}_document".{bin,idx}; done
if [ -n "${vocabulary_note:-}" ]; then printf '%s\n' "$vocabulary_note"; fi
printf 'train on it with: --data-path %s\n' "${prefix}_${keys[0]}_document"
if $with_checkpoint; then
  prepare_samples "${prefix}_${keys[0]}_document"
  reshape_checkpoint
fi
