#!/usr/bin/env bash
# Tests the artifacts of scripts/build_packages.sh in fresh systems: the Debian packages on Debian 12 (checked by lintian,
# installed, run by an ordinary user, compiled against, removed) and a prefix with LibTorch inside, the tarball on Debian 13,
# which has none of its libraries.
#
#   scripts/test_packages.sh                    those in build/packages/artifacts
#   scripts/test_packages.sh FOLDER
#
# Needs root, what scripts/setup.sh --packages installs, and the mirror of this system (or MEG_DEBIAN_MIRROR). The systems are kept in
# ${MEG_ROOTS:-build/packages/roots}. Training is tried if scripts/setup.sh has installed LibTorch.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
artifacts="$(realpath "${1:-$root/build/packages/artifacts}")"
roots="${MEG_ROOTS:-$root/build/packages/roots}"
mirror="${MEG_DEBIAN_MIRROR:-$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list.d/debian.sources | head -n 1)}"
packages="$(find "${MEG_DEPS:-$HOME/.cache/libmeg}"/venv/lib/python3*/site-packages -maxdepth 0 2>/dev/null | head -n 1)"

step() { printf '\n== %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

if [ "$(id -u)" -ne 0 ]; then die "expected root, who may make systems to install in"; fi
for tool in debootstrap lintian; do
  if ! command -v "$tool" >/dev/null; then die "$tool was not found: run scripts/setup.sh --packages"; fi
done

# fresh SUITE NAME: a new system of that release in $roots/NAME, copied from one that is made once.
fresh() {
  if [ ! -d "$roots/$1.base" ]; then
    mkdir -p "$roots"
    rm -rf "$roots/$1.part"
    debootstrap --variant=minbase "$1" "$roots/$1.part" "$mirror" >"$roots/$1.log" 2>&1 ||
      { tail -n 5 "$roots/$1.log"; die "debootstrap $1 failed; see $roots/$1.log"; }
    mv "$roots/$1.part" "$roots/$1.base"
  fi
  rm -rf "${roots:?}/$2"
  cp -a "$roots/$1.base" "$roots/$2"
  mkdir "$roots/$2/libmeg"
  cp -r "$artifacts" "$roots/$2/libmeg/artifacts"
  cp -r "$root/testdata/quickstart" "$root/testdata/tokenizer" "$root/testdata/checkpoint" "$root/examples" \
    "$roots/$2/libmeg"
  mkdir -m 777 "$roots/$2/libmeg/out" "$roots/$2/site-packages"
}

# inside NAME USER COMMAND: runs a command in a system, with the site-packages of scripts/setup.sh in /site-packages.
inside() {
  unshare -m -p -f bash -c '
    mount -t proc proc "$1/proc"
    if [ -n "$4" ]; then mount --bind -o ro "$4" "$1/site-packages"; fi
    exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
      MEG_TORCH_ROOT="${5:-}" chroot "$1" su "$2" -s /bin/sh -p -c "cd / && $3"' - "$roots/$1" "$2" "$3" "$packages" \
    "${torch:-}"
}

# try_tools NAME FOLDER: tokenizes, verifies and reshapes with the programs of a folder, as an ordinary user.
try_tools() {
  inside "$1" nobody "PATH=$2:\$PATH
    preprocess_data --version
    preprocess_data --input libmeg/quickstart/english.jsonl --output-prefix libmeg/out/english --append-eod \
      --tokenizer-type GPT2BPETokenizer --vocab-file libmeg/tokenizer/vocab.json \
      --merge-file libmeg/tokenizer/merges.txt >libmeg/out/log &&
    meg verify dataset libmeg/out/english_text_document &&
    checkpoint_util --load-dir libmeg/checkpoint --save-dir libmeg/out/reshaped --true-vocab-size 75 \
      --target-tensor-parallel-size 1 --target-pipeline-parallel-size 1 >libmeg/out/log &&
    meg verify diff libmeg/checkpoint libmeg/out/reshaped
    printf PAR1 >libmeg/out/in.parquet
    train_tokenizer --vocab-size 300 --output-dir libmeg/out/t --input libmeg/out/in.parquet || true" 2>&1 | tee "$roots/said"
  for word in 'english_text_document: ok (100 sequences' 'equal (52 parameters' \
    'in.parquet: Parquet file: expected .*: python3 -m pip install pyarrow=='; do
    grep -q "$word" "$roots/said" || die "expected $word"
  done
  inside "$1" nobody "$2/train_tokenizer --vocab-size 300 --output-dir /libmeg/out/t --input s3://bucket/key" \
    >"$roots/said" 2>&1 || true
  grep -q 'no credentials: expected AWS' "$roots/said" || die "expected a word on credentials, found $(cat "$roots/said")"
}

# try_training NAME PROGRAM: two steps, as an ordinary user, of a trainer or of Megatron's script that runs it.
try_training() {
  local save
  save="/libmeg/out/$(basename "$(dirname "$2")")"
  inside "$1" nobody "$2 --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 \
    --max-position-embeddings 16 --micro-batch-size 2 --lr 1e-3 --train-iters 2 --log-interval 1 --eval-iters 0 --mock-data \
    --tokenizer-type NullTokenizer --vocab-size 100 --save $save >/libmeg/out/log 2>&1; tail -n 3 /libmeg/out/log"
  [ -e "$roots/$1$save/latest_checkpointed_iteration.txt" ] || die "the training saved nothing"
}

test_debs() {
  local installed
  step "lintian"
  lintian --fail-on error --allow-root --tag-display-limit 0 "$artifacts"/*.deb
  step "Debian 12: libmeg-tools"
  fresh bookworm debs
  # shellcheck disable=SC2016
  inside debs root 'apt-get -qq update && apt-get -qq install -y --no-install-recommends \
    /libmeg/artifacts/libmeg-tools_*.deb >/libmeg/log 2>&1 || { tail /libmeg/log; exit 1; }'
  try_tools debs /usr/bin
  for file in man/man1/preprocess_data.1.gz bash-completion/completions/meg zsh/vendor-completions/_meg \
    doc/libmeg-tools/copyright; do
    [ -s "$roots/debs/usr/share/$file" ] || die "/usr/share/$file is missing"
  done
  step "Debian 12: libmeg-dev"
  inside debs root 'apt-get -qq install -y --no-install-recommends /libmeg/artifacts/libmeg-dev_*.deb g++ pkg-config \
    >/libmeg/log 2>&1 || { tail /libmeg/log; exit 1; }'
  inside debs nobody 'g++ -std=c++20 /libmeg/examples/list_parameters.cpp $(pkg-config --cflags --libs libmeg) \
    -o /libmeg/out/list && /libmeg/out/list /libmeg/checkpoint | head -n 2'
  if compgen -G "$artifacts/libmeg-train_*.deb" >/dev/null; then
    step "Debian 12: libmeg-train"
    inside debs root 'apt-get -qq install -y --no-install-recommends /libmeg/artifacts/libmeg-train_*.deb python3 \
      >/libmeg/log 2>&1 || { tail /libmeg/log; exit 1; }'
    inside debs nobody '! pretrain_gpt --version' 2>&1 | tee "$roots/said"
    grep -q 'expected LibTorch .*, found none: install it with' "$roots/said" || die "expected a word on LibTorch"
    if [ -d "$packages/torch" ]; then
      torch=/site-packages/torch try_training debs /usr/share/libmeg/megatron/pretrain_gpt.py
    fi
  fi
  step "Debian 12: removed"
  installed="$(inside debs root 'dpkg-query -W -f "\${Package} " "libmeg*"')"
  inside debs root "apt-get -qq purge -y $installed >/dev/null 2>&1"
  if find "$roots/debs/usr" "$roots/debs/etc" "$roots/debs/var/lib/dpkg" -name '*libmeg*' | grep .; then
    die "these files are left"
  fi
}

# What -DMEG_BUNDLE_TORCH=ON adds to a prefix, used after the prefix was moved. Debian's libraries are there from the packages.
test_bundle() {
  local build="${MEG_BUILD:-$root/build/packages}" bundled component
  if [ ! -e "$build/CMakeCache.txt" ] || [ ! -d "$packages/torch" ]; then return; fi
  step "Debian 12: a prefix with LibTorch inside"
  cmake -S "$root" -B "$build" -DMEG_BUNDLE_TORCH=ON >/dev/null
  mkdir -p "$roots/debs/srv/made"
  for component in tools train; do
    cmake --install "$build" --prefix "$roots/debs/srv/made/bundled" --component "$component" --strip >/dev/null
  done
  cmake -S "$root" -B "$build" -DMEG_BUNDLE_TORCH=OFF >/dev/null
  mv "$roots/debs/srv/made/bundled" "$roots/debs/srv/moved"
  bundled="$(inside debs nobody '/srv/moved/bin/pretrain_gpt --version')"
  printf '%s\n' "$bundled"
  grep -q 'LibTorch 2\.' <<<"$bundled" || die "expected LibTorch in the prefix"
  try_training debs /srv/moved/bin/pretrain_gpt
  rm -rf "$roots/debs/srv/moved"
}

test_tarball() {
  step "Debian 13: the tarball"
  fresh trixie tarball
  inside tarball root 'mkdir -p /srv/any && tar -C /srv/any --strip-components 1 -xf /libmeg/artifacts/libmeg-*.tar.gz'
  try_tools tarball /srv/any/bin
  inside tarball nobody 'ldd /srv/any/bin/* /srv/any/libexec/libmeg/* /srv/any/lib/libmeg/libmeg_s3_module.so 2>/dev/null' |
    sed -n 's/.* => \([^ ]*\).*/\1/p' | grep -vE '^(/srv/any/|/lib/x86_64-linux-gnu/lib(c|m|resolv|dl|rt|pthread|gcc_s|stdc\+\+)\.)' |
    grep . && die "these libraries are not the tarball's"
  return 0
}

test_debs
test_bundle
test_tarball
printf '\npackages: passed\n'
