#include "libmeg/cleaning/duplicates/exact_duplicates.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

namespace meg::cleaning {
namespace {

constexpr size_t kFewestSlots = 1024;
/// While the table grows there is a smaller one beside it.
constexpr size_t kBytesPerSlot = 2 * sizeof(TextDigest);

}  // namespace

TextDigest text_digest(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  const TextDigest digest{.high = hash.high64, .low = hash.low64};
  return digest == TextDigest() ? TextDigest{.high = 0, .low = 1} : digest;
}

// Half of the memory is the set's, half that of what is decided at the end.
ExactDuplicates::ExactDuplicates(const std::string& path, size_t bytes)
    : most_(std::max(bytes / 2 / kBytesPerSlot, kFewestSlots)),
      undecided_(path + ".digests", bytes / 2) {}

TextDigest& ExactDuplicates::slot_of(const TextDigest& digest) {
  size_t at = digest.low % seen_.size();
  while (seen_[at] != digest && seen_[at] != TextDigest()) at = at + 1 == seen_.size() ? 0 : at + 1;
  return seen_[at];
}

void ExactDuplicates::grow() {
  const size_t size = std::min(std::max(2 * seen_.size(), kFewestSlots), most_);
  const std::vector<TextDigest> old = std::exchange(seen_, std::vector<TextDigest>(size));
  for (const TextDigest& digest : old) {
    if (digest != TextDigest()) slot_of(digest) = digest;
  }
}

Result<ExactDuplicates::Answer> ExactDuplicates::add(int64_t document, const TextDigest& digest) {
  if (is_crowded() && seen_.size() < most_) grow();
  TextDigest& slot = slot_of(digest);
  if (slot == digest) return Answer::kRepeated;
  if (!is_full_ && !is_crowded()) {
    slot = digest;
    ++count_;
    return Answer::kNew;
  }
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
