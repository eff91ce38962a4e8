#include "libmeg/dataset/text_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/temp_folder.h"

namespace meg {
namespace {

using Lines = std::vector<std::string>;

/// All lines in order; checks number, offset and padding of each chunk.
Lines read_lines(const std::vector<std::string>& inputs, size_t chunk_bytes) {
  auto source = TextSource::open(inputs, chunk_bytes);
  EXPECT_TRUE(source.has_value()) << source.status().message();
  Lines lines;
  TextChunk chunk;
  int64_t number = 0;
  int64_t offset = 0;
  int input = 0;
  while (true) {
    const auto more = source->next(chunk);
    EXPECT_TRUE(more.has_value()) << more.status().message();
    if (!more.has_value() || !*more) break;
    if (chunk.input != input) offset = 0;
    input = chunk.input;
    EXPECT_EQ(chunk.number, number++);
    EXPECT_EQ(chunk.offset, offset);
    offset += static_cast<int64_t>(chunk.lines.size());
    std::string_view rest = chunk.lines;
    std::string_view line;
    while (take_line(rest, line)) lines.emplace_back(line);
  }
  return lines;
}

/// Python's text mode: LF, CRLF and a lone CR end a line.
Lines split_plainly(const std::string& text) {
  Lines lines;
  std::string line;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\n' && text[i] != '\r') {
      line += text[i];
      if (i + 1 < text.size()) continue;
    }
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') ++i;
    lines.push_back(std::exchange(line, ""));
  }
  return lines;
}

TEST(TextSource, GivesTheSameLinesForEveryChunkSize) {
  const test::TempFolder folder;
  const std::string text = "a\n\nbb\r\n\r\nccc\rd\r\r\ne\n\rf\n\x85\x0b\x0c\xe2\x80\xa8g\r\n" +
                           std::string(30, 'x') + "\r\n" + std::string(25, 'y') + "\r" + "last";
  for (const std::string end : {"", "\n", "\r", "\r\n", "\n\n", "\r\r"}) {
    test::write_file(folder.path("text"), text + end);
    const Lines expected = split_plainly(text + end);
    for (size_t chunk_bytes = 1; chunk_bytes < text.size() + 5; ++chunk_bytes) {
      EXPECT_EQ(read_lines({folder.path("text")}, chunk_bytes), expected)
          << chunk_bytes << " bytes a chunk";
    }
  }
}

}  // namespace
}  // namespace meg
