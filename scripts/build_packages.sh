#!/usr/bin/env bash
# Builds the Debian packages (libmeg-tools, libmeg-dev and, with LibTorch, libmeg-train) and the relocatable tarball of the
# tools, which brings the libraries that it needs but glibc and libstdc++, and runs on any x86-64 Linux with glibc 2.34 and
# the libstdc++ of gcc 11 or newer. The same commit makes the same bytes.
#
#   scripts/build_packages.sh                      into build/packages/artifacts
#   MEG_WITH_TORCH=OFF scripts/build_packages.sh   without libmeg-train
#
# Needs what scripts/setup.sh --packages installs.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
build="${MEG_BUILD:-$root/build/packages}"
artifacts="$build/artifacts"
jobs="${MEG_JOBS:-$(nproc)}"
# Every file in a package is as old as the commit.
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}"
MEG_PACKAGE_DATE="$(date -u -R -d "@$SOURCE_DATE_EPOCH")"
export SOURCE_DATE_EPOCH MEG_PACKAGE_DATE
umask 022

for tool in dpkg-shlibdeps fakeroot patchelf; do
  if ! command -v "$tool" >/dev/null; then
    echo "error: $tool was not found: run scripts/setup.sh --packages" >&2
    exit 1
  fi
done

build_programs() {
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMEG_JOIN_SOURCES=ON \
    -DMEG_BUILD_TESTS=OFF -DMEG_BUILD_BENCH=OFF -DMEG_WITH_TORCH="${MEG_WITH_TORCH:-ON}" \
    -DCMAKE_INSTALL_LIBDIR=lib
  cmake --build "$build" --parallel "$jobs"
}

# CPack dates what it writes by the clock, so each package is packed again.
build_debs() {
  local deb
  (cd "$build" && cpack --config CPackConfig.cmake -B "$build/cpack")
  for deb in "$build"/cpack/*.deb; do
    rm -rf "$build/cpack/again"
    fakeroot sh -c 'dpkg-deb -R "$1" "$2/again" && dpkg-deb -Zxz --root-owner-group -b "$2/again" "$3"' \
      - "$deb" "$build/cpack" "$artifacts/$(basename "$deb")" >/dev/null
  done
}

# Copies the libraries that the files of a prefix need, but those that come with glibc and gcc, into its lib, with their
# notices.
bring_libraries() {
  local prefix="$1" path name package
  { find "$prefix/bin" "$prefix/libexec" "$prefix/lib" -type f -exec ldd {} + 2>/dev/null || true; } |
    sed -n 's/.* => \(\/[^ ]*\) (.*/\1/p' | grep -v "^$prefix" | sort -u |
    grep -vE '/(libc|libm|libdl|libpthread|librt|libresolv|ld-linux-x86-64|libgcc_s|libstdc\+\+)\.so|/lib(arrow|parquet)' |
    while read -r path; do
      name="$(basename "$path")"
      cp -L "$path" "$prefix/lib/$name"
      chmod 644 "$prefix/lib/$name"
      patchelf --set-rpath "\$ORIGIN" "$prefix/lib/$name"
      # dpkg knows libraries of /usr/lib by the name that they had in /lib, or by their own.
      path="$(readlink -f "$path")"
      package="$({ dpkg-query -S "$path" || dpkg-query -S "${path#/usr}"; } 2>/dev/null | head -n 1 | cut -d: -f1)"
      cp -L "/usr/share/doc/$package/copyright" "$prefix/share/doc/libmeg/licenses/$package.txt"
    done
}

# check_newest PREFIX NAMES VERSION: fails where a file of a prefix needs a newer glibc or libstdc++.
check_newest() {
  local newest
  newest="$({ find "$1/bin" "$1/libexec" "$1/lib" -type f -exec objdump -T {} + 2>/dev/null || true; } |
    grep -oE "\b$2_[0-9.]+" | sort -uV | tail -n 1)"
  if [ "$(printf '%s\n' "$newest" "$2_$3" | sort -V | tail -n 1)" != "$2_$3" ]; then
    echo "error: the tarball needs $newest: expected $2_$3 or older" >&2
    exit 1
  fi
}

build_tarball() {
  local version name
  version="$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")"
  name="libmeg-$version-linux-x86_64"
  rm -rf "$build/tarball"
  cmake --install "$build" --prefix "$build/tarball/$name" --component tools --strip >/dev/null
  bring_libraries "$build/tarball/$name"
  check_newest "$build/tarball/$name" GLIBC 2.34
  check_newest "$build/tarball/$name" GLIBCXX 3.4.29
  tar -C "$build/tarball" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -c "$name" |
    gzip -9n >"$artifacts/$name.tar.gz"
}

build_programs
rm -rf "$artifacts" "$build/cpack"
mkdir -p "$artifacts"
build_debs
build_tarball
ls -l "$artifacts"
