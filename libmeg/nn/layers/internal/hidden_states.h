#pragma once

#include <ATen/core/Tensor.h>

#include "libmeg/kernels/dropout_mask.h"
#include "libmeg/nn/internal/forward_context.h"

namespace meg::nn {

/// Hidden states between two sublayers. A sublayer's output is not added yet: the norm that follows
/// does it on its way.
struct HiddenStates {
  at::Tensor residual;  ///< [b, s, h]
  at::Tensor branch;    ///< [b, s, h] in the parameters' type; undefined: residual is all.
};

/// How a branch comes to the residual: each element zero with a probability and the others divided
/// by what is left of 1.
class HiddenDropout {
 public:
  /// probability: while the context trains.
  HiddenDropout(double probability, const ForwardContext& context)
      : probability_(context.training ? probability : 0), context_(context) {}

  /// residual + dropout(branch).
  at::Tensor sum_of(const HiddenStates& states) const;

  /// On a GPU: what is kept of the branch, drawn as sum_of() would.
  kernels::DropoutMask mask_of(const HiddenStates& states) const;

 private:
  at::Generator& generator() const { return context_.random->generator(context_.hidden_stream); }

  double probability_;
  const ForwardContext& context_;
};

}  // namespace meg::nn
