#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meg::nn {

/// Losses of a model's inner modules, by Megatron's names ("load_balancing_loss", "z_loss"). Their
/// gradients are part of each backward pass; the values are for logs.
struct AuxiliaryLosses {
  double scale = 1;  ///< What their gradients are multiplied by, as the caller scales the loss.
  /// Without their coefficients, summed over layers and passes: scalars on the model's device.
  std::vector<std::pair<std::string, at::Tensor>> sums = {};

  void add(std::string_view name, const at::Tensor& loss);
};

}  // namespace meg::nn
