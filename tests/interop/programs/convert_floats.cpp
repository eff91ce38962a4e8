// Converts the elements on stdin for convert_floats_like_torch.py: convert_floats FROM TO.

#include <cstdio>
#include <vector>

#include "libmeg/base/float_convert.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto from = meg::dtype_from_name(argv[1]);
  const auto to = meg::dtype_from_name(argv[2]);
  if (!from || !to) return 2;
  std::vector<std::byte> in(size_t{256} << 20);
  in.resize(std::fread(in.data(), 1, in.size(), stdin));
  const size_t count = in.size() / static_cast<size_t>(meg::dtype_size(*from));
  std::vector<std::byte> out(count * static_cast<size_t>(meg::dtype_size(*to)));
  const meg::Status status = meg::convert_floats(*from, in, *to, out);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 1;
  }
  return std::fwrite(out.data(), 1, out.size(), stdout) == out.size() ? 0 : 1;
}
