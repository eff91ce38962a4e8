#include "libmeg/nn/layers/internal/rotary_embedding.h"

#include <ATen/ATen.h>

#include <numbers>

namespace meg::nn {
namespace {

/// Scales as Llama 3.1 does to extend its 8,192 tokens: frequencies that turn four times and more
/// within these stay, those that do not turn once are divided by `factor`, between them both are
/// mixed.
at::Tensor scaled_frequencies(const at::Tensor& frequencies, double factor) {
  constexpr double kOriginalContext = 8192;  // tokens
  constexpr double kSlowTurns = 1;
  constexpr double kFastTurns = 4;
  const at::Tensor wave_lengths = frequencies.reciprocal() * (2 * std::numbers::pi);
  const at::Tensor kept =
      ((kOriginalContext / wave_lengths - kSlowTurns) / (kFastTurns - kSlowTurns)).clamp(0, 1);
  return (1 - kept) * frequencies / factor + kept * frequencies;
}

/// The frequency of each pair of a head's `size` rotated elements, [size / 2] in radians a token.
at::Tensor rotary_frequencies(const GptOptions& options, int64_t size) {
  // Tables are computed in fp32 on the model's device and rounded last, as in Megatron: angles of
  // late positions in 16 bits would be off by whole rotations.
  const auto fp32 = at::dtype(at::kFloat).device(options.device);
  const at::Tensor exponents = at::arange(0, size, 2, fp32) / size;
  const at::Tensor frequencies = 1.0 / at::pow(options.rotary_base, exponents);
  if (!options.use_rope_scaling) return frequencies;
  return scaled_frequencies(frequencies, options.rope_scaling_factor);
}

}  // namespace

RotaryTable rotary_table(const model::GptConfig& config, const GptOptions& options,
                         int64_t sequence_length) {
  const auto size =
      static_cast<int64_t>(static_cast<double>(config.kv_channels) * options.rotary_percent);
  const at::Tensor positions =
      at::arange(sequence_length, at::dtype(at::kFloat).device(options.device)) *
      (1 / options.rotary_seq_len_interpolation_factor);
  at::Tensor angles = at::outer(positions, rotary_frequencies(options, size));
  angles =
      options.rotary_interleaved ? angles.repeat_interleave(2, -1) : at::cat({angles, angles}, -1);
  angles = angles.unsqueeze(1);
  return {angles.cos().to(options.params_dtype), angles.sin().to(options.params_dtype)};
}

RotaryTables rotary_tables(const model::GptConfig& config, const GptOptions& options,
                           int64_t sequence_length) {
  if (config.position_embedding_type != "rope") return {};
  RotaryTables tables{.all = rotary_table(config, options, sequence_length), .local = {}};
  if (!options.rotary_base_local.has_value()) return tables;
  GptOptions local = options;
  local.rotary_base = *options.rotary_base_local;
  local.rotary_seq_len_interpolation_factor = 1;
  local.use_rope_scaling = false;
  tables.local = rotary_table(config, local, sequence_length);
  return tables;
}

RotaryTables RotaryTables::rows(const at::Tensor& positions) const {
  const auto chosen = [&](const RotaryTable& table) {
    if (!table.cosine.defined()) return table;
    return RotaryTable{table.cosine.index_select(0, positions),
                       table.sine.index_select(0, positions)};
  };
  return {.all = chosen(all), .local = chosen(local)};
}

}  // namespace meg::nn
