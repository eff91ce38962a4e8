#!/usr/bin/env bash
# Makes everything of a release in one folder: wheels, source distribution, Debian packages, tarball, the changelog's section,
# a bill of materials (SPDX) and checksums. The version stands in CMakeLists.txt alone.
#
#   scripts/release.sh [FOLDER]       into FOLDER (dist/release)
#   scripts/release.sh --check        twice, each time built from nothing, and compares the bytes
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/.."

die() {
  echo "error: $*" >&2
  exit 1
}

version="$(sed -n 's/^project(libmeg VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)"
commit="$(git rev-parse HEAD)"
SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)"
export SOURCE_DATE_EPOCH

# The section of this version, without its heading.
changelog_section() {
  awk -v heading="## $version, released " \
    'index($0, "## ") == 1 { inside = index($0, heading) == 1; next } inside' CHANGELOG.md
}

check_sources() {
  [ -z "$(git status --porcelain)" ] || die "the checkout has changes: a release is made of a commit"
  [ -n "$(changelog_section)" ] || die "CHANGELOG.md: expected a section '## $version, released DATE'"
}

# Takes what has just been built; old artifacts of other commits never come with it.
collect() {
  local folder="$1" deps="${MEG_DEPS:-$HOME/.cache/libmeg}"
  rm -rf "$folder" dist/*.whl
  mkdir -p "$folder"
  "$here/build_wheel.sh"
  "$here/build_wheel.sh" --train
  "$deps/wheel-venv/bin/python" -m build --sdist --no-isolation --outdir "$folder"
  "$here/build_packages.sh"
  cp dist/*.whl build/packages/artifacts/* "$folder"
  changelog_section >"$folder/CHANGES.md"
  (
    cd "$folder"
    "$here/make_sbom.py" "$version" "$commit" *.whl *.tar.gz *.deb >"libmeg-$version.spdx.json"
    sha256sum -- * >SHA256SUMS
  )
}

check_sources
case "${1:-}" in
  --check)
    for number in 1 2; do
      rm -rf build/wheel build/train-wheel build/packages
      collect "build/release-check/$number"
      export CCACHE_DISABLE=1 # or the second build would take the first one's objects
    done
    diff build/release-check/1/SHA256SUMS build/release-check/2/SHA256SUMS ||
      die "two builds of $commit differ"
    echo "libmeg $version: two builds have the same bytes"
    ;;
  -*) die "$1: expected a folder or --check" ;;
  *)
    collect "${1:-dist/release}"
    (cd "${1:-dist/release}" && sha256sum --check --quiet SHA256SUMS && ls)
    ;;
esac
