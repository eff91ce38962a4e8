#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "libmeg/kernels/dropout_mask.h"

namespace meg::nn {

/// Draws a mask for one array from a GPU's generator, which moves on.
kernels::DropoutMask draw_dropout_mask(double probability, at::Generator& generator);

/// A norm as the kernels know it.
struct NormKernel {
  at::Tensor weight;  ///< [h]; undefined: nothing is normalized
  at::Tensor bias;    ///< [h]; of RMSNorm undefined
  bool is_rms_norm = false;
  bool is_1p = false;
  double epsilon = 0;
};

struct SumAndNormalized {
  at::Tensor sum;         ///< residual + dropout(branch), of residual's type
  at::Tensor normalized;  ///< Its norm, of the weight's type.
};

/// All that stands between two sublayers in one kernel, and two in its backward pass. branch: [..,
/// h] of the weight's type, undefined: sum is residual; residual: [.., h] of the same type or fp32.
SumAndNormalized dropout_add_norm(const at::Tensor& branch, const at::Tensor& residual,
                                  const kernels::DropoutMask& dropout, const NormKernel& norm);

}  // namespace meg::nn
