// Any text: its lines, read as a file and through a pipe, in chunks of any size, are those of a
// plain splitter. The input's first two bytes choose the size of chunks and how often the text is
// repeated, which makes lines longer than what the source reads at a time.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/io/byte_stream.h"
#include "libmeg/preprocess/sources/internal/text_source.h"
#include "libmeg/text/line_ends.h"
#include "tests/fuzz/fuzz_check.h"
#include "tests/text/plain_lines.h"

namespace {

constexpr size_t kPipeBytes = 60000;  // fit into a pipe without a reader

std::string path_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

/// Compressed inputs and arrays have other lines, or none.
bool has_lines(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return meg::io::compression_of(text) == meg::io::Compression::kNone &&
         (first == text.npos || text[first] != '[');
}

void check_lines(const std::string& path, size_t chunk_bytes,
                 const std::vector<std::string>& expected) {
  auto source = meg::preprocess::TextSource::open({path}, chunk_bytes);
  MEG_FUZZ_CHECK(source.has_value());
  meg::preprocess::TextChunk chunk;
  size_t read = 0;
  while (true) {
    const auto more = source->next(chunk);
    MEG_FUZZ_CHECK(more.has_value());
    if (!*more) break;
    std::string_view line;
    for (; meg::text::take_line(chunk.lines, line); ++read) {
      MEG_FUZZ_CHECK(read < expected.size() && line == expected[read]);
    }
  }
  MEG_FUZZ_CHECK(read == expected.size());
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(fd, text.data(), text.size());
    MEG_FUZZ_CHECK(wrote > 0);
    text.remove_prefix(static_cast<size_t>(wrote));
  }
}

void check_file(std::string_view text, size_t chunk_bytes,
                const std::vector<std::string>& expected) {
  const int fd = ::memfd_create("text", MFD_CLOEXEC);
  MEG_FUZZ_CHECK(fd >= 0);
  write_all(fd, text);
  check_lines(path_of(fd), chunk_bytes, expected);
  ::close(fd);
}

void check_pipe(std::string_view text, size_t chunk_bytes,
                const std::vector<std::string>& expected) {
  int ends[2];
  MEG_FUZZ_CHECK(::pipe(ends) == 0);
  write_all(ends[1], text);
  ::close(ends[1]);
  check_lines(path_of(ends[0]), chunk_bytes, expected);
  ::close(ends[0]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view once(reinterpret_cast<const char*>(data) + 2, size - 2);
  // Few large texts: most of what there is to find shows itself in small ones.
  const size_t times = data[1] < 250 ? 1 : size_t{1} << (data[1] - 245);
  std::string text;
  for (size_t i = 0; i < times && text.size() + once.size() <= kPipeBytes; ++i) text += once;
  if (!has_lines(text)) return 0;
  const size_t asked = data[0] < 200 ? data[0] + 1u : size_t{1} << (data[0] - 200) % 17;
  const size_t chunk_bytes = std::max(asked, text.size() / 40);  // few reads
  const std::vector<std::string> expected = meg::test::plain_lines(text);
  check_file(text, chunk_bytes, expected);
  check_pipe(text, chunk_bytes, expected);
  return 0;
}
