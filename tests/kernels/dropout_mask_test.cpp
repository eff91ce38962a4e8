#include "libmeg/kernels/dropout_mask.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace meg::kernels {
namespace {

using Words = std::array<uint32_t, 4>;

Words philox_of(const Words& counter, uint64_t key) {
  const PhiloxWords found = philox({{counter[0], counter[1], counter[2], counter[3]}}, key);
  return {found.words[0], found.words[1], found.words[2], found.words[3]};
}

// Those that the authors publish with their implementation, Random123.
TEST(DropoutMaskTest, PhiloxGivesTheKnownAnswers) {
  EXPECT_EQ(philox_of({0, 0, 0, 0}, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox_of({~0U, ~0U, ~0U, ~0U}, ~uint64_t{0}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox_of({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

std::vector<float> factors_of(const DropoutMask& mask, int64_t count) {
  const DropoutFactors factors(mask);
  std::vector<float> found;
  for (int64_t i = 0; i < count; ++i) found.push_back(factors.of_element(i));
  return found;
}

TEST(DropoutMaskTest, KeepsItsShare) {
  constexpr int64_t kCount = 100000;
  for (const double kept : {0.0, 0.1, 0.9, 1.0}) {
    int64_t found = 0;
    for (const float factor : factors_of({.kept = kept, .seed = 5, .offset = 8}, kCount)) {
      if (factor == 0) continue;
      EXPECT_FLOAT_EQ(factor, static_cast<float>(1 / kept));
      ++found;
    }
    EXPECT_NEAR(static_cast<double>(found), kept * kCount, 500);
  }
}

TEST(DropoutMaskTest, SeedAndOffsetMakeOthers) {
  const DropoutMask mask = {.kept = 0.5, .seed = 1234, .offset = 4};
  DropoutMask other_seed = mask, other_offset = mask;
  ++other_seed.seed;
  other_offset.offset += DropoutMask::kOffsets;
  EXPECT_EQ(factors_of(mask, 64), factors_of(mask, 64));
  EXPECT_NE(factors_of(mask, 64), factors_of(other_seed, 64));
  EXPECT_NE(factors_of(mask, 64), factors_of(other_offset, 64));
}

}  // namespace
}  // namespace meg::kernels
