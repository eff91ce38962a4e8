#!/usr/bin/env bash
# Fails where a committed file names a folder of somebody's machine: the project must work anywhere.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  echo "skipped: not a git checkout"
  exit 77
fi
# The first letter of each word stands in brackets so that this file does not find itself.
homes='/[r]oot/|/[h]ome/[a-z]|/[U]sers/[a-z]|/[w]ork/|/[o]pt/wheels|/[m]nt/[a-z]'
here="$PWD/"
if git grep -nIE --untracked -e "(^|[^A-Za-z0-9_.\$})~-])($homes|${here//./\\.})"; then
  echo "error: these lines name a folder of one machine" >&2
  exit 1
fi
