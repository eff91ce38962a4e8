#include "libmeg/train/internal/weight_gathers.h"

#include <algorithm>
#include <utility>

#include "libmeg/libtorch/torch_guard.h"

// Overlaps the gathers of a distributed optimizer's parameters with the next forward pass. All are
// begun after the update, in the order in which forward passes use the buckets; the model says
// which parameters it comes to next.
//
// Evaluation and generation wait by the same way, since they use the parameters by the model's own
// passes; whoever reads tensors past these calls finish() before.

namespace meg::train {

WeightGathers::WeightGathers(const ModelChunks& model, const FlatLayout& layout)
    : model_(model), buckets_(layout.buckets().begin(), layout.buckets().end()) {
  size_t first = 0;
  for (int64_t chunk = 0; chunk < model_.size(); ++chunk) {
    model_[chunk].before_use([this, first](size_t end) {
      const auto behind = std::ranges::partition_point(
          buckets_, [last = first + end](const auto& bucket) { return bucket.begin < last; });
      libtorch::throw_if_error(wait(static_cast<size_t>(behind - buckets_.begin())));
    });
    first += model_[chunk].parameters().size();
  }
}

WeightGathers::~WeightGathers() {
  for (int64_t chunk = 0; chunk < model_.size(); ++chunk) model_[chunk].before_use({});
}

Status WeightGathers::wait(size_t buckets) {
  for (size_t bucket = 0; bucket < std::min(buckets, pending_.size()); ++bucket) {
    parallel::PendingWork gather = std::exchange(pending_[bucket], nullptr);
    if (gather != nullptr) MEG_RETURN_IF_ERROR(gather->wait());
  }
  return {};
}

}  // namespace meg::train
