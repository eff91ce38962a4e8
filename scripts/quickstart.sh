#!/usr/bin/env bash
# Runs every step in one command: text -> tokens -> a short training run -> another parallel layout -> verify ->
# LAMBADA -> a served answer. Installs what that needs, builds the programs, runs them on your text or on the
# small files in testdata/ and shows what they wrote. On CPUs this takes less than three minutes after the build.
#
#   scripts/quickstart.sh                        on the small files in testdata/
#   MEG_WITH_TORCH=OFF scripts/quickstart.sh     without LibTorch (5 GB), and without training and later steps
#   scripts/quickstart.sh --input YOUR.jsonl --vocab-file gpt2-vocab.json --merge-file gpt2-merges.txt
#                                                on your text; the tokens are
#                                                ./YOUR_text_document.bin and .idx
#
# Other flags (--json-keys, --output-prefix, --workers ...) are passed to preprocess_data. With another
# --tokenizer-type the script stops after the tokens. MEG_BUILD=DIR uses the programs in the build folder DIR instead
# of setting up and building, and puts the outputs there.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(dirname "$here")"
build="${MEG_BUILD:-$root/build/quickstart}"

inputs=()
keys=(text)
prefix=""
vocab_file=""
merge_file=""
others=()

# Reads the flags that this script needs, in both spellings and with or without `=`.
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
  # Everything but the tests, so that `cmake --install` finds all that it installs.
  if [ ! -x "$build/bin/preprocess_data" ]; then echo "building libmeg (takes a few minutes) ..."; fi
  if ! { cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMEG_JOIN_SOURCES=ON \
           -DMEG_WITH_TORCH="$with_torch" -DMEG_BUILD_TESTS=OFF -DMEG_BUILD_BENCH=OFF &&
         cmake --build "$build"; } >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    echo "error: the build failed; see the full log in $log" >&2
    exit 1
  fi
}

# Prints a command as it could be typed.
show_command() {
  local word line='$'
  for word in "${@/#"$PWD/"/}"; do
    if [[ "$word" =~ ^[A-Za-z0-9_./:=,+@%-]+$ ]]; then line+=" $word"; else line+=" ${word@Q}"; fi
  done
  printf '\n%s\n' "$line"
}

show() {
  show_command "$@"
  "$@"
}

# Runs a command and shows the lines that match the first argument.
show_lines() {
  local pattern="$1"
  shift
  show_command "$@"
  "$@" >"$build/step.log" || { tail -n 20 "$build/step.log"; return 1; }
  grep -E "$pattern" "$build/step.log"
}

# Prints the number under a key of the JSON object on standard input.
number_of() {
  sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" | head -n 1
}

# Builds the index caches of a short training run on the dataset, and shows what its third step sees.
prepare_samples() {
  local run=(--data-path "$1" --split 95,5,0 --seq-length 64 --train-iters 10 --micro-batch-size 2
    --global-batch-size 4 --eval-iters 1 --data-cache-path "$build/data/cache"
    --vocab-file "$vocab_file" --merge-file "$merge_file")
  show "$bin/prepare_cache" "${run[@]}"
  show "$bin/dataset_inspect" --trace --step 3 "${run[@]}"
}

# Shows what a checkpoint holds, reshapes it, and checks that nothing was lost.
reshape_checkpoint() {
  local source="$1" target="$2" tensor="$3" pipeline="$4" vocab_size="$5"
  rm -rf "$target"
  show "$bin/checkpoint_inspect" "$source"
  show "$bin/checkpoint_util" --load-dir "$source" --save-dir "$target" --target-tensor-parallel-size \
    "$tensor" --target-pipeline-parallel-size "$pipeline" --true-vocab-size "$vocab_size"
  show "$bin/verify" checkpoint "$target"
  show "$bin/verify" diff "$source" "$target"
}

# Trains a small model for a few hundred steps on the dataset.
train_model() {
  rm -rf "$2"
  show_lines ' iteration .*/|validation loss|successfully saved' "$bin/pretrain_gpt" --num-layers 4 \
    --hidden-size 128 --num-attention-heads 4 --seq-length 128 --max-position-embeddings 128 \
    --micro-batch-size 8 --global-batch-size 8 --train-iters 200 --lr 3e-3 --min-lr 3e-4 \
    --lr-decay-style cosine --lr-warmup-fraction 0.05 --hidden-dropout 0 --attention-dropout 0 \
    --data-path "$1" --split 95,5,0 --data-cache-path "$build/data/cache" --vocab-file "$vocab_file" \
    --merge-file "$merge_file" --save "$2" --load "$2" --save-interval 200 --eval-interval 200 \
    --eval-iters 4 --log-interval 40
}

# Sends the server a request as a Megatron user would, from another process.
serve_model() {
  local run=("$bin/run_text_generation_server" --load "$1" --vocab-file "$vocab_file" --merge-file
    "$merge_file" --port 0)
  show_command "${run[@]}"
  "${run[@]}" >"$build/server.log" 2>&1 &
  local server=$! port=""
  trap 'kill "$server" 2>/dev/null || true' EXIT
  while [ -z "$port" ]; do
    if ! kill -0 "$server" 2>/dev/null; then cat "$build/server.log" >&2; exit 1; fi
    sleep 0.1
    port="$(sed -n 's#.*http://127.0.0.1:\([0-9]*\).*#\1#p' "$build/server.log" | head -n 1)"
  done
  show curl -sS "http://127.0.0.1:$port/api" -X PUT -H 'Content-Type: application/json; charset=UTF-8' \
    -d '{"prompts": ["And he said"], "tokens_to_generate": 12, "top_k": 1}'
  kill "$server"
  wait "$server"
  trap - EXIT
}

# Runs every step from the dataset to a served answer.
train_and_use() {
  local trained="$build/data/checkpoint" cut="$build/data/checkpoint_tp2_pp2" vocab_size
  vocab_size="$("$bin/tokenizer_inspect" --tokenizer-type GPT2BPETokenizer --vocab-file "$vocab_file" \
    --merge-file "$merge_file" --json | number_of vocab_size)"
  train_model "$1" "$trained"
  reshape_checkpoint "$trained" "$cut" 2 2 "$vocab_size"
  show_lines 'validation results' "$bin/evaluate_gpt" --task LAMBADA --valid-data \
    "$embedded/quickstart/lambada.jsonl" --load "$cut" --vocab-file "$vocab_file" --merge-file "$merge_file"
  serve_model "$cut"
}

read_arguments "$@"
embedded="$root/testdata"
with_torch="${MEG_WITH_TORCH:-ON}"
# Enough for one batch of the training run, and a little more.
fewest_tokens=2000
if [ "${#inputs[@]}" -eq 0 ]; then
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
  vocabulary_note="note: this is the small vocabulary in testdata/ (2257 tokens); for real training pass \
GPT-2's with --vocab-file and --merge-file"
fi

if [ -z "${MEG_BUILD:-}" ]; then
  MEG_WITH_TORCH="$with_torch" "$here/setup.sh" --programs
  build_programs
fi
bin="$build/bin"

show "$bin/preprocess_data" --input "${inputs[@]}" --json-keys "${keys[@]}" \
  --output-prefix "$prefix" --tokenizer-type GPT2BPETokenizer --vocab-file "$vocab_file" \
  --merge-file "$merge_file" --append-eod ${others[@]+"${others[@]}"}
# An index without a document has 42 bytes.
if [ "$(stat -c %s "${prefix}_${keys[0]}_document.idx")" -le 42 ]; then
  echo "error: ${inputs[*]}: no documents: expected JSON lines such as {\"${keys[0]}\": \"some text\"}" >&2
  exit 1
fi
for key in "${keys[@]}"; do
  dataset="${prefix}_${key}_document"
  show "$bin/dataset_inspect" "$dataset"
  show "$bin/dataset_inspect" "$dataset" --document 0 --decode --vocab-file "$vocab_file" \
    --merge-file "$merge_file"
  show "$bin/verify" dataset "$dataset" ${check[@]+"${check[@]}"}
done

first="${prefix}_${keys[0]}_document"
tokens="$("$bin/dataset_inspect" "$first" --json | number_of tokens)"
used=false
if [[ " ${others[*]-} " == *" --tokenizer"[-_]"type"* ]]; then
  printf '\nnote: the tokenizer is not GPT2BPETokenizer: skipping the remaining steps\n'
elif [ "$tokens" -lt "$fewest_tokens" ]; then
  printf '\nnote: %s tokens are too few to train on: skipping the remaining steps\n' "$tokens"
else
  prepare_samples "$first"
  if [ "$with_torch" = ON ]; then
    train_and_use "$first"
    used=true
  else
    reshape_checkpoint "$embedded/checkpoint" "$build/data/checkpoint_tp1_pp1" 1 1 75
  fi
fi

printf '\nwritten:\n'
for key in "${keys[@]}"; do ls -lh "${prefix}_${key}_document".{bin,idx}; done
if $used; then du -sh "$build/data/checkpoint" "$build/data/checkpoint_tp2_pp2"; fi
if [ -n "${vocabulary_note:-}" ]; then printf '%s\n' "$vocabulary_note"; fi
printf 'next: the programs are in %s; %s explains the steps.\n' "$bin" "$root/docs/tutorial.md"
printf 'To train on these tokens, pass --data-path %s\n' "$first"
