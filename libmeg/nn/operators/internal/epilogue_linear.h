#pragma once

#include <ATen/core/Tensor.h>

namespace meg::nn {

/// Whether cuBLASLt can compute GELU as part of this product: for 16-bit arrays on a GPU, if
/// LibTorch has loaded the library. Elsewhere the functions below compute the same in several
/// steps.
bool has_gelu_epilogue(const at::Tensor& input, const at::Tensor& weight);

/// Whether, in addition, the result needs gradients, so that bias gradients are computed as parts
/// of products.
bool has_epilogues(const at::Tensor& input, const at::Tensor& weight);

/// gelu(at::linear(..)) with the tanh form of GELU, without gradients. input: [.., k]; weight:
/// [n, k]; bias: [n].
at::Tensor gelu_linear(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias);

/// at::linear: input [.., k] x weight [n, k], transposed, + bias [n] (undefined: none). Its
/// backward pass computes the bias's gradient in the product for the weight's, and adds the latter
/// to the weight's main gradient if there is one.
at::Tensor epilogue_linear(const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& bias);

/// linear(gelu(linear(input))) with the tanh form of GELU. input: [.., h]; fc1_weight: [f, h];
/// fc1_bias: [f]; fc2_weight: [h, f]; fc2_bias: [h]. GELU and the gradients of both biases are
/// computed as parts of products.
at::Tensor epilogue_mlp(const at::Tensor& input, const at::Tensor& fc1_weight,
                        const at::Tensor& fc1_bias, const at::Tensor& fc2_weight,
                        const at::Tensor& fc2_bias);

}  // namespace meg::nn
