#!/usr/bin/env bash
# Tests a wheel as its users get it: in a new environment of each Python, and in new roots of other systems, with neither a
# compiler in the PATH nor this checkout in sight.
#
#   scripts/test_wheel.sh WHEEL [PYTHON ...]
#   scripts/test_wheel.sh --train WHEEL TRAIN_WHEEL    the programs that need LibTorch, with the torch of scripts/setup.sh
#
# Without a PYTHON: those of 3.10 and newer in the PATH and in pyenv. MEG_WHEEL_ROOTS: the suites of Debian or Ubuntu that
# debootstrap makes roots of ("bookworm trixie"; jammy's glibc is older than the one that libmeg is built with), or nothing.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
train_wheel=""
if [ "$1" = --train ]; then
  train_wheel="$(realpath "$3")"
  set -- "$2"
fi
wheel="$(realpath "$1")"
shift
limit=12000000
roots="${MEG_WHEEL_ROOTS-bookworm trixie}"

say() { printf 'test_wheel: %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

case "$(basename "$wheel")" in
  libmeg-*-cp310-abi3-manylinux_2_34_x86_64.whl) ;;
  *) die "$wheel: expected libmeg-VERSION-cp310-abi3-manylinux_2_34_x86_64.whl" ;;
esac
size="$(stat -c %s "$wheel")"
if [ "$size" -ge "$limit" ]; then die "$wheel: expected less than $limit bytes, found $size"; fi
say "$(basename "$wheel"): $size bytes"

scratch="$(mktemp -d)"
# chroot's users read it.
chmod 755 "$scratch"
trap 'rm -rf --one-file-system "$scratch"' EXIT
mkdir -p "$scratch/tests/python" "$scratch/tests/tests"
cp -r "$here/../python/tests" "$scratch/tests/python/"
cp -r "$here/../tests/wheel" "$here/../tests/train_wheel" "$scratch/tests/tests/"
cp -r "$here/../testdata" "$here/../examples" "$here/../README.md" "$scratch/tests/"
mkdir "$scratch/tests/docs"
cp "$here/../docs/python.md" "$scratch/tests/docs/"
pytest="$(grep '^pytest==' "$here/requirements.txt")"

# tests VENV [PYTEST_ARGUMENT ...]: the environment of a user who has nothing else.
tests() {
  local venv="$1"
  (cd "$scratch/tests" &&
    env -i HOME="$scratch" LANG=C.UTF-8 PATH="$venv/bin" ${TORCH+TORCH="$TORCH"} "$venv/bin/python" -m pytest -q -rs -p no:cacheprovider "${@:2}")
}

# install VENV PACKAGE ...
install() { "$1/bin/python" -m pip install -q --no-input --disable-pip-version-check "${@:2}"; }

# test_python PYTHON VERSION
test_python() {
  local venv="$scratch/$2" oldest=()
  say "Python $2"
  # The oldest versions that the wheel allows, where they are to be had.
  if [ "$2" = 3.10 ]; then oldest=(numpy==1.22.* nanobind-backend==1.0.*); fi
  "$1" -m venv "$venv"
  install "$venv" "$wheel" "$pytest" "${oldest[@]}"
  tests "$venv" python tests/wheel
  # pyarrow has no such version for Python 3.10.
  if [ "$2" != 3.10 ] && [ -z "${with_arrow:-}" ]; then
    with_arrow="$2"
    say "Python $2, libmeg[arrow]"
    install "$venv" "$wheel[arrow]"
    tests "$venv" tests/wheel -k parquet
    say "Python $2, the engines of examples/python"
    install "$venv" -r "$here/requirements-engines.txt"
    tests "$venv" python/tests/test_engines.py
  fi
  rm -rf "$venv"
}

# download FOLDER PYTHON_VERSION ARGUMENT ...: what pip would install there on a system with glibc 2.34.
download() {
  if [ ! -e "$scratch/pip" ]; then
    python3 -m venv "$scratch/pip"
    install "$scratch/pip" --upgrade pip # Old ones do not know of free-threaded Python.
  fi
  "$scratch/pip/bin/python" -m pip download -q --disable-pip-version-check --only-binary :all: --dest "$1" \
    --python-version "$2" --platform=manylinux_2_{34,28,27,17}_x86_64 "${@:3}"
}

# test_refused PYTHON_VERSION ABI: pip says that the wheel is not for it.
test_refused() {
  say "Python $1, $2"
  if said="$(download "$scratch/refused" "$1" --abi "$2" --no-deps "$wheel" 2>&1)"; then die "pip did not refuse the wheel"; fi
  grep -F 'is not a supported wheel on this platform' <<<"$said"
}

# test_root SUITE: a minimal system with Python, as a user without rights.
test_root() {
  local root="$scratch/root-$1" version
  if [ "$(id -u)" -ne 0 ] || ! command -v debootstrap >/dev/null; then
    say "skipped: $1: needs debootstrap and root's rights"
    return
  fi
  debootstrap --variant=minbase --include=python3 "$1" "$root" >"$scratch/debootstrap.log" 2>&1 || {
    tail -n 5 "$scratch/debootstrap.log"
    die "$1: debootstrap failed"
  }
  version="$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
  say "$1: $(chroot "$root" ldd --version | head -n 1), Python $version"
  # The last two are what pytest needs on Python 3.10, which pip does not see from a newer one.
  download "$root/wheels" "$version" "$wheel" "$pytest" pip exceptiongroup tomli
  cp -r "$scratch/tests" "$root/tests"
  cat >"$root/test.sh" <<'EOF'
set -e
python3 -m venv --without-pip /tmp/venv
pip="$(echo /wheels/pip-*.whl)"
/tmp/venv/bin/python "$pip/pip" install -q --no-index --find-links /wheels libmeg pytest
cd /tests
PATH=/tmp/venv/bin exec /tmp/venv/bin/python -m pytest -q -rs -p no:cacheprovider python tests/wheel
EOF
  unshare --mount bash -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot --userspec=nobody "$0" \
    /usr/bin/env -i HOME=/tmp LANG=C.UTF-8 PATH=/usr/bin:/bin bash /test.sh' "$root"
  rm -rf --one-file-system "$root"
}

# Torch is not installed again: 5 GB.
test_train() {
  local deps="${MEG_DEPS:-$HOME/.cache/libmeg}" venv="$scratch/train" torch
  torch="$(dirname "$(echo "$deps"/venv/lib/python3*/site-packages/torch)")"
  say "$(basename "$train_wheel"): $(stat -c %s "$train_wheel") bytes"
  python3 -m venv "$venv"
  install "$venv" "$wheel" "$pytest"
  install "$venv" --no-deps "$train_wheel"
  TORCH="$torch" tests "$venv" tests/train_wheel
  say "passed: $(basename "$train_wheel")"
}

if [ -n "$train_wheel" ]; then
  test_train
  exit
fi

if [ $# -eq 0 ]; then
  mapfile -t found < <(compgen -c python3. | grep -xE 'python3\.[0-9]+' | sort -u
    compgen -G "${PYENV_ROOT:-$HOME/.pyenv}/versions/*/bin/python3")
  set -- "${found[@]}"
fi
# Each version once: the first one that is found.
declare -A pythons=()
for python in "$@"; do
  version="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true)"
  case "$version" in
    3.[1-9][0-9]*) pythons[$version]="${pythons[$version]:-$python}" ;;
  esac
done
if [ "${#pythons[@]}" -eq 0 ]; then die "no Python of 3.10 or newer was found"; fi
for version in $(printf '%s\n' "${!pythons[@]}" | sort -V); do
  test_python "${pythons[$version]}" "$version"
done
test_refused 3.9 cp39
test_refused 3.13 cp313t # free-threaded
for suite in $roots; do test_root "$suite"; done
say "passed: Python $(printf '%s\n' "${!pythons[@]}" | sort -V | tr '\n' ' ')"
