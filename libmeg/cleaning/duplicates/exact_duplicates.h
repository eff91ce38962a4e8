#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/cleaning/duplicates/external_sorter.h"

namespace meg::cleaning {

/// The XXH3-128 of a text, never 0.
struct TextDigest {
  uint64_t high = 0, low = 0;

  auto operator<=>(const TextDigest&) const = default;
};

TextDigest text_digest(std::string_view text);

/// Tells texts that came before, by their digests. Those that no longer fit into memory are decided
/// at the end, with the help of a temporary file.
class ExactDuplicates {
 public:
  enum class Answer { kNew, kRepeated, kUndecided };

  /// path: of the temporary file. bytes: of memory.
  ExactDuplicates(const std::string& path, size_t bytes);

  /// Once the answer was kUndecided, it is that or kRepeated. document: in ascending order.
  Result<Answer> add(int64_t document, const TextDigest& digest);

  /// Whether an answer was kUndecided.
  bool is_undecided() const { return is_full_; }

  /// Sets removed[document] for those that were undecided and came before.
  Status find(std::vector<bool>& removed);

 private:
  struct Record {
    TextDigest digest;
    uint64_t document = 0;

    auto operator<=>(const Record&) const = default;
  };

  bool is_crowded() const { return count_ >= seen_.size() / 4 * 3; }

  /// Where a digest is, or has its place.
  TextDigest& slot_of(const TextDigest& digest);

  void grow();

  size_t most_;  // slots
  bool is_full_ = false;
  std::vector<TextDigest> seen_;  // slots of a hash table, probed one after another; 0 where empty
  size_t count_ = 0;
  ExternalSorter<Record> undecided_;
};

}  // namespace meg::cleaning
