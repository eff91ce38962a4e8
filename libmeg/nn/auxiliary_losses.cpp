#include "libmeg/nn/auxiliary_losses.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace meg::nn {

void AuxiliaryLosses::add(std::string_view name, const at::Tensor& loss) {
  const at::Tensor widened = loss.to(at::kFloat);
  const auto known = std::ranges::find_if(sums, [&](const auto& sum) { return sum.first == name; });
  if (known == sums.end()) {
    sums.emplace_back(name, widened);
  } else {
    known->second = known->second + widened;
  }
}

}  // namespace meg::nn
