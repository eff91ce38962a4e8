#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "libmeg/checkpoint/container/pickle/pickle_opcode.h"

namespace meg::checkpoint {

/// Limit on the memory of all pickles of a checkpoint, in proportion to the bytes of its files. A
/// value of a pickle takes at least one byte, usually several; deflated pickles shrink by about a
/// tenth. Several threads may share one budget.
class PickleBudget {
 public:
  /// file_bytes: of all files that are opened under it.
  explicit PickleBudget(uint64_t file_bytes)
      : values_(kLeastValues + file_bytes / 2), inflated_bytes_(kLeastBytes + 32 * file_bytes) {}

  /// Values that the next pickle may have.
  size_t values() const {
    return static_cast<size_t>(std::min<uint64_t>(values_, kMaxPickleNodes));
  }

  /// Bytes that the next deflated pickle may have.
  uint64_t inflated_bytes() const { return std::min<uint64_t>(inflated_bytes_, kMaxPickleBytes); }

  void take_values(uint64_t count) { take(&values_, count); }

  void take_inflated_bytes(uint64_t count) { take(&inflated_bytes_, count); }

 private:
  static constexpr uint64_t kLeastValues = uint64_t{1} << 16;
  static constexpr uint64_t kLeastBytes = uint64_t{1} << 20;

  static void take(std::atomic<uint64_t>* left, uint64_t count) {
    uint64_t before = *left;
    while (!left->compare_exchange_weak(before, before - std::min(before, count))) {
    }
  }

  std::atomic<uint64_t> values_;
  std::atomic<uint64_t> inflated_bytes_;
};

}  // namespace meg::checkpoint
