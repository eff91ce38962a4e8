// rewrite_pickles: reads pickles from stdin (u32 size and bytes, each) and writes to stdout for
// each a byte: 1 where it was read and written again, then u32 size and the new pickle, u32 size
// and the description; 0 where not, then u32 size and the error.

#include <cstdio>
#include <iostream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "libmeg/base/bytes.h"
#include "libmeg/checkpoint/container/pickle/pickle_reader.h"
#include "libmeg/checkpoint/container/pickle/pickle_writer.h"

namespace {

constexpr size_t kDescriptionLimit = 10000;

void write_bytes(std::string_view bytes) {
  const auto size = static_cast<uint32_t>(bytes.size());
  std::fwrite(&size, sizeof(size), 1, stdout);
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
}

void rewrite(std::string_view pickle) {
  meg::checkpoint::PickleGraph graph;
  const auto stream =
      meg::checkpoint::read_pickle(std::as_bytes(std::span(pickle)), "pickle", &graph);
  if (!stream) {
    std::putchar(0);
    return write_bytes(stream.error().message());
  }
  const auto written = meg::checkpoint::write_pickle(graph, stream->root);
  if (!written) {
    std::putchar(0);
    return write_bytes(written.error().message());
  }
  std::putchar(1);
  write_bytes({reinterpret_cast<const char*>(written->data()), written->size()});
  write_bytes(graph.describe(stream->root, kDescriptionLimit));
}

}  // namespace

int main() {
  const std::string input(std::istreambuf_iterator<char>(std::cin), {});
  for (size_t at = 0; at + 4 <= input.size();) {
    const auto size = meg::load_le<uint32_t>(input.data() + at);
    rewrite(std::string_view(input).substr(at + 4, size));
    at += 4 + size;
  }
  return 0;
}
