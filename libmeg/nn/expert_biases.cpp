#include "libmeg/nn/expert_biases.h"

#include <ATen/ATen.h>

#include <vector>

namespace meg::nn {

at::Tensor tokens_per_expert(std::span<const ExpertBias> biases) {
  std::vector<at::Tensor> rows;
  for (const ExpertBias& bias : biases) rows.push_back(bias.tokens_per_expert);
  return at::stack(rows);
}

void move_expert_biases(std::span<const ExpertBias> biases, const at::Tensor& tokens, double rate) {
  const at::Tensor steps = at::sign(tokens.mean(-1, /*keepdim=*/true) - tokens) * rate;
  for (size_t i = 0; i < biases.size(); ++i) {
    biases[i].tensor.add_(steps[static_cast<int64_t>(i)]);
    biases[i].tokens_per_expert.zero_();
  }
}

}  // namespace meg::nn
