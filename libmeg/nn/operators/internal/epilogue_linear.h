#pragma once

#include <ATen/core/Tensor.h>

namespace meg::nn {

/// Whether cuBLASLt can compute GELU inside the product of these: 16-bit arrays on a GPU, whose
/// library LibTorch has loaded. The functions below compute the same anywhere, in several steps.
bool has_gelu_epilogue(const at::Tensor& input, const at::Tensor& weight);

/// Whether the result needs gradients in addition, of which bias gradients are parts of products.
bool has_epilogues(const at::Tensor& input, const at::Tensor& weight);

/// gelu(at::linear(..)) with the tanh form of GELU, without gradients. input: [.., k]; weight:
/// [n, k]; bias: [n].
at::Tensor gelu_linear(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias);

/// at::linear: input [.., k] x weight [n, k], transposed, + bias [n] (undefined: none). Its
/// backward pass gets the bias's gradient out of the weight's, and adds the weight's to its main
/// gradient where there is one.
at::Tensor epilogue_linear(const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& bias);

/// linear(gelu(linear(input))) with the tanh form of GELU. input: [.., h]; fc1_weight: [f, h];
/// fc1_bias: [f]; fc2_weight: [h, f]; fc2_bias: [h]. GELU and both biases' gradients are parts of
/// the products.
at::Tensor epilogue_mlp(const at::Tensor& input, const at::Tensor& fc1_weight,
                        const at::Tensor& fc1_bias, const at::Tensor& fc2_weight,
                        const at::Tensor& fc2_bias);

}  // namespace meg::nn
