#include "libmeg/nn/rotary_embedding.h"

#include <ATen/ATen.h>

namespace meg::nn {
namespace {

/// Each pair (first, second) becomes (-second, first).
at::Tensor rotate_half(const at::Tensor& heads, bool interleaved) {
  if (!interleaved) {
    const std::vector<at::Tensor> halves = heads.chunk(2, -1);
    return at::cat({-halves[1], halves[0]}, -1);
  }
  const std::vector<at::Tensor> pairs = heads.unflatten(-1, {-1, 2}).unbind(-1);
  return at::stack({-pairs[1], pairs[0]}, -1).flatten(-2);
}

}  // namespace

RotaryTable rotary_table(const GptConfig& config, const GptOptions& options,
                         int64_t sequence_length) {
  const auto size =
      static_cast<int64_t>(static_cast<double>(config.kv_channels) * options.rotary_percent);
  const auto fp32 = at::dtype(at::kFloat).device(options.device);
  const at::Tensor exponents = at::arange(0, size, 2, fp32) / size;
  const at::Tensor frequencies = 1.0 / at::pow(options.rotary_base, exponents);
  at::Tensor angles = at::outer(at::arange(sequence_length, fp32), frequencies);
  angles =
      options.rotary_interleaved ? angles.repeat_interleave(2, -1) : at::cat({angles, angles}, -1);
  angles = angles.unsqueeze(1);
  return {angles.cos().to(options.params_dtype), angles.sin().to(options.params_dtype)};
}

at::Tensor apply_rotary(const at::Tensor& heads, const RotaryTable& table, bool interleaved) {
  const int64_t turned = table.cosine.size(-1);
  const int64_t rest = heads.size(-1) - turned;
  const at::Tensor first = rest == 0 ? heads : heads.narrow(-1, 0, turned);
  const at::Tensor result = first * table.cosine + rotate_half(first, interleaved) * table.sine;
  return rest == 0 ? result : at::cat({result, heads.narrow(-1, turned, rest)}, -1);
}

}  // namespace meg::nn
