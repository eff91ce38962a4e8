#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "libmeg/kernels/dropout_mask.h"

namespace meg::nn {

/// Draws the mask for one array from a GPU's generator, and advances it.
kernels::DropoutMask draw_dropout_mask(double probability, at::Generator& generator);

/// The parameters of a norm for the kernels.
struct NormKernel {
  at::Tensor weight;  ///< [h]; undefined: nothing is normalized
  at::Tensor bias;    ///< [h]; undefined for RMSNorm
  bool is_rms_norm = false;
  bool is_1p = false;
  double epsilon = 0;
};

struct SumAndNormalized {
  at::Tensor sum;         ///< residual + dropout(branch), in residual's dtype
  at::Tensor normalized;  ///< The norm of sum, in the weight's dtype.
};

/// Everything between two sublayers in one kernel, with two kernels in the backward pass. branch:
/// [.., h] in the weight's dtype; undefined: sum is residual. residual: [.., h] in the same dtype
/// or fp32.
SumAndNormalized dropout_add_norm(const at::Tensor& branch, const at::Tensor& residual,
                                  const kernels::DropoutMask& dropout, const NormKernel& norm);

}  // namespace meg::nn
