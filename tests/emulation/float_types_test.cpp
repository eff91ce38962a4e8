#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/kernels/float_array.h"

// The 16-bit types of the emulation beside libmeg's own conversions.

namespace meg::emulation {
namespace {

using kernels::FloatType;
using test::FloatArray;

/// Every number of 16 bits.
std::vector<uint16_t> all_bits() {
  std::vector<uint16_t> all(1 << 16);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  return all;
}

void expect_same(float found, float wanted, size_t i) {
  if (std::isnan(wanted)) {
    EXPECT_TRUE(std::isnan(found)) << i;
  } else {
    EXPECT_EQ(std::bit_cast<uint32_t>(found), std::bit_cast<uint32_t>(wanted)) << i;
  }
}

std::vector<float> widened(kernels::FloatType type) {
  FloatArray array(type, std::vector<float>(1 << 16));
  std::memcpy(array.data(), all_bits().data(), array.size_bytes());
  return array.floats();
}

TEST(FloatTypesTest, WidenAsLibmegDoes) {
  const auto halves = widened(kernels::FloatType::kFloat16),
             bfloats = widened(kernels::FloatType::kBFloat16);
  for (const uint16_t bits : all_bits()) {
    expect_same(__half2float({bits}), halves[bits], bits);
    expect_same(__bfloat162float({bits}), bfloats[bits], bits);
  }
}

/// Every 16-bit number as fp32, those halfway to the next, and the neighbours of these.
std::vector<float> hard_to_round(kernels::FloatType type) {
  std::vector<float> values;
  for (const float value : widened(type)) {
    const float next = std::nextafter(value, INFINITY);
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t half_step = type == kernels::FloatType::kFloat16 ? 1 << 12 : 1 << 15;
    const float halfway = std::bit_cast<float>(bits + half_step);
    values.insert(values.end(), {value, next, halfway, std::nextafter(halfway, INFINITY),
                                 std::nextafter(halfway, -INFINITY)});
  }
  return values;
}

template <class Narrow>
void expect_narrowed_alike(kernels::FloatType type, Narrow narrow) {
  const std::vector<float> values = hard_to_round(type);
  FloatArray wanted(type, values);
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) continue;
    uint16_t bits;
    std::memcpy(&bits, static_cast<const std::byte*>(wanted.data()) + 2 * i, sizeof(bits));
    ASSERT_EQ(narrow(values[i]).bits, bits) << values[i];
  }
}

TEST(FloatTypesTest, NarrowAsLibmegDoes) {
  expect_narrowed_alike(kernels::FloatType::kFloat16, __float2half_rn);
  expect_narrowed_alike(kernels::FloatType::kBFloat16, __float2bfloat16_rn);
}

}  // namespace
}  // namespace meg::emulation
