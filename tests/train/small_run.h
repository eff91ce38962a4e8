#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/train/trainer.h"
#include "tests/nn/small_model.h"

namespace meg::test {

inline model::GptConfig two_layers() {
  model::GptConfig config = small_config();
  config.num_layers = 2;
  return config;
}

/// A run over made-up documents, of six steps with an evaluation after every second one.
inline train::TrainerOptions small_run(const samples::RunLength& given = {},
                                       const model::GptConfig& config = two_layers(),
                                       int64_t micro_batches = 2, int64_t data_parallel_size = 1) {
  at::set_num_threads(1);
  const int64_t batch_size = 2 * micro_batches * data_parallel_size;
  const auto batches = samples::BatchSchedule::create({.global_batch_size = batch_size,
                                                       .micro_batch_size = 2,
                                                       .data_parallel_size = data_parallel_size});
  samples::RunLength length = given;
  if (!length.train_iters.has_value()) {
    length = {.train_iters = 6, .eval_iters = 1, .eval_interval = 2};
  }
  const auto counts = samples::count_samples(length, *batches, megatron::newest_megatron_version());
  EXPECT_TRUE(counts.has_value()) << counts.status().message();

  train::TrainerOptions options;
  options.config = config;
  options.batch_schedule = *batches;
  options.length = length;
  options.model.hidden_dropout = options.model.attention_dropout = 0;
  options.schedule.train_iters = length.train_iters;
  options.schedule.global_batch_size = batch_size;
  options.schedule.lr = 1e-3;
  options.data.samples = counts->samples;
  options.data.sequence_length = options.config.seq_length;
  options.data.vocab_size = 20;
  options.data.eod = 19;
  options.batches.sample.sequence_length = options.config.seq_length;
  options.batches.sample.eod = 19;
  options.batches.micro_batch_size = 2;
  options.batches.num_workers = 0;
  options.log_interval = 1;
  for (const auto& [name, value] : std::vector<std::pair<const char*, int64_t>>{
           {"num_layers", options.config.num_layers},
           {"hidden_size", options.config.hidden_size},
           {"num_attention_heads", options.config.num_attention_heads},
           {"ffn_hidden_size", options.config.ffn_hidden_size},
           {"kv_channels", options.config.kv_channels},
           {"max_position_embeddings", options.config.max_position_embeddings},
           {"seq_length", options.config.seq_length},
           {"padded_vocab_size", options.config.padded_vocab_size},
           {"make_vocab_size_divisible_by", 1},
           {"tensor_model_parallel_size", 1},
           {"pipeline_model_parallel_size", 1}}) {
    options.args.set(name, {value});
  }
  options.args.set("tokenizer_type", {std::string("NullTokenizer")});
  options.args.set("add_position_embedding", {true});
  return options;
}

/// A trainer and what it printed.
struct SmallTrainer {
  std::unique_ptr<train::Trainer> trainer;
  std::shared_ptr<std::vector<std::string>> lines = std::make_shared<std::vector<std::string>>();
  Status status;  ///< Of Trainer::create.

  explicit SmallTrainer(train::TrainerOptions options, std::function<int()> signal = {},
                        const parallel::ParallelState& ranks = {}) {
    auto made = train::Trainer::create(
        std::move(options),
        {.print = [kept = lines](const std::string& line) { kept->push_back(line); },
         .received_signal = std::move(signal)},
        ranks);
    status = made.status();
    if (made.has_value()) trainer = *std::move(made);
  }

  Status run() { return trainer == nullptr ? status : trainer->run(); }

  /// Lines with this text in them.
  int64_t count(const std::string& text) const {
    return std::count_if(lines->begin(), lines->end(), [&](const std::string& line) {
      return line.find(text) != std::string::npos;
    });
  }
};

}  // namespace meg::test
