#pragma once

#include <ATen/core/Tensor.h>

#include "libmeg/kernels/dropout_mask.h"
#include "libmeg/nn/internal/forward_context.h"

namespace meg::nn {

/// Hidden states between two sublayers. A sublayer's output is not yet added to the residual: the
/// next norm does that in the same kernel.
struct HiddenStates {
  at::Tensor residual;  ///< [b, s, h]
  at::Tensor branch;    ///< [b, s, h] in the parameters' type; undefined: residual is all.
};

/// The dropout of a branch before it is added to the residual.
class HiddenDropout {
 public:
  /// probability: applied if the context is in training mode.
  HiddenDropout(double probability, const ForwardContext& context)
      : probability_(context.training ? probability : 0), context_(context) {}

  /// residual + dropout(branch).
  at::Tensor sum_of(const HiddenStates& states) const;

  /// On a GPU: the mask that sum_of() would draw.
  kernels::DropoutMask mask_of(const HiddenStates& states) const;

 private:
  at::Generator& generator() const { return context_.random->generator(context_.hidden_stream); }

  double probability_;
  const ForwardContext& context_;
};

}  // namespace meg::nn
