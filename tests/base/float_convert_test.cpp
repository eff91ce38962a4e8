#include "libmeg/base/float_convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "libmeg/base/float_kernels.h"

namespace meg {
namespace {

/// A 16-bit format by its definition: sign, exponent and mantissa bits.
struct Format {
  DType dtype;
  int mantissa_bits;
  int bias;

  /// The number that finite `bits` mean.
  double value(uint16_t bits) const {
    const int exponent = (bits & 0x7fff) >> mantissa_bits;
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    const double magnitude = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                           : std::ldexp(mantissa + (1 << mantissa_bits),
                                                        exponent - bias - mantissa_bits);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }

  uint16_t infinity() const { return static_cast<uint16_t>(0x7fff & ~((1 << mantissa_bits) - 1)); }

  bool is_finite(uint16_t bits) const { return (bits & 0x7fff) < infinity(); }

  bool is_nan(uint16_t bits) const { return (bits & 0x7fff) > infinity(); }

  /// The nearest value, the even one of two as near; found by halving, not by bit tricks.
  uint16_t nearest(float number) const {
    const auto sign = static_cast<uint16_t>(std::signbit(number) ? 0x8000 : 0);
    const double magnitude = std::abs(static_cast<double>(number));
    uint16_t low = 0;
    uint16_t high = infinity();  // as if it were one step past the largest finite value
    while (high - low > 1) {
      const auto middle = static_cast<uint16_t>((low + high) / 2);
      (value(middle) <= magnitude ? low : high) = middle;
    }
    const double above =
        high == infinity() ? 2 * value(low) - value(static_cast<uint16_t>(low - 1)) : value(high);
    const double to_low = magnitude - value(low);
    const double to_high = above - magnitude;
    const bool takes_high = to_high < to_low || (to_high == to_low && (low & 1) != 0);
    return static_cast<uint16_t>(sign | (takes_high ? high : low));
  }
};

constexpr Format kFloat16{DType::kFloat16, 10, 15};
constexpr Format kBFloat16{DType::kBFloat16, 7, 127};

template <class To, class From>
std::vector<To> converted(DType from_dtype, const std::vector<From>& from, DType to_dtype) {
  std::vector<To> to(from.size());
  const Status status = convert_floats(from_dtype, std::as_bytes(std::span(from)), to_dtype,
                                       std::as_writable_bytes(std::span(to)));
  EXPECT_TRUE(status.ok()) << status.message();
  return to;
}

std::vector<uint16_t> every_pattern() {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  return all;
}

/// Numbers about which rounding can go wrong: every 16-bit value, the middles between neighbours,
/// what lies one step beside these, and bits at random.
std::vector<float> hard_numbers(const Format& format) {
  std::vector<float> numbers;
  for (uint16_t bits = 0; bits < format.infinity(); ++bits) {
    const double low = format.value(bits);
    const double step = bits == 0 ? format.value(1) : low - format.value(bits - 1);
    const double high = bits + 1 == format.infinity() ? low + step : format.value(bits + 1);
    for (const double number : {low, (low + high) / 2}) {
      const auto exact = static_cast<float>(number);
      for (const float near : {exact, std::nextafterf(exact, 0), std::nextafterf(exact, 1e38f)}) {
        numbers.push_back(near);
        numbers.push_back(-near);
      }
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 300'000; ++i) {
    const auto number = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isfinite(number)) numbers.push_back(number);
  }
  numbers.push_back(std::numeric_limits<float>::infinity());
  numbers.push_back(-std::numeric_limits<float>::infinity());
  return numbers;
}

class FloatConvert : public testing::TestWithParam<Format> {};

TEST_P(FloatConvert, WidensEveryPatternExactly) {
  const auto wide = converted<float>(GetParam().dtype, every_pattern(), DType::kFloat32);
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    EXPECT_EQ(std::signbit(wide[bits]), (bits & 0x8000) != 0) << bits;
    if (GetParam().is_nan(half)) {
      EXPECT_TRUE(std::isnan(wide[bits])) << bits;
    } else if (GetParam().is_finite(half)) {
      EXPECT_EQ(static_cast<double>(wide[bits]), GetParam().value(half)) << bits;
    } else {
      EXPECT_TRUE(std::isinf(wide[bits])) << bits;
    }
  }
}

TEST_P(FloatConvert, NarrowsToNearestEven) {
  const auto numbers = hard_numbers(GetParam());
  const auto narrow = converted<uint16_t>(DType::kFloat32, numbers, GetParam().dtype);
  for (size_t i = 0; i < numbers.size(); ++i) {
    ASSERT_EQ(narrow[i], GetParam().nearest(numbers[i])) << numbers[i];
  }
}

TEST_P(FloatConvert, KeepsEveryPatternThereAndBack) {
  const auto all = every_pattern();
  const auto wide = converted<float>(GetParam().dtype, all, DType::kFloat32);
  const auto back = converted<uint16_t>(DType::kFloat32, wide, GetParam().dtype);
  const int quiet = 1 << (GetParam().mantissa_bits - 1);
  for (size_t i = 0; i < all.size(); ++i) {
    const int expected = GetParam().is_nan(all[i]) ? all[i] | quiet : all[i];
    ASSERT_EQ(back[i], expected) << i;
  }
}

TEST_P(FloatConvert, KeepsNanANan) {
  std::vector<uint32_t> nans;
  for (uint32_t payload = 1; payload < 0x00800000; payload += 977) {
    nans.push_back(0x7f800000 | payload);
    nans.push_back(0xff800000 | payload);
  }
  nans.push_back(0x7f800001);
  const auto narrow = converted<uint16_t>(DType::kFloat32, nans, GetParam().dtype);
  for (size_t i = 0; i < nans.size(); ++i) {
    EXPECT_TRUE(GetParam().is_nan(narrow[i])) << std::hex << nans[i];
    EXPECT_EQ(narrow[i] >> 15, nans[i] >> 31) << std::hex << nans[i];
  }
}

TEST_P(FloatConvert, EveryInstructionSetGivesTheSameBits) {
  std::vector<uint32_t> words(100'003);
  std::mt19937 random(2);
  for (uint32_t& word : words) word = static_cast<uint32_t>(random());
  const auto all = every_pattern();
  const bool is_half = GetParam().dtype == DType::kFloat16;
  std::vector<uint32_t> plain_wide(all.size()), wide(all.size());
  std::vector<uint16_t> plain_narrow(words.size()), narrow(words.size());
  const auto run = [&](const FloatKernels& kernels, auto& widened, auto& narrowed, size_t skip) {
    // Skipping elements tries lengths and addresses that are no multiples of a vector.
    (is_half ? kernels.widen_float16 : kernels.widen_bfloat16)(
        std::as_bytes(std::span(all)).data() + 2 * skip,
        std::as_writable_bytes(std::span(widened)).data() + 4 * skip, all.size() - skip);
    (is_half ? kernels.narrow_to_float16 : kernels.narrow_to_bfloat16)(
        std::as_bytes(std::span(words)).data() + 4 * skip,
        std::as_writable_bytes(std::span(narrowed)).data() + 2 * skip, words.size() - skip);
  };
  run(float_kernels(InstructionSet::kPortable), plain_wide, plain_narrow, 0);
  for (const auto set : {InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set > best_instruction_set()) continue;
    for (const size_t skip : {33u, 1u, 0u}) {
      run(float_kernels(set), wide, narrow, skip);
      EXPECT_TRUE(std::equal(wide.begin() + static_cast<ptrdiff_t>(skip), wide.end(),
                             plain_wide.begin() + static_cast<ptrdiff_t>(skip)))
          << instruction_set_name(set);
      EXPECT_TRUE(std::equal(narrow.begin() + static_cast<ptrdiff_t>(skip), narrow.end(),
                             plain_narrow.begin() + static_cast<ptrdiff_t>(skip)))
          << instruction_set_name(set);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, FloatConvert, testing::Values(kFloat16, kBFloat16),
                         [](const auto& instance) {
                           return std::string(dtype_name(instance.param.dtype));
                         });

TEST(FloatConvert16Bit, RoundsOnceBetweenTheTwo) {
  const auto all = every_pattern();
  const auto to_bfloat16 = converted<uint16_t>(DType::kFloat16, all, DType::kBFloat16);
  const auto to_float16 = converted<uint16_t>(DType::kBFloat16, all, DType::kFloat16);
  for (size_t i = 0; i < all.size(); ++i) {
    if (kFloat16.is_finite(all[i])) {
      EXPECT_EQ(to_bfloat16[i], kBFloat16.nearest(static_cast<float>(kFloat16.value(all[i])))) << i;
    }
    if (kBFloat16.is_finite(all[i])) {
      EXPECT_EQ(to_float16[i], kFloat16.nearest(static_cast<float>(kBFloat16.value(all[i])))) << i;
    }
    EXPECT_EQ(kFloat16.is_nan(all[i]), kBFloat16.is_nan(to_bfloat16[i])) << i;
    EXPECT_EQ(kBFloat16.is_nan(all[i]), kFloat16.is_nan(to_float16[i])) << i;
  }
}

TEST(FloatConvertTypes, CopiesEqualTypesBitForBit) {
  const std::vector<uint32_t> bits{0x7f800001, 0xffffffff, 0, 0x80000000};
  EXPECT_EQ(converted<uint32_t>(DType::kFloat32, bits, DType::kFloat32), bits);
  EXPECT_EQ(converted<uint32_t>(DType::kInt32, bits, DType::kInt32), bits);
}

TEST(FloatConvertTypes, RefusesOtherTypesAndUnequalCounts) {
  std::vector<std::byte> four(4), eight(8);
  EXPECT_EQ(convert_floats(DType::kInt32, four, DType::kFloat32, four).code(),
            StatusCode::kUnsupported);
  EXPECT_EQ(convert_floats(DType::kFloat32, four, DType::kFloat64, eight).code(),
            StatusCode::kUnsupported);
  EXPECT_EQ(convert_floats(DType::kFloat16, four, DType::kFloat32, four).code(),
            StatusCode::kInvalidArgument);
}

TEST(FloatConvertTypes, TakesNothing) {
  EXPECT_TRUE(convert_floats(DType::kFloat16, {}, DType::kFloat32, {}).ok());
}

}  // namespace
}  // namespace meg
