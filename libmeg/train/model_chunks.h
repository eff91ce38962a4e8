#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libmeg/nn/gpt_model.h"

namespace meg::train {

/// The part of a model that one rank trains: a single model, or a chunk for each of its virtual
/// pipeline stages. A view, which the models must outlive.
class ModelChunks {
 public:
  /// A model that is not divided into chunks.
  ModelChunks(nn::GptModel& only)  // NOLINT(google-explicit-constructor)
      : ModelChunks(std::span(&only, 1)) {}

  /// chunks: at least one, in order, all with the same configuration and options.
  explicit ModelChunks(std::span<nn::GptModel> chunks) : chunks_(chunks) {
    for (const nn::GptModel& chunk : chunks) {
      const auto own = chunk.parameters();
      parameters_.insert(parameters_.end(), own.begin(), own.end());
      const auto biases = chunk.expert_biases();
      expert_biases_.insert(expert_biases_.end(), biases.begin(), biases.end());
    }
  }

  int64_t size() const { return std::ssize(chunks_); }

  nn::GptModel& operator[](int64_t chunk) const { return chunks_[static_cast<size_t>(chunk)]; }

  /// The parameters, chunk by chunk.
  std::span<const nn::GptParameter> parameters() const { return parameters_; }

  /// The routers' biases, chunk by chunk.
  std::span<const nn::ExpertBias> expert_biases() const { return expert_biases_; }

  const model::GptConfig& config() const { return chunks_[0].config(); }

  const nn::GptOptions& options() const { return chunks_[0].options(); }

  /// The part of the first chunk; the others differ only in the number of the chunk.
  const nn::ModelPart& part() const { return chunks_[0].part(); }

  /// The generators that all chunks draw from.
  nn::RandomStates& random_states() const { return chunks_[0].random_states(); }

  /// Elements of all parameters.
  int64_t parameter_count() const {
    int64_t count = 0;
    for (const nn::GptModel& chunk : chunks_) count += chunk.parameter_count();
    return count;
  }

  void set_training(bool training) const {
    for (nn::GptModel& chunk : chunks_) chunk.set_training(training);
  }

 private:
  std::span<nn::GptModel> chunks_;
  std::vector<nn::GptParameter> parameters_;  ///< Handles of the chunks' tensors.
  std::vector<nn::ExpertBias> expert_biases_;
};

}  // namespace meg::train
