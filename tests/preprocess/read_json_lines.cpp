// read_json_lines: reads lines from stdin (u32 size and bytes, each) as JsonLineParser does for the
// keys "text" and "b", with every implementation. Writes to stdout for each line a byte: 0 where it
// is refused, else 1 and for each key a u32 count of texts, each a u32 size and bytes. Ends with 1
// where the implementations differ.

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>

#include "libmeg/base/bytes.h"
#include "libmeg/preprocess/sources/json_line.h"
#include "tests/text/json_readers.h"

namespace {

void write_number(size_t number) {
  const auto word = static_cast<uint32_t>(number);
  std::fwrite(&word, sizeof(word), 1, stdout);
}

void write_texts(const meg::text::TextList& texts) {
  write_number(texts.size());
  for (const std::string_view text : texts) {
    write_number(text.size());
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
}

bool readers_agree(std::string_view line) {
  for (const auto set : meg::test::instruction_sets()) {
    const std::string difference = meg::test::difference_of_readers(line, set, '"');
    if (!difference.empty()) std::fprintf(stderr, "error: %s\n", difference.c_str());
    if (!difference.empty()) return false;
  }
  return true;
}

}  // namespace

int main() {
  const std::string input(std::istreambuf_iterator<char>(std::cin), {});
  meg::preprocess::JsonLineParser parser({"text", "b"});
  for (size_t at = 0; at + 4 <= input.size();) {
    const auto size = meg::load_le<uint32_t>(input.data() + at);
    const std::string_view line = std::string_view(input).substr(at + 4, size);
    at += 4 + size;
    if (!readers_agree(line)) return 1;
    const meg::test::PaddedLine padded(line);
    const bool is_read = parser.parse(padded.view()).ok();
    std::putchar(is_read ? 1 : 0);
    for (size_t key = 0; is_read && key < 2; ++key) write_texts(parser.texts(key));
  }
  return 0;
}
