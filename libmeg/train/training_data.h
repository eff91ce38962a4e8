#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "libmeg/base/result.h"
#include "libmeg/samples/batches/batch_sampler.h"
#include "libmeg/samples/batches/sample_loader.h"
#include "libmeg/samples/gpt_datasets.h"
#include "libmeg/samples/gpt_sample.h"
#include "libmeg/samples/split.h"

namespace meg::train {

/// How the samples of a run become the micro-batches of this data-parallel rank.
struct BatchOptions {
  samples::GptSampleOptions sample;
  samples::DataloaderType dataloader_type = samples::DataloaderType::kSingle;
  int64_t micro_batch_size = 1;
  std::optional<int64_t> eval_micro_batch_size = std::nullopt;  ///< nullopt: that of training.
  int64_t data_parallel_rank = 0;
  int64_t data_parallel_size = 1;
  int num_workers = 2;
  samples::BatchMemory memory = {};  ///< Of micro-batches; plain unless given.

  /// Samples of a micro-batch of this split.
  int64_t micro_batch_size_of(samples::Split split) const {
    return split == samples::Split::kTrain ? micro_batch_size
                                           : eval_micro_batch_size.value_or(micro_batch_size);
  }
};

/// The micro-batches of the three splits. Mirrors Megatron-LM megatron/training/training.py:
/// build_train_valid_test_data_iterators.
class TrainingData {
 public:
  /// consumed: samples that were read of each split before this run; nullopt: the run reads none of
  /// it. kInvalidArgument where no samples are left of one that it reads.
  static Result<TrainingData> create(samples::GptDatasets datasets, const BatchOptions& options,
                                     const samples::PerSplit<std::optional<int64_t>>& consumed);

  bool has(samples::Split split) const { return loaders_[samples::split_number(split)] != nullptr; }

  /// Samples of a split that the run has.
  int64_t size(samples::Split split) const {
    return datasets_.splits[samples::split_number(split)]->size();
  }

  /// From now on next(split) gives every sample once from the first on, one a micro-batch.
  Status begin_full_validation(samples::Split split);

  /// kOutOfRange at the end of a split's samples, with their number.
  Result<const samples::MicroBatch*> next(samples::Split split);

 private:
  Status open(samples::Split split, samples::DataloaderType type, int64_t consumed);

  samples::GptDatasets datasets_;
  BatchOptions options_;
  samples::PerSplit<std::unique_ptr<samples::SampleLoader>> loaders_;
};

}  // namespace meg::train
