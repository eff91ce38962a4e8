#include "libmeg/dataset/dataset_statistics.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <mutex>
#include <span>
#include <type_traits>
#include <utility>

#include "libmeg/base/thread_pool.h"
#include "libmeg/dataset/internal/item_types.h"

namespace meg::dataset {
namespace {

/// Ids are smaller: a table of counts has at most this many entries.
constexpr int64_t kMostIds = int64_t{1} << 24;
/// Documents that a thread takes at a time.
constexpr int64_t kDocumentBlock = int64_t{1} << 14;

struct HashedDocument {
  uint64_t hash = 0;
  int64_t document = 0;

  bool operator<(const HashedDocument& other) const {
    return std::pair(hash, document) < std::pair(other.hash, other.document);
  }
};

/// How often ids are there. Counts of 32 bits, which stay in the cache, and the sums of these.
class IdCounter {
 public:
  /// Number of the first item that is no id; -1: all are.
  template <class T>
  int64_t count(const LittleEndianArray<T>& ids) {
    if (ids.size() > kMost - pending_) flush();
    pending_ += ids.size();
    if constexpr (std::is_unsigned_v<T>) {
      constexpr size_t kAll = size_t{1} << (8 * sizeof(T));
      if (recent_.size() < kAll) recent_.resize(kAll);
      uint32_t* const counts = recent_.data();
      for (int64_t i = 0; i < ids.size(); ++i) ++counts[ids[i]];
      return -1;
    } else {
      for (int64_t i = 0; i < ids.size(); ++i) {
        const int64_t id = ids[i];
        if (static_cast<uint64_t>(id) >= recent_.size()) {
          if (id < 0 || id >= kMostIds) return i;
          recent_.resize(static_cast<size_t>(std::max<int64_t>(id + 1, 1 << 16)));
        }
        ++recent_[static_cast<size_t>(id)];
      }
      return -1;
    }
  }

  void add_to(std::vector<int64_t>& all) {
    flush();
    all.resize(std::max(all.size(), sums_.size()));
    for (size_t id = 0; id < sums_.size(); ++id) all[id] += sums_[id];
  }

 private:
  static constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();

  void flush() {
    sums_.resize(recent_.size());
    for (size_t id = 0; id < recent_.size(); ++id) sums_[id] += std::exchange(recent_[id], 0);
    pending_ = 0;
  }

  std::vector<uint32_t> recent_;
  std::vector<int64_t> sums_;
  int64_t pending_ = 0;
};

class StatisticsReader {
 public:
  StatisticsReader(const IndexedDataset& set, const StatisticsOptions& options)
      : set_(set), options_(options) {}

  Result<DatasetStatistics> run() {
    if (set_.dtype() == DType::kFloat32 || set_.dtype() == DType::kFloat64) {
      return make_error(StatusCode::kInvalidArgument, "{}: {} items are not token ids",
                        set_.prefix(), dtype_name(set_.dtype()));
    }
    found_.documents = set_.document_count();
    found_.sequences = set_.sequence_count();
    hashes_.resize(static_cast<size_t>(found_.documents));
    lengths_.resize(static_cast<size_t>(found_.documents));
    ThreadPool pool(options_.workers);
    for (int i = 0; i < pool.threads(); ++i) pool.submit([this] { read_blocks(); });
    pool.wait();
    MEG_RETURN_IF_ERROR(status_);
    drop_single_hashes();
    std::sort(hashes_.begin(), hashes_.end());
    MEG_RETURN_IF_ERROR(find_duplicates());
    summarize_document_lengths();
    return std::move(found_);
  }

 private:
  void read_blocks() {
    IdCounter counts;
    while (true) {
      int64_t begin = 0;
      {
        const std::lock_guard lock(mutex_);
        if (!status_.ok() || next_ >= found_.documents) break;
        begin = std::exchange(next_, next_ + kDocumentBlock);
      }
      const int64_t end = std::min(begin + kDocumentBlock, found_.documents);
      int64_t items = 0;
      Status status = read_block(begin, end, counts, items);
      const std::lock_guard lock(mutex_);
      found_.items += items;
      read_ += end - begin;
      if (status.ok() && options_.progress &&
          !options_.progress({.documents = read_, .tokens = found_.items})) {
        status = Status(StatusCode::kCancelled, set_.prefix() + ": cancelled");
      }
      if (status_.ok()) status_ = std::move(status);
    }
    const std::lock_guard lock(mutex_);
    counts.add_to(found_.token_counts);
  }

  Status read_block(int64_t begin, int64_t end, IdCounter& counts, int64_t& all_items) {
    const std::byte* first = nullptr;
    const std::byte* last = nullptr;
    for (int64_t document = begin; document < end; ++document) {
      MEG_ASSIGN_OR_RETURN(const SequenceRange range, set_.document(document));
      uint64_t hash = 0;
      int64_t bytes = 0;
      for (int64_t at = range.begin; at < range.end; ++at) {
        MEG_ASSIGN_OR_RETURN(const auto items, set_.sequence(at));
        hash = XXH3_64bits_withSeed(items.data(), items.size(), hash);
        bytes += std::ssize(items);
        MEG_RETURN_IF_ERROR(count(at, items, counts));
        if (items.empty()) continue;
        first = first == nullptr ? items.data() : std::min(first, items.data());
        last = std::max(last, items.data() + items.size());
      }
      hashes_[static_cast<size_t>(document)] = {hash, document};
      lengths_[static_cast<size_t>(document)] = bytes / set_.item_size();
      all_items += bytes / set_.item_size();
    }
    // Where the documents lie together, as they do unless this is a view, their pages are done
    // with.
    if (first != nullptr && last - first <= 2 * all_items * set_.item_size()) {
      set_.bin().release({first, last});
    }
    return {};
  }

  Status count(int64_t sequence, std::span<const std::byte> items, IdCounter& counts) const {
    return with_integer_type(set_.dtype(), [&]<class T>(T) -> Status {
      const LittleEndianArray<T> ids(items);
      const int64_t wrong = counts.count(ids);
      if (wrong < 0) return {};
      return make_error(StatusCode::kOutOfRange,
                        "{}: sequence {}, item {}: expected an id from 0 to {}, found {}",
                        set_.bin().path(), sequence, wrong, kMostIds - 1, ids[wrong]);
    });
  }

  /// Whether two documents have the same sequences. Their hashes are.
  Result<bool> are_equal(int64_t a, int64_t b) const {
    MEG_ASSIGN_OR_RETURN(const SequenceRange left, set_.document(a));
    MEG_ASSIGN_OR_RETURN(const SequenceRange right, set_.document(b));
    if (left.end - left.begin != right.end - right.begin) return false;
    for (int64_t i = 0; i < left.end - left.begin; ++i) {
      MEG_ASSIGN_OR_RETURN(const auto one, set_.sequence(left.begin + i));
      MEG_ASSIGN_OR_RETURN(const auto other, set_.sequence(right.begin + i));
      if (!std::ranges::equal(one, other)) return false;
    }
    return true;
  }

  /// Most of the hashes that are there once, as nearly all are: sorting takes longer than this.
  void drop_single_hashes() {
    // At least 8 slots a hash: an eighth of the single ones shares its slot and stays.
    const int bits = static_cast<int>(std::bit_width(hashes_.size())) + 3;
    std::vector<bool> once(size_t{1} << bits), again(size_t{1} << bits);
    const auto slot = [bits](const HashedDocument& each) { return each.hash >> (64 - bits); };
    for (const HashedDocument& each : hashes_) {
      const size_t at = slot(each);
      if (once[at]) again[at] = true;
      once[at] = true;
    }
    std::erase_if(hashes_, [&](const HashedDocument& each) { return !again[slot(each)]; });
  }

  Status find_duplicates() {
    for (size_t begin = 0; begin < hashes_.size();) {
      size_t end = begin + 1;
      while (end < hashes_.size() && hashes_[end].hash == hashes_[begin].hash) ++end;
      // Usually one; two where different documents have one hash.
      std::vector<RepeatedDocument> kinds;
      for (size_t i = begin; i < end && end - begin > 1; ++i) {
        const int64_t document = hashes_[i].document;
        size_t kind = 0;
        for (; kind < kinds.size(); ++kind) {
          MEG_ASSIGN_OR_RETURN(const bool equal, are_equal(kinds[kind].document, document));
          if (equal) break;
        }
        if (kind == kinds.size()) {
          kinds.push_back({document, 0, lengths_[static_cast<size_t>(document)]});
        }
        ++kinds[kind].count;
      }
      for (const RepeatedDocument& kind : kinds) {
        if (kind.count > 1) take(kind);
      }
      begin = end;
    }
    return {};
  }

  void take(const RepeatedDocument& repeated) {
    found_.duplicates += repeated.count - 1;
    found_.duplicate_items += (repeated.count - 1) * repeated.items;
    auto& most = found_.most_frequent;
    const auto is_before = [](const RepeatedDocument& a, const RepeatedDocument& b) {
      return std::pair(-a.count, a.document) < std::pair(-b.count, b.document);
    };
    most.insert(std::upper_bound(most.begin(), most.end(), repeated, is_before), repeated);
    if (most.size() > options_.most) most.pop_back();
  }

  void summarize_document_lengths() {
    if (lengths_.empty()) return;
    found_.empty_documents = std::ranges::count(lengths_, 0);
    const auto at_share = [this](int64_t percent) {
      const int64_t rank = (std::ssize(lengths_) * percent + 99) / 100;
      const auto nth = lengths_.begin() + std::max<int64_t>(rank - 1, 0);
      std::nth_element(lengths_.begin(), nth, lengths_.end());
      return *nth;
    };
    found_.min = at_share(0);
    found_.median = at_share(50);
    found_.p90 = at_share(90);
    found_.p99 = at_share(99);
    found_.max = at_share(100);
    // Lengths of one number of bits.
    std::vector<DocumentLengths>& histogram = found_.length_histogram;
    histogram.resize(static_cast<size_t>(std::bit_width(static_cast<uint64_t>(found_.max))) + 1);
    for (const int64_t length : lengths_) {
      DocumentLengths& bucket = histogram[std::bit_width(static_cast<uint64_t>(length))];
      ++bucket.documents;
      bucket.items += length;
    }
    for (size_t bits = 1; bits < histogram.size(); ++bits) {
      histogram[bits].from = int64_t{1} << (bits - 1);
      histogram[bits].to = 2 * histogram[bits].from - 1;
    }
    const auto is_filled = [](const DocumentLengths& bucket) { return bucket.documents > 0; };
    histogram.erase(histogram.begin(), std::ranges::find_if(histogram, is_filled));
  }

  const IndexedDataset& set_;
  const StatisticsOptions& options_;
  DatasetStatistics found_;
  std::vector<HashedDocument> hashes_;
  std::vector<int64_t> lengths_;
  std::mutex mutex_;
  int64_t next_ = 0;  // mutex_
  int64_t read_ = 0;  // mutex_
  Status status_;     // mutex_
};

}  // namespace

std::vector<TokenCount> DatasetStatistics::most_frequent_tokens(size_t most) const {
  std::vector<TokenCount> counts;
  for (size_t id = 0; id < token_counts.size(); ++id) {
    if (token_counts[id] > 0) counts.push_back({static_cast<int64_t>(id), token_counts[id]});
  }
  std::ranges::stable_sort(counts, std::greater(), &TokenCount::count);
  counts.resize(std::min(counts.size(), most));
  return counts;
}

Result<DatasetStatistics> dataset_statistics(const IndexedDataset& dataset,
                                             const StatisticsOptions& options) {
  return StatisticsReader(dataset, options).run();
}

}  // namespace meg::dataset
