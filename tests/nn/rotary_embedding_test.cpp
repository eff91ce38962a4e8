#include "libmeg/nn/layers/internal/rotary_embedding.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "libmeg/nn/operators/internal/attention/attention_heads.h"
#include "tests/nn/small_model.h"

namespace meg::nn {
namespace {

/// Turns each pair (x[first], x[second]) of a head at `position` by its angle, from the definition.
at::Tensor turned(const at::Tensor& heads, int64_t size, bool interleaved, double base) {
  at::Tensor result = heads.clone();
  auto to = result.accessor<float, 4>();
  const auto from = heads.accessor<float, 4>();
  for (int64_t b = 0; b < heads.size(0); ++b) {
    for (int64_t s = 0; s < heads.size(1); ++s) {
      for (int64_t n = 0; n < heads.size(2); ++n) {
        for (int64_t i = 0; i < size / 2; ++i) {
          const double angle =
              static_cast<double>(s) *
              std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(size));
          const int64_t first = interleaved ? 2 * i : i;
          const int64_t second = interleaved ? 2 * i + 1 : i + size / 2;
          const double x = from[b][s][n][first];
          const double y = from[b][s][n][second];
          to[b][s][n][first] = static_cast<float>(x * std::cos(angle) - y * std::sin(angle));
          to[b][s][n][second] = static_cast<float>(x * std::sin(angle) + y * std::cos(angle));
        }
      }
    }
  }
  return result;
}

at::Tensor apply_rotary(const at::Tensor& heads, const RotaryTable& table, bool interleaved) {
  AttentionHeads turned{.query = heads, .key = heads, .value = {}};
  turn_heads(turned, table, interleaved);
  EXPECT_TRUE(at::equal(turned.query, turned.key));
  return turned.query;
}

TEST(RotaryEmbeddingTest, TurnsPairsByTheirAngles) {
  model::GptConfig config = test::small_config();
  config.kv_channels = 16;
  const at::Tensor heads = at::linspace(-2, 2, 2 * 7 * 3 * 16).view({2, 7, 3, 16});
  for (const bool interleaved : {false, true}) {
    for (const double percent : {1.0, 0.5}) {
      GptOptions options;
      options.rotary_interleaved = interleaved;
      options.rotary_percent = percent;
      options.rotary_base = 500;
      const RotaryTable table = rotary_table(config, options, 7);
      const at::Tensor expected =
          turned(heads, static_cast<int64_t>(16 * percent), interleaved, 500);
      EXPECT_TRUE(at::allclose(apply_rotary(heads, table, interleaved), expected, 1e-5, 1e-5))
          << interleaved << percent;
    }
  }
}

/// The frequency that Llama 3.1 gives a pair, from the definition: by how often it turns in 8,192
/// tokens.
double llama3_frequency(double frequency, double factor) {
  const double turns = 8192 * frequency / (2 * std::numbers::pi);
  if (turns > 4) return frequency;
  if (turns < 1) return frequency / factor;
  const double kept = (turns - 1) / 3;
  return (1 - kept) * frequency / factor + kept * frequency;
}

TEST(RotaryEmbeddingTest, ScalingSlowsWhatTurnsRarely) {
  model::GptConfig config = test::small_config();
  config.kv_channels = 32;
  GptOptions options;
  options.rotary_base = 500000;
  options.use_rope_scaling = true;
  for (const double factor : {8.0, 32.0}) {
    options.rope_scaling_factor = factor;
    const at::Tensor sines = rotary_table(config, options, 2).sine[1][0];
    int slowed = 0, mixed = 0;
    for (int64_t i = 0; i < 16; ++i) {
      const double plain = std::pow(5e5, -2.0 * static_cast<double>(i) / 32);
      const double frequency = llama3_frequency(plain, factor);
      EXPECT_NEAR(sines[i].item<double>() / std::sin(frequency), 1, 1e-5) << i;
      if (frequency < plain) ++(frequency > plain / factor ? mixed : slowed);
    }
    EXPECT_GT(slowed, 0);
    EXPECT_GT(mixed, 0);
  }
}

TEST(RotaryEmbeddingTest, InterpolationDividesPositions) {
  const model::GptConfig config = test::small_config();
  GptOptions options;
  const RotaryTable plain = rotary_table(config, options, 3);
  options.rotary_seq_len_interpolation_factor = 4;
  const RotaryTable stretched = rotary_table(config, options, 12);
  for (const int64_t position : {0, 1, 2}) {
    EXPECT_TRUE(at::allclose(stretched.sine[4 * position], plain.sine[position])) << position;
  }
}

TEST(RotaryEmbeddingTest, ScoresDependOnDistancesOnly) {
  model::GptConfig config = test::small_config();
  config.kv_channels = 8;
  const at::Tensor same = at::linspace(-1, 1, 8).view({1, 1, 1, 8}).expand({1, 9, 1, 8});
  const at::Tensor heads = apply_rotary(same, rotary_table(config, {}, 9), false).view({9, 8});
  const at::Tensor scores = at::matmul(heads, heads.t());
  for (int64_t distance = 0; distance < 9; ++distance) {
    const at::Tensor diagonal = scores.diagonal(distance);
    EXPECT_TRUE(at::allclose(diagonal, diagonal[0].expand_as(diagonal), 1e-4, 1e-5)) << distance;
  }
}

}  // namespace
}  // namespace meg::nn
