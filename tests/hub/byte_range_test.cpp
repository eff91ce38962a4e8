#include "libmeg/hub/internal/byte_range.h"

#include <gtest/gtest.h>

#include <string>

namespace meg::hub {
namespace {

/// "206 0+100", as short as it reads.
std::string read(std::string_view header, uint64_t size) {
  const RangeAnswer answer = read_range(header, size);
  std::string text = std::to_string(answer.status);
  text += " " + std::to_string(answer.range.first) + "+" + std::to_string(answer.range.count);
  return text;
}

TEST(ByteRangeTest, ReadsTheThreeForms) {
  EXPECT_EQ(read("bytes=0-99", 1000), "206 0+100");
  EXPECT_EQ(read("bytes=100-", 1000), "206 100+900");
  EXPECT_EQ(read("bytes=-100", 1000), "206 900+100");
  EXPECT_EQ(read("bytes=999-999", 1000), "206 999+1");
}

TEST(ByteRangeTest, EndsWithTheFile) {
  EXPECT_EQ(read("bytes=900-5000", 1000), "206 900+100");
  EXPECT_EQ(read("bytes=-5000", 1000), "206 0+1000");
  EXPECT_EQ(read("bytes=0-99999999999999999999999", 1000), "206 0+1000");
}

TEST(ByteRangeTest, WhatIsOutsideIsNotSatisfiable) {
  EXPECT_EQ(read("bytes=1000-", 1000), "416 0+0");
  EXPECT_EQ(read("bytes=99999999999999999999999-", 1000), "416 0+0");
  EXPECT_EQ(read("bytes=-0", 1000), "416 0+0");
  EXPECT_EQ(read("bytes=0-", 0), "416 0+0");
}

TEST(ByteRangeTest, NonsenseIsTheWholeFile) {
  for (const char* header :
       {"", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=5-4", "bytes=1-2,4-5", "lines=0-1",
        "bytes=--5", "bytes=-5-", "bytes=0x10-", "bytes=+1-", "bytes=1 - 2"}) {
    EXPECT_EQ(read(header, 1000), "200 0+1000") << header;
  }
}

}  // namespace
}  // namespace meg::hub
