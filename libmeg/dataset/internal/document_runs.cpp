#include "libmeg/dataset/internal/document_runs.h"

#include <algorithm>
#include <numeric>

namespace meg::dataset {
namespace {

/// Sequences of a bucket, whose entries fit the cache.
constexpr int64_t kBucket = int64_t{1} << 16;
/// Sequences whose entries are mapped at once.
constexpr int64_t kMapped = 16 * kBucket;

bool is_single(const DocumentRun& run) { return run.sequences.end - run.sequences.begin == 1; }

}  // namespace

bool documents_are_sequences(const IndexedDataset& source) {
  if (source.sequence_count() != source.document_count()) return false;
  const auto documents = source.document_indices();
  constexpr int64_t kPiece = int64_t{1} << 18;
  for (int64_t begin = 0; begin < documents.size(); begin += kPiece) {
    const int64_t end = std::min(begin + kPiece, documents.size());
    for (int64_t at = begin; at < end; ++at) {
      if (documents[at] != at) return false;
    }
    source.idx().release(documents.bytes(begin, end));
  }
  return true;
}

void SingleSequences::look_up(const IndexedDataset& source, std::span<const DocumentRun> runs) {
  const int64_t sequences = source.sequence_count();
  const auto buckets = static_cast<size_t>(sequences / kBucket) + 1;
  const auto bucket_of = [](const DocumentRun& run) {
    return static_cast<size_t>(run.sequences.begin / kBucket);
  };
  lengths_.assign(runs.size(), 0);
  pointers_.assign(runs.size(), 0);
  ends_.assign(buckets + 1, 0);
  for (const DocumentRun& run : runs) {
    if (is_single(run)) ++ends_[bucket_of(run) + 1];
  }
  std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
  places_.resize(ends_.back());
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!is_single(runs[i])) continue;
    places_[ends_[bucket_of(runs[i])]++] = {
        static_cast<uint32_t>(runs[i].sequences.begin % kBucket), static_cast<uint32_t>(i)};
  }
  const auto lengths = source.sequence_lengths();
  const auto pointers = source.sequence_pointers();
  size_t at = 0, released = 0;
  for (size_t bucket = 0; bucket < buckets; ++bucket) {
    const int64_t begin = static_cast<int64_t>(bucket) * kBucket;
    for (; at < ends_[bucket]; ++at) {
      const auto& [offset, run] = places_[at];
      lengths_[run] = lengths[begin + offset];
      pointers_[run] = pointers[begin + offset];
    }
    const int64_t end = std::min(begin + kBucket, sequences);
    if (at == released || (end % kMapped != 0 && end != sequences)) continue;
    released = at;
    const int64_t mapped = (end - 1) / kMapped * kMapped;
    source.idx().release(lengths.bytes(mapped, end));
    source.idx().release(pointers.bytes(mapped, end));
  }
}

}  // namespace meg::dataset
