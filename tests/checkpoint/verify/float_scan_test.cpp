#include "libmeg/checkpoint/verify/internal/float_scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "libmeg/base/float_convert.h"

namespace meg::checkpoint {
namespace {

/// Every bit pattern of a 16-bit type, in ascending order.
std::vector<std::byte> all_patterns() {
  std::vector<std::byte> bytes(size_t{2} << 16);
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    std::memcpy(bytes.data() + 2 * size_t{i}, &bits, 2);
  }
  return bytes;
}

TEST(FloatScan, JudgesEveryPatternOfSixteenBitTypesAsFloat32Does) {
  const std::vector<std::byte> patterns = all_patterns();
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    std::vector<float> floats(65536);
    ASSERT_TRUE(
        convert_floats(dtype, patterns, DType::kFloat32, std::as_writable_bytes(std::span(floats)))
            .ok());
    for (size_t i = 0; i < floats.size(); ++i) {
      FloatScan scan;
      scan_floats(dtype, std::span(patterns).subspan(2 * i, 2), 0, true, &scan);
      ASSERT_EQ(scan.not_finite, std::isfinite(floats[i]) ? 0 : 1) << i;
      ASSERT_EQ(scan.negative, std::isfinite(floats[i]) && floats[i] < 0 ? 1 : 0) << i;
    }
  }
}

TEST(FloatScan, FindsTheFirstAmongManyBlocks) {
  std::vector<float> values(5000, 0.5f);
  values[1500] = -0.0f;
  values[2047] = -1;
  values[2048] = std::numeric_limits<float>::quiet_NaN();
  values[2049] = -std::numeric_limits<float>::infinity();
  values[4999] = -2;
  FloatScan scan;
  scan_floats(DType::kFloat32, std::as_bytes(std::span(values)), 100, true, &scan);
  EXPECT_EQ(scan.not_finite, 2);
  EXPECT_EQ(scan.first_not_finite, 2148);
  EXPECT_EQ(scan.negative, 2);
  EXPECT_EQ(scan.first_negative, 2147);
}

TEST(FloatScan, LeavesNegativeValuesAloneWhereTheyAreFine) {
  const std::vector<float> values = {1, -1, std::numeric_limits<float>::infinity(), -2};
  FloatScan scan;
  scan_floats(DType::kFloat32, std::as_bytes(std::span(values)), 0, false, &scan);
  EXPECT_EQ(scan.not_finite, 1);
  EXPECT_EQ(scan.negative, 0);
}

TEST(FloatScan, AddsWhatFollows) {
  FloatScan scan;
  scan.add({.not_finite = 1, .first_not_finite = 7});
  scan.add({.not_finite = 2, .first_not_finite = 9, .negative = 3, .first_negative = 8});
  EXPECT_EQ(scan.not_finite, 3);
  EXPECT_EQ(scan.first_not_finite, 7);
  EXPECT_EQ(scan.first_negative, 8);
}

TEST(FloatScan, KnowsFloat64AndFloat8) {
  const double doubles[] = {1, std::nan(""), -3};
  FloatScan scan;
  scan_floats(DType::kFloat64, std::as_bytes(std::span(doubles)), 0, true, &scan);
  EXPECT_EQ(scan.first_not_finite, 1);
  EXPECT_EQ(scan.first_negative, 2);
  int64_t e4m3fn = 0;
  int64_t e5m2 = 0;
  for (int i = 0; i < 256; ++i) {
    const auto pattern = static_cast<std::byte>(i);
    FloatScan one;
    scan_floats(DType::kFloat8E4m3fn, std::span(&pattern, 1), 0, true, &one);
    e4m3fn += one.not_finite;
    EXPECT_EQ(one.not_finite == 1, !std::isfinite(widened_element(DType::kFloat8E4m3fn, &pattern)));
    FloatScan other;
    scan_floats(DType::kFloat8E5m2, std::span(&pattern, 1), 0, true, &other);
    e5m2 += other.not_finite;
    EXPECT_EQ(other.not_finite == 1, !std::isfinite(widened_element(DType::kFloat8E5m2, &pattern)));
  }
  EXPECT_EQ(e4m3fn, 2);
  EXPECT_EQ(e5m2, 8);
}

TEST(ElementText, TellsValuesFromTheirNeighbours) {
  const float tenth = 0.1f;
  EXPECT_EQ(element_text(DType::kFloat32, reinterpret_cast<const std::byte*>(&tenth)), "0.1");
  const uint16_t half = 0x3800;
  EXPECT_EQ(element_text(DType::kFloat16, reinterpret_cast<const std::byte*>(&half)), "0.5");
  const int64_t number = -5;
  EXPECT_EQ(element_text(DType::kInt64, reinterpret_cast<const std::byte*>(&number)), "-5");
  const auto largest = static_cast<std::byte>(0x7E);
  EXPECT_EQ(element_text(DType::kFloat8E4m3fn, &largest), "448");
}

}  // namespace
}  // namespace meg::checkpoint
