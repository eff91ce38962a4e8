#include "libmeg/io/crc32.h"

#include <gtest/gtest.h>

#include <random>
#include <string_view>
#include <vector>

namespace meg::io {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::vector<std::byte> random_bytes(size_t count) {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(Crc32, IsThatOfZipFiles) {
  EXPECT_EQ(crc32({}), 0u);
  EXPECT_EQ(crc32(bytes_of("123456789")), 0xcbf43926u);
  EXPECT_EQ(crc32(bytes_of("little")), 0x19e33d85u);
}

TEST(Crc32, ContinuesFromTheBytesBefore) {
  const auto bytes = random_bytes(1000);
  const std::span<const std::byte> all = bytes;
  for (const size_t cut : {0, 1, 63, 64, 500, 999, 1000}) {
    EXPECT_EQ(crc32(all.subspan(cut), crc32(all.first(cut))), crc32(all)) << cut;
  }
}

TEST(Crc32, CombinesWithoutReading) {
  const auto bytes = random_bytes(1000);
  const std::span<const std::byte> all = bytes;
  for (const size_t cut : {0, 1, 63, 64, 500, 999, 1000}) {
    EXPECT_EQ(crc32_combine(crc32(all.first(cut)), crc32(all.subspan(cut)), 1000 - cut), crc32(all))
        << cut;
  }
}

TEST(Crc32, KnowsRunsOfZeros) {
  const std::vector<std::byte> zeros(100'000);
  for (const size_t count : {0, 1, 7, 64, 4096, 100'000}) {
    EXPECT_EQ(crc32_of_zeros(count), crc32(std::span(zeros).first(count))) << count;
  }
  // 5 GiB of zeros, as torch's own writer has it.
  EXPECT_EQ(crc32_of_zeros(uint64_t{5} << 30), 0x193838c3u);
}

}  // namespace
}  // namespace meg::io
