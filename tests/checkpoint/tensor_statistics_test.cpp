#include "libmeg/checkpoint/inspect/tensor_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "libmeg/checkpoint/inspect/internal/statistics_kernels.h"

namespace meg::checkpoint {
namespace {

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Numbers with NaN, both infinities, zeros of both signs and subnormals among them.
std::vector<float> odd_floats(size_t count) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.5F, 100);
  const std::vector<float> odd = {kNan, -kNan, kInf, -kInf, 0.0F, -0.0F, 1e-42F, 3e38F};
  std::vector<float> values(count);
  for (float& value : values) {
    value = random() % 16 == 0 ? odd[random() % odd.size()] : normal(random);
  }
  return values;
}

TEST(TensorStatistics, CountsNonFiniteElementsSeparately) {
  const auto found =
      tensor_statistics(DType::kFloat32, bytes_of<float>({3, kNan, -kInf, -4, 0, -0.0F, kInf}));
  EXPECT_EQ(found.elements, 7);
  EXPECT_EQ(found.nan, 1);
  EXPECT_EQ(found.infinite, 2);
  EXPECT_EQ(found.zero, 2);
  EXPECT_EQ(found.min, -4);
  EXPECT_EQ(found.max, 3);
  EXPECT_EQ(found.mean(), -0.25);
  EXPECT_EQ(found.norm(), 5);
  EXPECT_EQ(found.rms(), 2.5);
  EXPECT_DOUBLE_EQ(found.zero_fraction(), 2.0 / 7);
}

TEST(TensorStatistics, HasNoMeanWithoutFiniteElements) {
  for (const auto& values : {std::vector<float>{}, std::vector<float>{kNan, kInf}}) {
    const auto found = tensor_statistics(DType::kFloat32, bytes_of(values));
    EXPECT_TRUE(std::isnan(found.mean()));
    EXPECT_TRUE(std::isinf(found.min));
    EXPECT_EQ(found.norm(), 0);
    EXPECT_EQ(found.rms(), 0);
  }
}

template <class T>
void expect_integers(DType dtype) {
  const std::vector<T> values = {T(0), T(5), std::numeric_limits<T>::max(),
                                 std::numeric_limits<T>::min(), T(1)};
  const auto found = tensor_statistics(dtype, bytes_of(values));
  EXPECT_EQ(found.elements, 5);
  EXPECT_EQ(found.min, static_cast<double>(std::numeric_limits<T>::min())) << dtype_name(dtype);
  EXPECT_EQ(found.max, static_cast<double>(std::numeric_limits<T>::max())) << dtype_name(dtype);
  EXPECT_EQ(found.nan + found.infinite, 0);
  EXPECT_EQ(found.zero, std::is_signed_v<T> ? 1 : 2);
}

TEST(TensorStatistics, ReadsEveryIntegerType) {
  expect_integers<uint8_t>(DType::kUint8);
  expect_integers<int8_t>(DType::kInt8);
  expect_integers<uint16_t>(DType::kUint16);
  expect_integers<int16_t>(DType::kInt16);
  expect_integers<uint32_t>(DType::kUint32);
  expect_integers<int32_t>(DType::kInt32);
  expect_integers<uint64_t>(DType::kUint64);
  expect_integers<int64_t>(DType::kInt64);
}

TEST(TensorStatistics, CountsTrueAsOne) {
  const auto found = tensor_statistics(DType::kBool, bytes_of<uint8_t>({0, 1, 255, 0}));
  EXPECT_EQ(found.mean(), 0.5);
  EXPECT_EQ(found.zero, 2);
  EXPECT_EQ(found.max, 1);
}

TEST(TensorStatistics, WidensHalves) {
  // 1, -2, largest finite, smallest subnormal, infinity, NaN.
  const auto fp16 = tensor_statistics(
      DType::kFloat16, bytes_of<uint16_t>({0x3c00, 0xc000, 0x7bff, 0x0001, 0x7c00, 0x7e01}));
  EXPECT_EQ(fp16.min, -2);
  EXPECT_EQ(fp16.max, 65504);
  EXPECT_EQ(fp16.infinite, 1);
  EXPECT_EQ(fp16.nan, 1);
  EXPECT_EQ(fp16.sum, 1 - 2 + 65504 + 0x1p-24);
  const auto bf16 = tensor_statistics(DType::kBFloat16,
                                      bytes_of<uint16_t>({0x3f80, 0xc000, 0x7f80, 0x7fc0, 0x8000}));
  EXPECT_EQ(bf16.sum, -1);
  EXPECT_EQ(bf16.infinite, 1);
  EXPECT_EQ(bf16.nan, 1);
  EXPECT_EQ(bf16.zero, 1);
}

TEST(TensorStatistics, WidensEightBitFloats) {
  // e4m3fn: 1, -448 (largest), 2^-9 (smallest), both NaN; it has no infinity.
  const auto e4m3 =
      tensor_statistics(DType::kFloat8E4m3fn, bytes_of<uint8_t>({0x38, 0xfe, 0x01, 0x7f, 0xff}));
  EXPECT_EQ(e4m3.sum, 1 - 448 + 0x1p-9);
  EXPECT_EQ(e4m3.nan, 2);
  EXPECT_EQ(e4m3.infinite, 0);
  // e5m2: 1, -57344 (largest), 2^-16 (smallest), both infinities, NaN.
  const auto e5m2 = tensor_statistics(DType::kFloat8E5m2,
                                      bytes_of<uint8_t>({0x3c, 0xfb, 0x01, 0x7c, 0xfc, 0x7d}));
  EXPECT_EQ(e5m2.sum, 1 - 57344 + 0x1p-16);
  EXPECT_EQ(e5m2.nan, 1);
  EXPECT_EQ(e5m2.infinite, 2);
}

TEST(TensorStatistics, TakesComplexNumbersApart) {
  const auto found = tensor_statistics(DType::kComplex64, bytes_of<float>({3, -4, kNan, 0}));
  EXPECT_EQ(found.elements, 4);
  EXPECT_EQ(found.norm(), 5);
  EXPECT_EQ(found.nan, 1);
}

void expect_equal(const StatisticsTotals& a, const StatisticsTotals& b) {
  EXPECT_EQ(a.sum, b.sum);
  EXPECT_EQ(a.squares, b.squares);
  EXPECT_EQ(a.min, b.min);
  EXPECT_EQ(a.max, b.max);
  EXPECT_EQ(a.nan, b.nan);
  EXPECT_EQ(a.infinite, b.infinite);
  EXPECT_EQ(a.zero, b.zero);
}

TEST(StatisticsKernels, AllGiveWhatThePortableOneGives) {
  const std::vector<float> floats = odd_floats(5000);
  const std::vector<double> doubles(floats.begin(), floats.end());
  const StatisticsKernels& best = statistics_kernels(best_instruction_set());
  for (const size_t count : {0UL, 1UL, 7UL, 8UL, 9UL, 4096UL, 4999UL}) {
    StatisticsTotals expected, found;
    kPortableStatisticsKernels.add_floats(floats.data() + 1, count, expected);
    best.add_floats(floats.data() + 1, count, found);
    expect_equal(expected, found);
    expected = found = {};
    kPortableStatisticsKernels.add_doubles(doubles.data() + 1, count, expected);
    best.add_doubles(doubles.data() + 1, count, found);
    expect_equal(expected, found);
  }
}

/// A source over floats in memory.
StatisticsSource source_of(const std::vector<float>& values) {
  return {"x", DType::kFloat32, static_cast<int64_t>(values.size()),
          [&values](int64_t first, std::span<std::byte> into) {
            std::memcpy(into.data(), values.data() + first, into.size());
            return Status();
          }};
}

TEST(TensorStatistics, DoNotDependOnTheNumberOfThreads) {
  const std::vector<float> a = odd_floats(1'000'003), b = odd_floats(17), none;
  const std::vector<StatisticsSource> sources = {source_of(a), source_of(none), source_of(b)};
  const auto one = tensor_statistics(sources, 1);
  ASSERT_TRUE(one.has_value());
  for (const int workers : {2, 3, 8}) {
    const auto many = tensor_statistics(sources, workers);
    ASSERT_TRUE(many.has_value());
    for (size_t i = 0; i < sources.size(); ++i) {
      EXPECT_EQ((*many)[i].sum, (*one)[i].sum);
      EXPECT_EQ((*many)[i].sum_of_squares, (*one)[i].sum_of_squares);
      EXPECT_EQ((*many)[i].nan, (*one)[i].nan);
    }
  }
  EXPECT_EQ((*one)[0].elements, 1'000'003);
  EXPECT_EQ((*one)[1].elements, 0);
  double sum = 0;
  for (const float x : a) sum += std::isfinite(x) ? static_cast<double>(x) : 0;
  EXPECT_NEAR((*one)[0].sum, sum, 1e-9 * std::abs(sum));
}

TEST(TensorStatistics, NameTheTensorThatCannotBeRead) {
  StatisticsSource source{"bad", DType::kFloat32, 10, [](int64_t, std::span<std::byte>) {
                            return Status(StatusCode::kIoError, "gone");
                          }};
  const auto found = tensor_statistics(std::span(&source, 1), 2);
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().message(), "bad: gone");
}

TEST(TensorStatistics, StopWhenTheCallerAsks) {
  const std::vector<float> values(1'000'000, 1.0F);
  const StatisticsSource source = source_of(values);
  const auto found =
      tensor_statistics(std::span(&source, 1), 2, [](const Progress&) { return false; });
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace meg::checkpoint
