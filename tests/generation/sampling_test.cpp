#include "libmeg/generation/internal/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "libmeg/generation/internal/token_scores.h"

namespace meg::generation {
namespace {

using ::testing::HasSubstr;

std::vector<float> uneven_logits(size_t count) {
  std::vector<float> logits(count);
  for (size_t i = 0; i < count; ++i) {
    logits[i] = 3 * std::sin(static_cast<float>(i) * 1.7f + 0.3f);
  }
  return logits;
}

/// Probabilities of what may be drawn, by Megatron's definition: a sort and a running sum.
std::map<int32_t, double> wanted_distribution(const std::vector<float>& logits,
                                              const serving::SamplingOptions& options) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto weight = [&](int32_t id) {
    return std::exp(double{logits[static_cast<size_t>(id)]} / options.temperature);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return weight(a) > weight(b); });
  double total = 0;
  for (const int32_t id : order) total += weight(id);
  std::map<int32_t, double> kept;
  double before = 0, sum = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (options.top_k > 0 && i >= static_cast<size_t>(options.top_k)) break;
    if (options.top_p > 0 && before / total > options.top_p) break;
    kept[order[i]] = weight(order[i]);
    before += weight(order[i]);
    sum += weight(order[i]);
  }
  for (auto& [id, share] : kept) share /= sum;
  return kept;
}

void expect_distribution(const std::vector<float>& logits,
                         const serving::SamplingOptions& options) {
  constexpr int64_t kDraws = 40000;
  Sampler sampler(options);
  std::map<int32_t, int64_t> counts;
  for (int64_t i = 0; i < kDraws; ++i) ++counts[sampler.draw(logits)];
  double chi_square = 0;
  const std::map<int32_t, double> wanted = wanted_distribution(logits, options);
  for (const auto& [id, count] : counts) EXPECT_TRUE(wanted.contains(id)) << id;
  for (const auto& [id, share] : wanted) {
    const double expected = share * kDraws;
    chi_square += std::pow(static_cast<double>(counts[id]) - expected, 2) / expected;
  }
  // Mean k - 1, deviation sqrt(2 (k - 1)): five deviations up.
  const double freedom = static_cast<double>(wanted.size()) - 1;
  EXPECT_LT(chi_square, freedom + 5 * std::sqrt(2 * freedom) + 1e-9)
      << "top_k " << options.top_k << ", top_p " << options.top_p << ", temperature "
      << options.temperature << ", " << wanted.size() << " tokens";
}

TEST(SamplingTest, DrawsFollowMegatronsDistribution) {
  const std::vector<float> logits = uneven_logits(60);
  for (const double temperature : {1.0, 0.5, 2.0}) {
    expect_distribution(logits, {.temperature = temperature});
    for (const int64_t top_k : {2, 7, 60}) {
      expect_distribution(logits, {.temperature = temperature, .top_k = top_k});
    }
    for (const double top_p : {1e-6, 0.1, 0.5, 0.9, 0.99, 1.0}) {
      expect_distribution(logits, {.temperature = temperature, .top_p = top_p});
    }
  }
}

TEST(SamplingTest, LargeTopKAndEqualLogitsAgreeWithTheSort) {
  std::vector<float> logits = uneven_logits(3000);
  serving::SamplingOptions options{.top_k = 2000, .seed = 5};
  std::vector<float> sorted = logits;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  Sampler sampler(options);
  for (int64_t i = 0; i < 2000; ++i) {
    EXPECT_GE(logits[static_cast<size_t>(sampler.draw(logits))], sorted[1999]);
  }
  // Four equal ones: half of the weight is reached by the second, which as Megatron's is passed.
  logits = {0, 0, 0, 0};
  Sampler half({.top_p = 0.49, .seed = 1});
  std::set<int32_t> drawn;
  for (int64_t i = 0; i < 200; ++i) drawn.insert(half.draw(logits));
  EXPECT_EQ(drawn, (std::set<int32_t>{0, 1}));
}

TEST(SamplingTest, GreedyTakesTheFirstOfTheMostLikely) {
  Sampler sampler({.temperature = 0.1, .top_k = 1});
  EXPECT_EQ(sampler.draw(std::vector<float>{1, 5, 2, 5}), 1);
}

TEST(SamplingTest, WhatHasNoProbabilityIsNeverDrawn) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {kNever, 1, kNever, 0.5, kNever};
  for (const serving::SamplingOptions& options :
       {serving::SamplingOptions{}, serving::SamplingOptions{.top_k = 4},
        serving::SamplingOptions{.top_p = 1}, serving::SamplingOptions{.top_k = 1}}) {
    Sampler sampler(options);
    for (int64_t i = 0; i < 500; ++i) {
      const int32_t drawn = sampler.draw(logits);
      EXPECT_TRUE(drawn == 1 || drawn == 3) << drawn;
    }
  }
}

TEST(SamplingTest, SameSeedsDrawTheSame) {
  const std::vector<float> logits = uneven_logits(60);
  Sampler a({.seed = 9}), b({.seed = 9}), c({.seed = 10});
  std::vector<int32_t> of_a, of_b, of_c;
  for (int64_t i = 0; i < 50; ++i) {
    of_a.push_back(a.draw(logits));
    of_b.push_back(b.draw(logits));
    of_c.push_back(c.draw(logits));
  }
  EXPECT_EQ(of_a, of_b);
  EXPECT_NE(of_a, of_c);
}

TEST(SamplingTest, LogitsThatDifferByARoundingDrawTheSame) {
  std::vector<float> logits = uneven_logits(3000);
  std::vector<float> rounded = logits;
  for (size_t i = 0; i < rounded.size(); ++i) {
    logits[i] += 0.5f * std::cos(static_cast<float>(i) * 0.9f);  // no two are equal
    rounded[i] = logits[i] + (i % 3 == 0 ? 3e-6f : i % 3 == 1 ? -3e-6f : 0.0f);
  }
  for (const serving::SamplingOptions& options :
       {serving::SamplingOptions{}, serving::SamplingOptions{.top_k = 50},
        serving::SamplingOptions{.top_k = 1500}, serving::SamplingOptions{.top_p = 0.5},
        serving::SamplingOptions{.temperature = 0.7, .top_p = 0.9},
        serving::SamplingOptions{.top_p = 0.99}}) {
    Sampler a(options), b(options);
    int64_t differ = 0;
    for (int64_t i = 0; i < 400; ++i) differ += a.draw(logits) != b.draw(rounded) ? 1 : 0;
    EXPECT_LE(differ, 2) << "top_k " << options.top_k << ", top_p " << options.top_p;
  }
}

TEST(SamplingTest, LargeLogitsDoNotOverflowAtLowTemperatures) {
  std::vector<float> logits(50, -1e30f);
  logits[7] = 2e12f;
  logits[9] = 1e12f;
  for (const serving::SamplingOptions& options :
       {serving::SamplingOptions{.temperature = 2e-30},
        serving::SamplingOptions{.temperature = 2e-30, .top_k = 3},
        serving::SamplingOptions{.temperature = 2e-30, .top_p = 0.9}}) {
    EXPECT_EQ(Sampler(options).draw(logits), 7);
  }
}

TEST(SamplingTest, TopPDecaysDownToItsBound) {
  const std::vector<float> logits = {0, 0, 0, 0};  // a quarter each
  const auto ids_of = [&](int64_t draw, double bound) {
    std::set<int32_t> ids;
    for (uint64_t seed = 0; seed < 60; ++seed) {
      Sampler sampler({.top_p = 0.9, .top_p_decay = 0.5, .top_p_bound = bound, .seed = seed});
      for (int64_t i = 1; i < draw; ++i) sampler.draw(logits);
      ids.insert(sampler.draw(logits));
    }
    return ids.size();
  };
  EXPECT_EQ(ids_of(1, 0), 4U);
  EXPECT_EQ(ids_of(2, 0), 2U) << "0.45";
  EXPECT_EQ(ids_of(3, 0), 1U) << "0.225";
  EXPECT_EQ(ids_of(3, 0.6), 3U);
}

TEST(SamplingTest, OptionsOutsideTheirRangesAreErrorsByName) {
  const auto error_of = [](const serving::SamplingOptions& options) {
    return std::string(check_sampling(options, 100).message());
  };
  EXPECT_TRUE(check_sampling({}, 100).ok());
  EXPECT_THAT(error_of({.temperature = 0}), HasSubstr("temperature: expected"));
  EXPECT_THAT(error_of({.temperature = std::nan("")}), HasSubstr("temperature"));
  EXPECT_THAT(error_of({.top_k = -1}), HasSubstr("top_k: expected 0 to 100, found -1"));
  EXPECT_THAT(error_of({.top_k = 101}), HasSubstr("top_k"));
  EXPECT_THAT(error_of({.top_p = 1.5}), HasSubstr("top_p: expected 0 to 1, found 1.5"));
  EXPECT_THAT(error_of({.top_p = 0.5, .top_p_decay = 2}), HasSubstr("top_p_decay"));
  EXPECT_THAT(error_of({.top_p = 0.5, .top_p_bound = -1}), HasSubstr("top_p_bound"));
  EXPECT_THAT(error_of({.top_k = 1, .top_p = 0.5}), HasSubstr("top_k and top_p"));
}

TEST(TokenScoresTest, LogProbabilitiesAreThoseOfTheSoftmax) {
  const std::vector<float> logits = {1, 2, 3};
  const double sum = std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
  EXPECT_NEAR(log_probability(logits, log_sum_exp(logits), 1), 2 - std::log(sum), 1e-7);
}

TEST(SamplerTest, ATinyTemperatureIsGreedy) {
  std::vector<float> logits = uneven_logits(1000);
  logits[7] = -std::numeric_limits<float>::infinity();
  logits[400] = logits[500] = 3.5f;  // the first of equals
  for (const double temperature : {1e-29, 1e-31, 1e-40, 1e-300, 5e-324}) {
    for (const serving::SamplingOptions& options :
         {serving::SamplingOptions{}, serving::SamplingOptions{.top_k = 20},
          serving::SamplingOptions{.top_p = 0.9}}) {
      serving::SamplingOptions cold = options;
      cold.temperature = temperature;
      Sampler sampler(cold);
      for (int i = 0; i < 20; ++i) {
        const int32_t drawn = sampler.draw(logits);
        EXPECT_TRUE(drawn == 400 || (temperature > 1e-30 && drawn == 500)) << temperature << drawn;
      }
    }
  }
}

}  // namespace
}  // namespace meg::generation
