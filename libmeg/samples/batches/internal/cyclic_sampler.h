#pragma once

#include <cstdint>
#include <vector>

#include "libmeg/samples/batches/batch_sampler.h"

namespace meg::samples {

/// Shuffled samples, epoch after epoch, starting after the samples consumed so far. Mirrors
/// MegatronPretrainingRandomSampler.
class CyclicSampler : public BatchSampler {
 public:
  /// kInvalidArgument if the dataset is smaller than one batch of all ranks or larger than 2^32
  /// samples, or if the consumed samples are not whole batches.
  static Result<std::unique_ptr<BatchSampler>> create(const Options& options);

  bool next(std::vector<int64_t>& samples) override;

 private:
  explicit CyclicSampler(const Options& options);

  void begin_epoch();

  const Options options_;
  const int64_t batch_size_;     ///< Samples, of all ranks.
  const int64_t epoch_samples_;  ///< Of whole batches.
  const int64_t part_size_;      ///< Samples that are shuffled together.

  int64_t consumed_;
  std::vector<uint32_t> order_;  ///< Of the epoch; empty before it begins.
  int64_t place_ = 0;            ///< In order_, of this rank's next sample.
  int64_t stride_ = 1;           ///< From one sample of this rank to its next.
  int64_t first_sample_ = 0;     ///< Of the part.
};

}  // namespace meg::samples
