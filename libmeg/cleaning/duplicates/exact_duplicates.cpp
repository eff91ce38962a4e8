#include "libmeg/cleaning/duplicates/exact_duplicates.h"

#include <xxhash.h>

namespace meg::cleaning {
namespace {

/// Of an unordered_set, with its bucket, while the table grows.
constexpr size_t kBytesPerDigest = 64;

}  // namespace

TextDigest text_digest(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return {.high = hash.high64, .low = hash.low64};
}

// Half of the memory is the set's, half that of what is decided at the end.
ExactDuplicates::ExactDuplicates(const std::string& path, size_t bytes)
    : most_(bytes / 2 / kBytesPerDigest), undecided_(path + ".digests", bytes / 2) {}

Result<ExactDuplicates::Answer> ExactDuplicates::add(int64_t document, const TextDigest& digest) {
  if (!is_full_ && seen_.size() < most_) {
    return seen_.insert(digest).second ? Answer::kNew : Answer::kRepeated;
  }
  if (seen_.contains(digest)) return Answer::kRepeated;
  is_full_ = true;
  MEG_RETURN_IF_ERROR(
      undecided_.add({.digest = digest, .document = static_cast<uint64_t>(document)}));
  return Answer::kUndecided;
}

Status ExactDuplicates::find(std::vector<bool>& removed) {
  MEG_RETURN_IF_ERROR(undecided_.finish());
  Record record, last;
  bool has_last = false;
  while (true) {
    MEG_ASSIGN_OR_RETURN(const bool more, undecided_.next(record));
    if (!more) return {};
    if (has_last && record.digest == last.digest) removed[record.document] = true;
    last = record;
    has_last = true;
  }
}

}  // namespace meg::cleaning
