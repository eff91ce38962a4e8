#!/usr/bin/env bash
# Runs cases of this folder and compares what they do with the files beside them.
#
#   run_cli_tests.sh BIN_DIR [--update] [PROGRAM/CASE ...]
#
# A case is a folder PROGRAM/CASE. Its run.sh is run by bash in an empty folder that has only the link `testdata`,
# with BIN_DIR first in PATH and nothing on standard input. Standard output, standard error and exit code must be those
# of the case's files stdout, stderr (both empty where the file is missing) and exit (0 where it is missing). A case
# that ends with 77 is skipped; its last line on standard error says why. --update rewrites these files; read the
# difference before committing it. No PROGRAM/CASE: all cases.
set -u

folder=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$1" && pwd) || exit 2
shift
update=false
if [ "${1:-}" = --update ]; then
  update=true
  shift
fi
if [ $# -eq 0 ]; then
  set -- $(cd "$folder" && ls -d -- */*/run.sh | sed 's,/run.sh$,,')
fi

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
export PATH="$bin:$PATH" LC_ALL=C.UTF-8

run_case() {
  local name=$1
  local expected=$folder/$name
  mkdir -p "$work/run/$name"
  ln -s "$folder/../../testdata" "$work/run/$name/testdata"
  (cd "$work/run/$name" && bash "$expected/run.sh" >"$work/stdout" 2>"$work/stderr" </dev/null)
  local code=$?
  if [ $code -eq 77 ]; then
    echo "SKIPPED $name: $(tail -1 "$work/stderr")"
    return 77
  fi
  echo $code >"$work/exit"
  if $update; then
    for part in stdout stderr; do
      if [ -s "$work/$part" ]; then cp "$work/$part" "$expected/$part"; else rm -f "$expected/$part"; fi
    done
    if [ $code -ne 0 ]; then cp "$work/exit" "$expected/exit"; else rm -f "$expected/exit"; fi
    return 0
  fi
  local failed=0
  for part in stdout stderr exit; do
    local wanted=/dev/null
    [ $part = exit ] && { echo 0 >"$work/zero"; wanted=$work/zero; }
    [ -e "$expected/$part" ] && wanted=$expected/$part
    diff -u --label "$name/$part" --label found "$wanted" "$work/$part" || failed=1
  done
  [ $failed -eq 0 ] && echo "ok $name"
  return $failed
}

status=0
for name in "$@"; do
  run_case "$name"
  code=$?
  if [ $code -eq 1 ]; then
    status=1
  elif [ $code -eq 77 ] && [ $# -eq 1 ]; then
    status=77
  fi
done
exit $status
