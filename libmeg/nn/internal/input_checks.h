#pragma once

#include "libmeg/nn/gpt_model.h"

namespace meg::nn {

/// Determines which tensors a part of a model accepts. Holds references only.
struct InputRules {
  const model::GptConfig& config;
  const GptOptions& options;
  bool is_first;  ///< Whether the part holds the embedding.
  bool is_last;   ///< Whether the part holds the output layer.
  const TensorParallel& ranks;
};

/// Returns the errors that GptModel documents for its functions.
Status check_input(const InputRules& rules, const GptInput& input);
Status check_input(const InputRules& rules, const CachedInput& input, const KvCache& cache);
Status check_hidden_rows(const InputRules& rules, const at::Tensor& hidden_rows);

/// Checks the labels of a checked input.
Status check_labels(const InputRules& rules, const GptInput& input, const at::Tensor& labels);

/// labels: must have been checked.
Status check_grad_losses(const at::Tensor& labels, const at::Tensor& grad_losses);

}  // namespace meg::nn
