#include "libmeg/cleaning/duplicates/clusters.h"

#include <algorithm>
#include <cmath>

// Clusters are the trees of a forest; which document is a tree's root follows from the order of the
// joins and the sizes of trees, and datatrove keeps the root, so that both are done as there.

namespace meg::cleaning {

Status Clusters::add_facts(int64_t document, const DocumentFacts& facts) {
  if (!asks_for_facts(kept_)) return {};
  double rank = static_cast<double>(facts.text_bytes);
  if (kept_ != KeptDuplicate::kLongest) {
    rank = kept_ == KeptDuplicate::kHighest ? facts.key_value : -facts.key_value;
    if (std::isnan(rank)) ++without_value_, rank = kNoRank;
  }
  MEG_RETURN_IF_ERROR(ranks_.grow(static_cast<size_t>(document) + 1, kNoRank));
  ranks_[static_cast<size_t>(document)] = rank;
  return {};
}

Status Clusters::choose() {
  if (kept_ == KeptDuplicate::kRoot) return {};
  const uint32_t count = sets_.count();
  MEG_RETURN_IF_ERROR(stays_.grow(count));
  std::vector<bool> is_chosen(count);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t tree = sets_.root(i);
    if (!is_chosen[tree] || rank(i) > rank(stays_[tree])) stays_[tree] = i;
    is_chosen[tree] = true;
  }
  return {};
}

Result<Clusters::Found> Clusters::find() {
  MEG_RETURN_IF_ERROR(choose());
  const uint32_t count = sets_.count();
  Found found;
  found.removed.resize(count);
  static constexpr size_t kReported = 10;
  std::vector<uint32_t> largest;  // roots
  const auto keep_largest = [&largest, this] {
    std::stable_sort(largest.begin(), largest.end(),
                     [this](uint32_t a, uint32_t b) { return sets_.size(a) > sets_.size(b); });
    largest.resize(std::min(largest.size(), kReported));
  };
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t tree = sets_.root(i);
    found.removed[i] = kept(tree) != i;
    if (tree != i || sets_.size(tree) < 2) continue;
    ++found.clusters;
    largest.push_back(tree);
    if (largest.size() >= 2 * kReported) keep_largest();
  }
  keep_largest();
  for (const uint32_t tree : largest) {
    found.largest.push_back(
        {.documents = sets_.size(tree), .kept = kept(tree), .removed = kept(tree)});
  }
  size_t left = largest.size();  // whose first removed document was not met
  for (uint32_t i = 0; i < count && left > 0; ++i) {
    if (!found.removed[i]) continue;
    const auto place = std::find(largest.begin(), largest.end(), sets_.root(i));
    if (place == largest.end()) continue;
    Cluster& cluster = found.largest[static_cast<size_t>(place - largest.begin())];
    if (cluster.removed != cluster.kept) continue;
    cluster.removed = i;
    --left;
  }
  return found;
}

}  // namespace meg::cleaning
