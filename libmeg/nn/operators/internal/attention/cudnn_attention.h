#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace meg::nn {

/// Causal attention directly on the output of linear_qkv, if every head has a key of its own: [b,
/// s, n * 3 * hn] -> [b, s, n * hn]. cuDNN writes the gradient as one array of mixed's shape, which
/// after split_heads() would take another pass over memory. Returns an undefined tensor if this is
/// not possible and heads have to be split: on a CPU, without a gradient, if LibTorch would not use
/// cuDNN's attention, or if cuDNN has no such gradient. channels: hn; scale: factor of the scores;
/// dropout: [0, 1), drawn from LibTorch's default generator.
at::Tensor cudnn_attention(const at::Tensor& mixed, int64_t channels, double scale, double dropout);

}  // namespace meg::nn
