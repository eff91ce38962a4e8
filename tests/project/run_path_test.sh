#!/usr/bin/env bash
# Programs of the folder $1 that need the CUDA runtime look for it beside the LibTorch that they look for,
# too: a machine may have no toolkit. Exits 77 where no program needs it, or LibTorch brings none.
set -euo pipefail
checked=0
for program in "$1"/*; do
  dynamic="$(readelf -d "$program" 2>/dev/null)" || continue
  runtime="$(sed -n 's/.*NEEDED.*\[\(libcudart[^]]*\)\].*/\1/p' <<<"$dynamic")"
  path="$(sed -n 's/.*R.*PATH.*\[\(.*\)\].*/\1/p' <<<"$dynamic")"
  torch="$(tr ':' '\n' <<<"$path" | grep '/torch/lib$' || true)"
  if [ -z "$runtime" ] || [ -z "$torch" ]; then continue; fi
  found="$(find "$torch"/../../nvidia/*/lib -name "$runtime" 2>/dev/null | head -1)"
  if [ -z "$found" ]; then continue; fi
  checked=$((checked + 1))
  while read -r folder; do
    if [ -n "$folder" ] && [ "$folder/$runtime" -ef "$found" ]; then continue 2; fi
  done < <(tr ':' '\n' <<<"$path")
  echo "error: $program: run path: expected the folder of $found, found $path" >&2
  exit 1
done
if [ "$checked" -eq 0 ]; then exit 77; fi
