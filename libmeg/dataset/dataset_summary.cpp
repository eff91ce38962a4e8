#include "libmeg/dataset/dataset_summary.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

namespace meg::dataset {
namespace {

constexpr int kHalfBits = 16;
constexpr uint32_t kHalf = 1U << kHalfBits;

/// Calls visit(length) for every length.
template <class Visit>
void visit_lengths(const IndexedDataset& dataset, const Visit& visit) {
  const auto lengths = dataset.sequence_lengths();
  std::vector<int32_t> buffer = lengths.piece_buffer();
  for (int64_t first = 0; first < lengths.size();) {
    const auto piece = lengths.copy(first, buffer);
    for (const int32_t length : piece) visit(length);
    const int64_t end = first + static_cast<int64_t>(piece.size());
    dataset.idx().release(lengths.bytes(first, end));
    first = end;
  }
}

/// Exact counts of the lengths below 65536, and of the longer ones by their upper 16 bits.
///
/// Exact percentiles from 768 KiB of counts, whatever the number of sequences: a long length that
/// is requested costs a second pass over the index, which counts the lower halves of its bucket.
struct LengthCounts {
  std::vector<int64_t> short_ones = std::vector<int64_t>(kHalf);
  std::vector<int64_t> long_ones = std::vector<int64_t>(kHalf / 2);
};

/// The place of the first count at which the running sum passes `rank`, which the sum of the counts
/// before it is then taken from.
size_t find_rank(const std::vector<int64_t>& counts, int64_t* rank) {
  size_t place = 0;
  for (; place + 1 < counts.size() && *rank >= counts[place]; ++place) *rank -= counts[place];
  return place;
}

/// The length that has `rank` lengths before it in ascending order.
int32_t length_at_rank(const IndexedDataset& dataset, const LengthCounts& counts, int64_t rank) {
  int64_t short_count = 0;
  for (const int64_t count : counts.short_ones) short_count += count;
  if (rank < short_count) return static_cast<int32_t>(find_rank(counts.short_ones, &rank));
  rank -= short_count;
  const auto upper = static_cast<uint32_t>(find_rank(counts.long_ones, &rank));
  std::vector<int64_t> lower(kHalf);
  visit_lengths(dataset, [&](int32_t length) {
    const auto bits = static_cast<uint32_t>(length);
    if (bits >> kHalfBits == upper) ++lower[bits % kHalf];
  });
  return static_cast<int32_t>(size_t{upper} * kHalf + find_rank(lower, &rank));
}

/// Bucket 0 holds the length 0, bucket k the lengths of k bits.
std::vector<LengthBucket> histogram_of(const std::array<int64_t, 32>& sequences) {
  std::vector<LengthBucket> histogram;
  for (size_t bits = 0; bits < sequences.size(); ++bits) {
    const uint32_t from = bits == 0 ? 0 : 1U << (bits - 1);
    const uint32_t to = bits == 0 ? 0 : 2 * from - 1;
    histogram.push_back({static_cast<int32_t>(from), static_cast<int32_t>(to), sequences[bits]});
  }
  const auto is_empty = [](const LengthBucket& bucket) { return bucket.sequences == 0; };
  while (!histogram.empty() && is_empty(histogram.back())) histogram.pop_back();
  const auto first = std::find_if_not(histogram.begin(), histogram.end(), is_empty);
  histogram.erase(histogram.begin(), first);
  return histogram;
}

}  // namespace

Result<LengthSummary> summarize_lengths(const IndexedDataset& dataset) {
  LengthSummary summary;
  const int64_t sequences = dataset.sequence_count();
  if (sequences == 0) return summary;
  LengthCounts counts;
  summary.min = std::numeric_limits<int32_t>::max();
  bool negative = false;
  visit_lengths(dataset, [&](int32_t length) {
    if (length < 0) {
      negative = true;
      return;
    }
    const auto bits = static_cast<uint32_t>(length);
    ++(bits < kHalf ? counts.short_ones[bits] : counts.long_ones[bits >> kHalfBits]);
    summary.total += length;
    summary.min = std::min(summary.min, length);
    summary.max = std::max(summary.max, length);
  });
  if (negative) {
    return make_error(StatusCode::kCorruption, "{}: negative sequence lengths: see verify dataset",
                      dataset.idx().path());
  }
  summary.mean = static_cast<double>(summary.total) / static_cast<double>(sequences);
  // ceil(share * sequences) - 1, in integers.
  const auto at = [&](int64_t percent) {
    const int64_t rank = (sequences / 100 * percent) + (sequences % 100 * percent + 99) / 100 - 1;
    return length_at_rank(dataset, counts, rank);
  };
  summary.median = at(50);
  summary.p90 = at(90);
  summary.p99 = at(99);
  std::array<int64_t, 32> by_bits = {};
  for (uint32_t length = 0; length < kHalf; ++length) {
    by_bits[static_cast<size_t>(std::bit_width(length))] += counts.short_ones[length];
  }
  for (uint32_t upper = 1; upper < kHalf / 2; ++upper) {
    by_bits[static_cast<size_t>(std::bit_width(upper)) + kHalfBits] += counts.long_ones[upper];
  }
  summary.histogram = histogram_of(by_bits);
  return summary;
}

}  // namespace meg::dataset
