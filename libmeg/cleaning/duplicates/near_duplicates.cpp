#include "libmeg/cleaning/duplicates/near_duplicates.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "libmeg/base/thread_pool.h"

// A bucket is sorted by its hashes, then by document, and of equal hashes each document is joined
// with the one before: the work does not grow with the square of a bucket. Clusters are the trees
// of a forest; which document is a tree's root follows from the order of the joins and their sizes,
// and datatrove keeps the root, so that both are done as there.

namespace meg::cleaning {
namespace {

constexpr int64_t kMostDocuments = std::numeric_limits<uint32_t>::max();

class Forest {
 public:
  explicit Forest(size_t documents) : parents_(documents), sizes_(documents, 1) {
    for (size_t i = 0; i < documents; ++i) parents_[i] = static_cast<uint32_t>(i);
  }

  uint32_t root(uint32_t document) {
    uint32_t root = document;
    while (parents_[root] != root) root = parents_[root];
    while (parents_[document] != root) document = std::exchange(parents_[document], root);
    return root;
  }

  /// The larger tree's root stays one; of equal ones that of a.
  void join(uint32_t a, uint32_t b) {
    a = root(a);
    b = root(b);
    if (a == b) return;
    if (sizes_[a] < sizes_[b]) std::swap(a, b);
    parents_[b] = a;
    sizes_[a] += sizes_[b];
  }

  uint32_t size(uint32_t root) const { return sizes_[root]; }

 private:
  std::vector<uint32_t> parents_, sizes_;
};

}  // namespace

NearDuplicates::NearDuplicates(const std::string& path, size_t bytes, KeptDuplicate kept)
    : kept_(kept) {
  buckets_.reserve(kBuckets);
  for (size_t i = 0; i < kBuckets; ++i) {
    buckets_.emplace_back(fmt::format("{}.bucket{:02}", path, i), bytes / kBuckets);
  }
}

Status NearDuplicates::add(int64_t document, int64_t text_bytes,
                           std::span<const uint64_t, kHashes> signature) {
  if (document >= kMostDocuments) {
    return make_error(StatusCode::kResourceExhausted,
                      "`near_duplicates`: expected fewer than {} documents", kMostDocuments);
  }
  if (kept_ == KeptDuplicate::kLongest) {
    text_bytes_.resize(static_cast<size_t>(document) + 1);
    text_bytes_.back() = text_bytes;
  }
  for (size_t i = 0; i < kBuckets; ++i) {
    Record record{.hashes = {}, .document = static_cast<uint64_t>(document)};
    std::copy_n(signature.begin() + static_cast<std::ptrdiff_t>(i * kHashesPerBucket),
                kHashesPerBucket, record.hashes.begin());
    MEG_RETURN_IF_ERROR(buckets_[i].add(record));
  }
  return {};
}

Result<NearDuplicates::Clusters> NearDuplicates::find(int64_t documents,
                                                      const std::vector<bool>& is_removed,
                                                      int threads) {
  std::vector<Status> sorted(kBuckets);
  {
    ThreadPool pool(std::min(threads, static_cast<int>(kBuckets)));
    for (size_t i = 0; i < kBuckets; ++i) {
      pool.submit([&, i] { sorted[i] = buckets_[i].finish(); });
    }
    pool.wait();
  }
  const auto count = static_cast<size_t>(documents);
  Forest forest(count);
  for (size_t i = 0; i < kBuckets; ++i) {
    MEG_RETURN_IF_ERROR(sorted[i]);
    Record record, last;
    bool has_last = false;
    while (true) {
      MEG_ASSIGN_OR_RETURN(const bool more, buckets_[i].next(record));
      if (!more) break;
      if (!is_removed.empty() && is_removed[record.document]) continue;
      if (has_last && record.hashes == last.hashes) {
        forest.join(static_cast<uint32_t>(last.document), static_cast<uint32_t>(record.document));
      }
      last = record;
      has_last = true;
    }
  }

  // The document of each tree that stays, by its root.
  std::vector<uint32_t> kept(count);
  for (size_t i = 0; i < count; ++i) kept[i] = static_cast<uint32_t>(i);
  if (kept_ != KeptDuplicate::kRoot) {
    text_bytes_.resize(kept_ == KeptDuplicate::kLongest ? count : 0);
    std::vector<bool> is_chosen(count);
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t root = forest.root(i);
      const bool is_better = !is_chosen[root] || (kept_ == KeptDuplicate::kLongest &&
                                                  text_bytes_[i] > text_bytes_[kept[root]]);
      if (is_better) kept[root] = i;
      is_chosen[root] = true;
    }
  }
  Clusters clusters;
  clusters.removed.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t root = forest.root(i);
    clusters.removed[i] = kept[root] != i;
    if (root != i || forest.size(root) < 2) continue;
    ++clusters.clusters;
    clusters.largest.push_back(forest.size(root));
    constexpr size_t kReported = 10;
    if (clusters.largest.size() < 2 * kReported) continue;
    std::sort(clusters.largest.begin(), clusters.largest.end(), std::greater<>());
    clusters.largest.resize(kReported);
  }
  std::sort(clusters.largest.begin(), clusters.largest.end(), std::greater<>());
  clusters.largest.resize(std::min<size_t>(clusters.largest.size(), 10));
  return clusters;
}

}  // namespace meg::cleaning
