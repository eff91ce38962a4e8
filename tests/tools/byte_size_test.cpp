#include "tools/common/byte_size.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/temp_folder.h"

namespace meg::tools {
namespace {

TEST(ByteSize, IsParsedByUnit) {
  EXPECT_EQ(parse_byte_size("512MiB").value(), 512 << 20);
  EXPECT_EQ(parse_byte_size("512M").value(), 512 << 20);
  EXPECT_EQ(parse_byte_size("512MB").value(), 512'000'000);
  EXPECT_EQ(parse_byte_size("1.5gib").value(), 3 << 29);
  EXPECT_EQ(parse_byte_size("7").value(), 7);
  for (const char* text : {"", "MiB", "-1", "1.2.3", "5 parsecs", "1e3", "10000000TiB"}) {
    EXPECT_FALSE(parse_byte_size(text).has_value()) << text;
  }
}

TEST(ByteSize, IsWrittenWithThreeDigits) {
  EXPECT_EQ(byte_size_text(999), "999 bytes");
  EXPECT_EQ(byte_size_text(1000), "1.00 kB");
  EXPECT_EQ(byte_size_text(14'150), "14.2 kB");
  EXPECT_EQ(byte_size_text(999'499), "999 kB");
  EXPECT_EQ(byte_size_text(999'500), "1.00 MB");
  EXPECT_EQ(byte_size_text(1'420'000'000), "1.42 GB");
}

TEST(WrittenText, HasTheSizeOfAllFiles) {
  const test::TempFolder folder;
  const std::vector<std::string> files = {folder.path("a"), folder.path("b")};
  test::write_file(files[0], std::string(1000, 'x'));
  test::write_file(files[1], std::string(500, 'x'));
  EXPECT_EQ(written_text("both", files), "wrote both (1.50 kB)");
}

TEST(WrittenText, HasNoSizeWhereThereIsNone) {
  const std::string device = "/dev/null";
  EXPECT_EQ(written_text(device, {&device, 1}), "wrote /dev/null");
}

}  // namespace
}  // namespace meg::tools
