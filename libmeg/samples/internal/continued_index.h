#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/samples/cache_callbacks.h"
#include "libmeg/samples/gpt_index.h"
#include "libmeg/samples/gpt_index_plan.h"

namespace meg::samples {

/// What a split's index is made from, and continued with.
struct IndexSource {
  dataset::LittleEndianArray<int32_t> lengths;  ///< Of all sequences of the dataset.
  dataset::SequenceRange range;                 ///< Of the split.
  int64_t tokens = 0;                           ///< Of the range.
  uint32_t seed = 0;
  /// Sequences that are no longer read, in order and apart.
  std::vector<dataset::SequenceRange> excluded = {};
};

/// The index of a split, with which a run has begun, for the rest of the run: samples that it has
/// read stay, others are changed, left out and appended. In memory.
class ContinuedIndex {
 public:
  /// plan: of the index.
  ContinuedIndex(const GptIndex& index, const GptIndexPlan& plan, IndexSource source);

  /// Takes the excluded sequences out of the samples from number `consumed` on. What remains of a
  /// sample is a shorter one, which Megatron pads. kCorruption for an index that is not of its
  /// data.
  Status exclude(int64_t consumed);

  /// Appends epochs, each shuffled by itself, until there are `samples`. kInvalidArgument where an
  /// epoch has no sample.
  Status extend(int64_t samples, const CacheCancelled& cancelled);

  std::span<const int32_t> documents() const { return documents_; }

  std::span<const int64_t> rows() const { return rows_; }

  std::span<const int64_t> shuffle() const { return shuffle_; }

  int64_t samples() const { return static_cast<int64_t>(shuffle_.size()); }

  int64_t row_count() const { return static_cast<int64_t>(rows_.size()) / 2 - 1; }

  int64_t epochs() const { return epochs_; }

  /// Samples of the first epoch, before those of further ones; 0 where several are shuffled
  /// together.
  int64_t first_epoch() const { return first_epoch_; }

  int64_t changed() const { return changed_; }

  int64_t dropped() const { return dropped_; }

 private:
  bool is_excluded(int64_t sequence) const;
  /// What remains of a row, appended as a row of its own; nullopt for nothing.
  Result<std::optional<int64_t>> without_excluded(const GptIndex& index, int64_t row);
  Status extend_as_megatron(int64_t samples, const CacheCancelled& cancelled);
  Status append_epoch(const CacheCancelled& cancelled);

  GptIndexPlan plan_;
  IndexSource source_;
  std::vector<int32_t> documents_;
  std::vector<int64_t> rows_;  // pairs
  std::vector<int64_t> shuffle_;
  int64_t epochs_;
  int64_t first_epoch_;
  int64_t changed_ = 0, dropped_ = 0;
  bool is_whole_;  // rows follow each other from the first token on, without gaps
};

}  // namespace meg::samples
