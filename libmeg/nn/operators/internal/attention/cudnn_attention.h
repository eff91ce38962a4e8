#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace meg::nn {

/// Causal attention of heads as they lie in the array that the product with linear_qkv's weight
/// gives, where every head has a key of its own: [b, s, n * 3 * hn] -> [b, s, n * hn]. cuDNN writes
/// the gradient as one array of mixed's shape, which after split_heads() takes another pass over
/// memory. Undefined where that is not to be had and heads have to be split: on a CPU, without a
/// gradient, where LibTorch would not take cuDNN's attention, where cuDNN has no such gradient.
/// channels: hn; scale: of the scores; dropout: [0, 1), drawn from LibTorch's default generator.
at::Tensor cudnn_attention(const at::Tensor& mixed, int64_t channels, double scale, double dropout);

}  // namespace meg::nn
