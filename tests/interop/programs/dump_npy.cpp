// What NpyFile makes of a file, for npy_files_of_numpy.py: its type, shape and elements.

#include <fmt/format.h>

#include <cstdio>

#include "libmeg/numpy/npy.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto npy = meg::numpy::NpyFile::open(argv[1]);
  if (!npy.has_value()) {
    std::fprintf(stderr, "%s\n", npy.error().message().c_str());
    return 1;
  }
  const auto bytes = npy->file().bytes();
  const auto size =
      static_cast<size_t>(npy->size()) * static_cast<size_t>(meg::dtype_size(npy->dtype()));
  fmt::print("{} ({})\n", meg::dtype_name(npy->dtype()), fmt::join(npy->shape(), ","));
  return std::fwrite(bytes.last(size).data(), 1, size, stdout) == size ? 0 : 1;
}
