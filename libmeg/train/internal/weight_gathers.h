#pragma once

#include <span>
#include <vector>

#include "libmeg/parallel/process_group.h"
#include "libmeg/train/internal/flat_buffer.h"
#include "libmeg/train/model_chunks.h"

namespace meg::train {

/// The gathers of updated parameters in progress, by bucket. Each forward pass of the model waits
/// for those of the parameters that it is about to use, and fails if they do.
class WeightGathers {
 public:
  /// layout: that of the model's parameters. The models must outlive this object.
  WeightGathers(const ModelChunks& model, const FlatLayout& layout);
  ~WeightGathers();
  WeightGathers(const WeightGathers&) = delete;
  WeightGathers& operator=(const WeightGathers&) = delete;

  /// gathers: one per bucket. Previous ones must have been waited for.
  void begin(std::vector<parallel::PendingWork> gathers) { pending_ = std::move(gathers); }

  /// Waits for all of them.
  Status finish() { return wait(buckets_.size()); }

 private:
  /// Waits for those of the first `buckets`.
  Status wait(size_t buckets);

  ModelChunks model_;
  std::vector<FlatLayout::Bucket> buckets_;
  std::vector<parallel::PendingWork> pending_;  ///< Null: waited for.
};

}  // namespace meg::train
