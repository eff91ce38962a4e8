#include "libmeg/base/bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace meg {
namespace {

TEST(ByteReader, ReadsLittleEndianFieldsInOrder) {
  const std::array<uint8_t, 6> raw = {0x01, 0x34, 0x12, 0xff, 0xff, 0xff};
  ByteReader reader(std::as_bytes(std::span(raw)), "f");
  EXPECT_EQ(*reader.read<uint8_t>("a"), 1);
  EXPECT_EQ(*reader.read<uint16_t>("b"), 0x1234);
  EXPECT_EQ(reader.position(), 3u);
  EXPECT_EQ(reader.remaining(), 3u);
}

TEST(ByteReader, RefusesToReadPastTheEnd) {
  const std::array<uint8_t, 3> raw = {1, 2, 3};
  ByteReader reader(std::as_bytes(std::span(raw)), "file.idx");
  const auto value = reader.read<uint32_t>("version");
  ASSERT_FALSE(value.has_value());
  EXPECT_EQ(value.error().code(), StatusCode::kCorruption);
  EXPECT_EQ(value.error().message(), "file.idx: byte 0: version: expected 4 bytes, found 3");
  EXPECT_FALSE(reader.read_bytes(std::numeric_limits<uint64_t>::max(), "huge").has_value());
}

TEST(CheckedArithmetic, SaysWhenAResultDoesNotFit) {
  uint64_t result = 0;
  EXPECT_TRUE(checked_multiply(1u << 31, 1u << 31, &result));
  EXPECT_EQ(result, uint64_t{1} << 62);
  EXPECT_FALSE(checked_multiply(uint64_t{1} << 32, uint64_t{1} << 32, &result));
  EXPECT_FALSE(checked_add(std::numeric_limits<uint64_t>::max(), 1, &result));
}

}  // namespace
}  // namespace meg
