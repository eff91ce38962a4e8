#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace meg::nn {

/// Arguments of LibTorch's scaled_dot_product_attention.
struct FusedAttention {
  at::Tensor query;                ///< [b, n, s, hn]
  at::Tensor key, value;           ///< [b, g, l, hn], g dividing n
  std::optional<at::Tensor> mask;  ///< bool: true keeps a score.
  bool is_causal = false;          ///< Only without a mask.
  double dropout = 0;              ///< [0, 1), drawn from LibTorch's default generator.
  double scale = 1;                ///< Factor of the scores.
};

/// Attention by one of LibTorch's fused kernels: [b, n, s, hn]. LibTorch itself would compute by a
/// matrix of scores where its kernels do not take the inputs as they are, which needs memory by the
/// square of the sequence length: here inputs are brought to a form that a kernel takes. Throws if
/// there is none.
at::Tensor fused_attention(FusedAttention inputs);

}  // namespace meg::nn
