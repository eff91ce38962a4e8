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

at::Tensor AuxiliaryLosses::mean_tokens_per_expert(int64_t layer,
                                                   const at::Tensor& tokens_per_expert) {
  const at::Tensor all = tokens_per_expert.clone();
  if (sum_over_all_ranks) sum_over_all_ranks(all);
  GlobalTokens& known = global_tokens_[layer];
  known.sum = known.passes == 0 ? all : known.sum + all;
  known.passes += 1;
  return known.sum / known.passes;
}

}  // namespace meg::nn
