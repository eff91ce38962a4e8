#include "libmeg/checkpoint/convert/virtual_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "libmeg/checkpoint/state/converted_source.h"
#include "tests/temp_folder.h"

namespace meg::checkpoint {
namespace {

std::string read(const VirtualFile& file, uint64_t offset, size_t bytes) {
  std::string text(bytes, '?');
  EXPECT_TRUE(file.read(offset, std::as_writable_bytes(std::span(text))).ok());
  return text;
}

TEST(VirtualFileTest, ReadsAnyRangeOfWholeAndConvertedElements) {
  const std::vector<float> floats = {1, -2.5, 3, 0.25, 1e30F};
  const auto source = memory_source(DType::kFloat32, std::as_bytes(std::span(floats)));
  const auto brain = converted(source, DType::kBFloat16);
  const VirtualFile file("x", {{.offset = 7, .source = source},
                               {.offset = 0, .source = text_source("header!")},
                               {.offset = 27, .source = text_source("")},
                               {.offset = 27, .source = brain}});
  std::string expected = "header!";
  expected.append(reinterpret_cast<const char*>(floats.data()), 20);
  for (const float value : floats) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    // 1e30 alone is not exact, and is rounded to the nearest.
    bits += value == 1e30F ? 0x8000 : 0;
    expected += {static_cast<char>(bits >> 16), static_cast<char>(bits >> 24)};
  }
  ASSERT_EQ(file.size(), expected.size());
  ASSERT_EQ(file.parts().size(), 3);
  for (size_t offset = 0; offset <= expected.size(); ++offset) {
    for (size_t bytes = 0; offset + bytes <= expected.size(); ++bytes) {
      EXPECT_EQ(read(file, offset, bytes), expected.substr(offset, bytes))
          << offset << " " << bytes;
    }
  }
}

TEST(VirtualFileTest, ACopyOfAFileThatWasReplacedIsAnError) {
  const test::TempFolder folder;
  std::ofstream(folder.path("a")) << "text";
  const auto file = copied_file("a", folder.path("a"));
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(read(*file, 1, 2), "ex");
  std::ofstream(folder.path("a")) << "t";
  std::vector<std::byte> into(4);
  EXPECT_FALSE(file->read(0, into).ok());
}

TEST(VirtualFileTest, AnEmptyFileHasNoParts) {
  const VirtualFile file = text_file("x", "");
  EXPECT_EQ(file.size(), 0);
  EXPECT_TRUE(file.parts_of(0, 100).empty());
}

}  // namespace
}  // namespace meg::checkpoint
