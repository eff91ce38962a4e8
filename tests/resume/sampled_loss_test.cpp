// The loss of a batch as some of its sequences tell it: how far it may be from that of all.

#include "libmeg/resume/sampled_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

namespace meg::resume {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using train::SampleLoss;

/// Sequences of 100 tokens with these mean losses.
std::vector<SampleLoss> sequences(const std::vector<double>& means) {
  std::vector<SampleLoss> losses;
  for (const double mean : means) losses.push_back({.loss_sum = 100 * mean, .tokens = 100});
  return losses;
}

TEST(SampledLoss, TheStandardErrorIsThatOfDrawsWithoutRepetition) {
  // numpy.std([2, 5, 4, 9], ddof=1) * sqrt((1 - 4 / 10) / 4)
  const SampledLoss sampled = sampled_loss(sequences({2, 5, 4, 9}), 10);
  EXPECT_DOUBLE_EQ(sampled.mean, 5);
  EXPECT_NEAR(sampled.standard_error, 1.1401754250991380, 1e-12);
  // Of the density, integrated by Simpson's rule.
  EXPECT_NEAR(sampled.margin / sampled.standard_error, 28.000130, 1e-4);
}

TEST(SampledLoss, StudentsQuantilesAreThoseOfTables) {
  // Two by their closed forms, two of the density, integrated by Simpson's rule.
  for (const auto& [count, quantile] : std::vector<std::pair<size_t, double>>{
           {2, 6366.1977}, {3, 99.9925}, {8, 7.8846}, {16, 5.2391}}) {
    std::vector<double> means(count, 1);
    means[0] = 9;
    const SampledLoss sampled = sampled_loss(sequences(means), 1000);
    EXPECT_NEAR(sampled.margin / sampled.standard_error / quantile, 1, 1e-5) << count;
  }
}

TEST(SampledLoss, AWholeBatchHasNoError) {
  const SampledLoss sampled = sampled_loss(sequences({2, 5, 5}), 3);
  EXPECT_DOUBLE_EQ(sampled.mean, 4);
  EXPECT_EQ(sampled.standard_error, 0);
  EXPECT_EQ(sampled.margin, 0);
  EXPECT_EQ(sampled_loss(sequences({3}), 1).margin, 0);
}

TEST(SampledLoss, SequencesCountByTheirTokens) {
  const std::vector<SampleLoss> losses = {{.loss_sum = 20, .tokens = 10},
                                          {.loss_sum = 160, .tokens = 40}};
  EXPECT_DOUBLE_EQ(sampled_loss(losses, 8).mean, 3.6);
  // Each as far from the mean as its tokens allow: 20 - 36 and 160 - 144.
  EXPECT_NEAR(sampled_loss(losses, 8).standard_error,
              std::sqrt(0.75 / 2) * std::sqrt(2.0 * 16 * 16) / 25, 1e-12);
}

TEST(SampledLoss, SequencesThatAreAlikeByChanceAreNotTrusted) {
  const SampledLoss sampled = sampled_loss(sequences({3, 3, 3, 3}), 400);
  EXPECT_EQ(sampled.standard_error, 0);
  EXPECT_NEAR(sampled.margin, 3.8906 * 0.2 * 3 * std::sqrt(0.99 / 4), 1e-9);
}

/// How many of 10,000 healthy batches a comparison would take for wrong.
int64_t wrong_of(const std::function<double(std::mt19937_64&)>& draw, int64_t count,
                 int64_t batch_size) {
  std::mt19937_64 generator(1);
  int64_t wrong = 0;
  for (int batch = 0; batch < 10000; ++batch) {
    std::vector<double> means;
    double sum = 0;
    for (int64_t i = 0; i < batch_size; ++i) sum += means.emplace_back(draw(generator));
    std::vector<double> chosen;
    for (const int64_t i : drawn_positions(count, batch_size, generator())) {
      chosen.push_back(means[static_cast<size_t>(i)]);
    }
    const SampledLoss sampled = sampled_loss(sequences(chosen), batch_size);
    const double whole = sum / static_cast<double>(batch_size);
    if (std::abs(sampled.mean - whole) > sampled.margin) ++wrong;
  }
  return wrong;
}

TEST(SampledLoss, HealthyBatchesAreNotTakenForWrong) {
  const auto normal = [](std::mt19937_64& generator) {
    return std::normal_distribution<>(3, 0.6)(generator);
  };
  const auto with_repetitions = [](std::mt19937_64& generator) {
    const bool repeats = std::uniform_real_distribution<>()(generator) < 0.05;
    return repeats ? std::normal_distribution<>(0.5, 0.1)(generator)
                   : std::normal_distribution<>(3, 0.3)(generator);
  };
  const auto half_code = [](std::mt19937_64& generator) {
    const bool is_code = std::uniform_real_distribution<>()(generator) < 0.5;
    return std::normal_distribution<>(is_code ? 1.2 : 2.8, 0.3)(generator);
  };
  for (const int64_t count : {4, 8, 16}) {
    EXPECT_LE(wrong_of(normal, count, 64), 4) << count;
    EXPECT_LE(wrong_of(with_repetitions, count, 64), 4) << count;
    EXPECT_LE(wrong_of(half_code, count, 64), 50) << count;
  }
}

TEST(DrawnPositions, AreOfTheBatchAscendingAndEachAsOftenAsOthers) {
  EXPECT_THAT(drawn_positions(4, 4, 7), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(drawn_positions(5, 100, 7), drawn_positions(5, 100, 7));
  EXPECT_NE(drawn_positions(5, 100, 7), drawn_positions(5, 100, 8));
  std::vector<double> times(8);
  constexpr int kDraws = 8000;
  for (int seed = 0; seed < kDraws; ++seed) {
    const std::vector<int64_t> drawn = drawn_positions(3, 8, static_cast<uint64_t>(seed));
    ASSERT_EQ(drawn.size(), 3u);
    ASSERT_TRUE(std::ranges::is_sorted(drawn));
    for (const int64_t i : drawn) times.at(static_cast<size_t>(i)) += 1;
  }
  EXPECT_THAT(times, ::testing::Each(DoubleNear(kDraws * 3 / 8.0, 150)));
}

}  // namespace
}  // namespace meg::resume
