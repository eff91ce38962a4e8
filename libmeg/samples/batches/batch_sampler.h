#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::samples {

/// The order in which samples are taken: --dataloader-type, and --full-validation.
enum class DataloaderType {
  kSingle,          ///< In the order of the dataset, once.
  kCyclic,          ///< Shuffled again in every epoch, without end.
  kFullValidation,  ///< Every sample once, one per micro-batch; consumed_samples is not used.
};

/// Determines the samples of each micro-batch of a data-parallel rank. Any batch is found in O(1)
/// (cyclic: O(samples) once per epoch). For use by one thread.
class BatchSampler {
 public:
  struct Options {
    DataloaderType type = DataloaderType::kSingle;
    int64_t total_samples = 0;     ///< Samples in the dataset; at least 1.
    int64_t consumed_samples = 0;  ///< By all ranks, before this run.
    int64_t micro_batch_size = 1;  ///< Samples
    int64_t data_parallel_rank = 0;
    int64_t data_parallel_size = 1;
    bool data_sharding = true;  ///< kCyclic: each rank keeps to its own part.
  };

  virtual ~BatchSampler() = default;

  /// kInvalidArgument if a number is out of range or no samples are left.
  /// Mirrors Megatron-LM megatron/training/datasets/data_samplers.py.
  static Result<std::unique_ptr<BatchSampler>> create(const Options& options);

  /// Puts the sample numbers of the next micro-batch into `samples`; false at the end (kSingle: an
  /// incomplete batch is dropped; kCyclic never ends).
  virtual bool next(std::vector<int64_t>& samples) = 0;
};

}  // namespace meg::samples
