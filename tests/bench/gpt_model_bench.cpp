// Times forward and backward passes of a GPT with random weights, dropout off; see
// gpt_model_bench.py, which runs plain PyTorch beside it, and moe_model_bench.py for mixtures of
// experts, beside megatron-core.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <vector>

#include "libmeg/nn/gpt_model.h"
#include "libmeg/nn/initialise_weights.h"

namespace {

double processor_seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 9 && argc != 12) {
    std::cerr << "usage: gpt_model_bench LAYERS HIDDEN HEADS VOCAB SEQ BATCH STEPS THREADS "
                 "[EXPERTS TOPK EXPERT_FFN]\n";
    return 2;
  }
  std::vector<int64_t> numbers;
  for (int i = 1; i < argc; ++i) numbers.push_back(std::atoll(argv[i]));
  at::set_num_threads(static_cast<int>(numbers[7]));
  meg::model::GptConfig config;
  config.num_layers = numbers[0];
  config.hidden_size = numbers[1];
  config.ffn_hidden_size = 4 * numbers[1];
  config.num_attention_heads = config.num_query_groups = numbers[2];
  config.kv_channels = numbers[1] / numbers[2];
  config.padded_vocab_size = numbers[3];
  config.max_position_embeddings = config.seq_length = numbers[4];
  meg::nn::GptOptions options;
  if (numbers.size() > 8) {
    config.num_experts = numbers[8];
    config.moe_router_topk = numbers[9];
    config.ffn_hidden_size = config.moe_ffn_hidden_size = numbers[10];
    config.swiglu = config.gated_linear_unit = true;
    config.add_bias_linear = false;
    config.untie_embeddings_and_output_weights = true;
    config.normalization = "RMSNorm";
    config.position_embedding_type = "rope";
    options.moe.balancing_losses = {{.type = "aux_loss", .coefficient = 0.01}};
  }
  options.hidden_dropout = options.attention_dropout = 0;
  auto model = meg::nn::GptModel::create(config, options);
  if (!model.has_value() || !meg::nn::initialise_weights(*model, 1).ok()) return 1;
  const at::Tensor tokens = at::randint(numbers[3], {numbers[5], numbers[4]}, at::kLong);
  double best = 1e9;
  double best_processor = 1e9;
  for (int64_t step = 0; step < numbers[6]; ++step) {
    const double start = seconds();
    const double processor_start = processor_seconds();
    const auto loss = model->loss({.tokens = tokens}, tokens);
    if (!loss.has_value()) return 1;
    loss->mean().backward();
    for (const meg::nn::GptParameter& parameter : model->parameters()) {
      at::Tensor tensor = parameter.tensor;
      tensor.mutable_grad() = at::Tensor();
    }
    best = std::min(best, seconds() - start);
    best_processor = std::min(best_processor, processor_seconds() - processor_start);
  }
  std::cout << best << " " << best_processor << "\n";
}
