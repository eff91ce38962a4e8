#!/usr/bin/env bash
# Fails where a C++ or CUDA file is not formatted as .clang-format says; --fix formats it instead. Fails
# for odd words in added lines, too (check_words.py).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

clang_format="$(command -v clang-format-14 || command -v clang-format || true)"
if [ -z "$clang_format" ]; then
  echo "skipped: clang-format is not installed (scripts/setup.sh installs it)"
  exit 77
fi
if ! git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  echo "skipped: not a git checkout"
  exit 77
fi
how=(--dry-run -Werror)
if [ "${1:-}" = --fix ]; then how=(-i); fi
git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cu' '*.cuh' |
  xargs -0 -r -P "$(nproc)" -n 8 "$clang_format" "${how[@]}" --style=file
python3 scripts/check_words.py || [ $? -eq 77 ]
