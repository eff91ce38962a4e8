#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <variant>

#include "libmeg/base/bytes.h"

namespace meg::samples {

/// Where a sample begins: an entry of the document index and a token offset in its sequence.
struct SampleStart {
  int64_t entry = 0;
  int64_t offset = 0;
};

/// Read-only view of a split's document, sample and shuffle index, mapped from files or held in
/// memory. Safe for any number of threads.
class GptIndex {
 public:
  using Rows = std::variant<std::span<const int32_t>, std::span<const int64_t>>;
  using Shuffle = std::variant<std::span<const uint32_t>, std::span<const int64_t>>;

  GptIndex() = default;

  /// rows: pairs, one more than there are. owner keeps the memory of all three alive.
  GptIndex(std::span<const int32_t> documents, Rows rows, Shuffle shuffle,
           std::shared_ptr<const void> owner)
      : documents_(documents), rows_(rows), shuffle_(shuffle), owner_(std::move(owner)) {}

  int64_t samples() const {
    return std::visit([](auto shuffle) { return static_cast<int64_t>(shuffle.size()); }, shuffle_);
  }

  std::span<const int32_t> documents() const { return documents_; }

  const Rows& rows() const { return rows_; }

  /// Rows that a sample may begin in: as many as samples, except in an index that reblend() has
  /// made.
  int64_t row_count() const {
    return std::visit([](auto rows) { return static_cast<int64_t>(rows.size()) / 2 - 1; }, rows_);
  }

  const Shuffle& shuffle() const { return shuffle_; }

  /// 0 <= row <= row_count().
  SampleStart start(int64_t row) const {
    return std::visit(
        [row](auto rows) {
          const auto first = 2 * static_cast<size_t>(row);
          return SampleStart{.entry = rows[first], .offset = rows[first + 1]};
        },
        rows_);
  }

  /// The row of the sample index that holds sample `sample`, 0 <= sample < samples().
  int64_t row_of(int64_t sample) const {
    return std::visit(
        [sample](auto shuffle) {
          return static_cast<int64_t>(shuffle[static_cast<size_t>(sample)]);
        },
        shuffle_);
  }

 private:
  std::span<const int32_t> documents_;
  Rows rows_;
  Shuffle shuffle_;
  std::shared_ptr<const void> owner_;
};

}  // namespace meg::samples
