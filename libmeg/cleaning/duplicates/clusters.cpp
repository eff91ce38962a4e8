#include "libmeg/cleaning/duplicates/clusters.h"

#include <algorithm>
#include <cmath>
#include <numeric>

// Clusters are the trees of a forest; which document is a tree's root follows from the order of the
// joins and the sizes of trees, and datatrove keeps the root, so that both are done as there.

namespace meg::cleaning {

void Clusters::add_facts(int64_t document, const DocumentFacts& facts) {
  if (!asks_for_facts(kept_)) return;
  double rank = static_cast<double>(facts.text_bytes);
  if (kept_ != KeptDuplicate::kLongest) {
    rank = kept_ == KeptDuplicate::kHighest ? facts.key_value : -facts.key_value;
    if (std::isnan(rank)) ++without_value_, rank = kNoRank;
  }
  ranks_.resize(static_cast<size_t>(document) + 1, kNoRank);
  ranks_.back() = rank;
}

Clusters::Found Clusters::find() {
  const auto count = sets_.count();
  // The document of each tree that stays, by its root.
  std::vector<uint32_t> kept(count);
  std::iota(kept.begin(), kept.end(), 0);
  if (kept_ != KeptDuplicate::kRoot) {
    std::vector<bool> is_chosen(count);
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t tree = sets_.root(i);
      if (!is_chosen[tree] || rank(i) > rank(kept[tree])) kept[tree] = i;
      is_chosen[tree] = true;
    }
  }
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
    found.removed[i] = kept[tree] != i;
    if (tree != i || sets_.size(tree) < 2) continue;
    ++found.clusters;
    largest.push_back(tree);
    if (largest.size() >= 2 * kReported) keep_largest();
  }
  keep_largest();
  for (const uint32_t tree : largest) {
    found.largest.push_back(
        {.documents = sets_.size(tree), .kept = kept[tree], .removed = kept[tree]});
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
