#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/cleaning/clean.h"
#include "libmeg/cleaning/duplicates/external_sorter.h"
#include "libmeg/cleaning/duplicates/min_hash.h"

namespace meg::cleaning {

/// Finds documents that are nearly alike among many: those that have all 8 hashes of one of the 14
/// buckets in common, and those that are so connected. Memory: that of the records of signatures,
/// which is given, and 8 bytes a document, 16 where the longest one stays.
class NearDuplicates {
 public:
  /// path: of temporary files. bytes: of memory for the records.
  NearDuplicates(const std::string& path, size_t bytes, KeptDuplicate kept);

  /// Documents must come in ascending order. kResourceExhausted from 2^32 - 1 documents on.
  Status add(int64_t document, int64_t text_bytes, std::span<const uint64_t, kHashes> signature);

  struct Clusters {
    std::vector<bool> removed;     ///< By document.
    int64_t clusters = 0;          ///< Of two documents or more.
    std::vector<int64_t> largest;  ///< The sizes of the largest ones.
  };

  /// documents: how many there are, those without a signature included. is_removed: of documents
  /// that do not count. threads: that sort.
  Result<Clusters> find(int64_t documents, const std::vector<bool>& is_removed, int threads);

 private:
  struct Record {
    std::array<uint64_t, kHashesPerBucket> hashes{};
    uint64_t document = 0;

    auto operator<=>(const Record&) const = default;
  };

  KeptDuplicate kept_;
  std::vector<ExternalSorter<Record>> buckets_;
  std::vector<int64_t> text_bytes_;  // where they are asked for
};

}  // namespace meg::cleaning
