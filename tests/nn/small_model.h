#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "libmeg/nn/gpt_model.h"
#include "libmeg/nn/initialise_weights.h"

namespace meg::test {

/// A GPT that computes in an instant.
inline model::GptConfig small_config() {
  model::GptConfig config;
  config.num_layers = 5;
  config.hidden_size = 16;
  config.ffn_hidden_size = 64;
  config.num_attention_heads = config.num_query_groups = 4;
  config.kv_channels = 4;
  config.max_position_embeddings = config.seq_length = 12;
  config.padded_vocab_size = 24;
  return config;
}

/// The same in Llama's style, with two query groups.
inline model::GptConfig small_llama_config() {
  model::GptConfig config = small_config();
  config.num_query_groups = 2;
  config.swiglu = true;
  config.gated_linear_unit = true;
  config.add_bias_linear = false;
  config.untie_embeddings_and_output_weights = true;
  config.position_embedding_type = "rope";
  config.normalization = "RMSNorm";
  return config;
}

/// A model with random weights, far enough from zero for its functions to show their shape.
inline nn::GptModel small_model(const model::GptConfig& config, nn::GptOptions options = {},
                                const nn::ModelPart& part = {}, uint64_t seed = 7) {
  at::set_num_threads(1);  // more cost time on tensors this small
  options.init_method_std = 0.2;
  Result<nn::GptModel> model = nn::GptModel::create(config, options, part);
  EXPECT_TRUE(model.has_value()) << model.status().message();
  const Status filled = nn::initialise_weights(*model, seed);
  EXPECT_TRUE(filled.ok()) << filled.message();
  return std::move(*model);
}

/// [2, 12] tokens that are the same each time.
inline at::Tensor small_tokens(const model::GptConfig& config) {
  return (at::arange(2 * config.seq_length).mul(7919).remainder(config.padded_vocab_size))
      .view({2, config.seq_length});
}

/// The gradients of the mean loss, in the order of parameters(); the model's own are cleared.
inline std::vector<at::Tensor> gradients_of(nn::GptModel& model) {
  const at::Tensor tokens = small_tokens(model.config());
  const auto loss = model.loss({.tokens = tokens}, tokens.roll(-1, 1));
  EXPECT_TRUE(loss.has_value()) << loss.status().message();
  loss->mean().backward();
  std::vector<at::Tensor> gradients;
  for (const nn::GptParameter& parameter : model.parameters()) {
    at::Tensor tensor = parameter.tensor;
    gradients.push_back(tensor.grad().clone());
    tensor.mutable_grad() = at::Tensor();
  }
  return gradients;
}

/// What bf16 does to a small model's gradients, in gradient_distance(), with room.
constexpr double kBf16GradientDistance = 0.15;

/// |found - expected| / |expected| of all parameters' gradients as one vector: what rounding does
/// to a single small parameter does not count for more than it is.
inline double gradient_distance(const std::vector<at::Tensor>& found,
                                const std::vector<at::Tensor>& expected) {
  const auto as_one = [](const std::vector<at::Tensor>& gradients) {
    std::vector<at::Tensor> flat;
    for (const at::Tensor& gradient : gradients) flat.push_back(gradient.flatten().to(at::kDouble));
    return at::cat(flat);
  };
  const at::Tensor wanted = as_one(expected);
  return ((as_one(found) - wanted).norm() / wanted.norm()).item<double>();
}

}  // namespace meg::test
