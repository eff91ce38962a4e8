#include "libmeg/cleaning/duplicates/bucket.h"

#include <algorithm>

namespace meg::cleaning {

Status Bucket::add(uint32_t document, std::span<const uint64_t, kHashesPerBucket> hashes) {
  Record record{.hashes = {}, .document = document};
  std::copy(hashes.begin(), hashes.end(), record.hashes.begin());
  return sorter_.add(record);
}

Result<PairCounts> Bucket::find_pairs(const std::vector<bool>& is_removed,
                                      const PairVerification* verification, const Tick& tick,
                                      const Join& join) {
  constexpr size_t kMostLeaders = 16;
  constexpr int64_t kTickInterval = int64_t{1} << 16;
  PairCounts counts;
  std::vector<uint32_t> leaders;  // without verification the document before
  Record record, last;
  for (int64_t signatures = 0;; ++signatures) {
    if (signatures % kTickInterval == 0) MEG_RETURN_IF_ERROR(tick(signatures));
    MEG_ASSIGN_OR_RETURN(const bool more, sorter_.next(record));
    if (!more) return counts;
    if (!is_removed.empty() && is_removed[record.document]) continue;
    const auto document = static_cast<uint32_t>(record.document);
    if (record.hashes != last.hashes) leaders.clear();
    bool is_joined = false;
    for (size_t i = 0; i < leaders.size() && !is_joined; ++i) {
      ++counts.candidates;
      is_joined = true;
      if (verification != nullptr) {
        MEG_ASSIGN_OR_RETURN(is_joined, verification->shingles.are_similar(leaders[i], document,
                                                                           verification->least));
      }
      if (!is_joined) continue;
      MEG_RETURN_IF_ERROR(join(leaders[i], document));
      ++counts.joined;
    }
    if (verification == nullptr) {
      leaders.assign(1, document);
    } else if (!is_joined && leaders.size() < kMostLeaders) {
      leaders.push_back(document);
    }
    last = record;
  }
}

}  // namespace meg::cleaning
