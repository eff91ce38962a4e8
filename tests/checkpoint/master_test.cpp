// Weights beside their fp32 masters: which ones a converter takes for the rounded masters.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "libmeg/base/float_convert.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/flat_parameters.h"

namespace meg::checkpoint {
namespace {

using Bytes = std::vector<std::byte>;

Bytes converted(DType from, std::span<const std::byte> source, DType to) {
  const size_t count = source.size() / static_cast<size_t>(dtype_size(from));
  Bytes target(count * static_cast<size_t>(dtype_size(to)));
  EXPECT_TRUE(convert_floats(from, source, to, target).ok());
  return target;
}

Bytes rounded(const std::vector<float>& masters, DType to) {
  return converted(DType::kFloat32, std::as_bytes(std::span(masters)), to);
}

bool are_masters(const std::vector<float>& masters, DType dtype, const Bytes& weights) {
  const auto source = memory_source(DType::kFloat32, std::as_bytes(std::span(masters)));
  const Result<bool> fits = is_master_of(*source, *memory_source(dtype, weights));
  EXPECT_TRUE(fits.has_value()) << fits.status().message();
  return fits.has_value() && *fits;
}

std::vector<float> random_masters() {
  std::mt19937 random(1);
  std::normal_distribution<float> values(0, 0.02F);
  std::vector<float> masters(1000);
  for (float& master : masters) master = values(random);
  return masters;
}

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

TEST(Masters, FitWeightsOfEveryType) {
  for (const DType type : kTypes) {
    EXPECT_TRUE(are_masters(random_masters(), type, rounded(random_masters(), type)));
  }
}

TEST(Masters, FitWeightsThatWereConvertedToAnotherTypeSince) {
  // As --target-params-dtype converts the weights of a bf16 or fp16 run.
  for (const DType before : {DType::kBFloat16, DType::kFloat16}) {
    const Bytes weights = rounded(random_masters(), before);
    for (const DType type : kTypes) {
      EXPECT_TRUE(are_masters(random_masters(), type, converted(before, weights, type)))
          << dtype_name(before) << " " << dtype_name(type);
    }
  }
}

TEST(Masters, FitWeightsThatWereRoundedAwayFromZero) {
  // Half way between the bf16 numbers 1 and 1 + 2^-7.
  const std::vector<float> masters(50, 1 + 1 / 256.0F);
  const std::vector<float> up(50, 1 + 1 / 128.0F);
  EXPECT_TRUE(are_masters(masters, DType::kBFloat16, rounded(up, DType::kBFloat16)));
  const std::vector<float> above(50, 1 + 1 / 64.0F);
  EXPECT_FALSE(are_masters(masters, DType::kBFloat16, rounded(above, DType::kBFloat16)));
}

TEST(Masters, FitNansOfAnyKind) {
  const std::vector<float> masters(20, std::numeric_limits<float>::quiet_NaN());
  const std::vector<float> other(20, -std::nanf("7"));
  EXPECT_TRUE(are_masters(masters, DType::kFloat16, rounded(other, DType::kFloat16)));
  EXPECT_FALSE(are_masters(masters, DType::kFloat16, rounded(random_masters(), DType::kFloat16)));
}

TEST(Masters, DoNotFitWeightsAtOtherPlaces) {
  const std::vector<float> masters = random_masters();
  for (const DType type : kTypes) {
    for (const size_t shift : {size_t{1}, size_t{64}, size_t{500}}) {
      std::vector<float> moved(masters);
      std::rotate(moved.begin(), moved.begin() + static_cast<std::ptrdiff_t>(shift), moved.end());
      EXPECT_FALSE(are_masters(masters, type, rounded(moved, type))) << shift;
    }
  }
}

TEST(Masters, DoNotFitWeightsThatWereEdited) {
  const std::vector<float> masters = random_masters();
  for (const size_t place : {size_t{0}, size_t{500}, size_t{999}}) {
    std::vector<float> edited(masters);
    edited[place] *= 1.02F;  // several steps of bf16
    EXPECT_FALSE(are_masters(masters, DType::kBFloat16, rounded(edited, DType::kBFloat16)))
        << place;
  }
}

}  // namespace
}  // namespace meg::checkpoint
