#include "libmeg/samples/internal/sequence_samples.h"

#include <algorithm>

namespace meg::samples {
namespace {

/// The first row of the sample index that begins in document index entry `entry` or after it.
int64_t first_row_at(const GptIndex& index, int64_t entry) {
  int64_t first = 0;
  int64_t count = index.row_count() + 1;
  while (count > 0) {
    const int64_t half = count / 2;
    if (index.start(first + half).entry < entry) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return first;
}

/// Marks the rows whose samples hold tokens of document index entry `entry`, a sequence of `length`
/// tokens.
void mark_rows(const GptIndex& index, int64_t extra_token, int64_t entry, int64_t length,
               std::vector<bool>& marked) {
  // The sample before may end in this entry.
  const int64_t first = std::max<int64_t>(first_row_at(index, entry) - 1, 0);
  for (int64_t row = first; row < index.row_count(); ++row) {
    const SampleStart start = index.start(row);
    const SampleStart next = index.start(row + 1);
    // Rows ascend: none after this one begins before the entry ends.
    if (start.entry > entry) return;
    const int64_t begin = start.entry == entry ? start.offset : 0;
    int64_t end = length;
    // A sample reads beyond its successor's begin by the extra token.
    if (next.entry <= entry) end = next.entry == entry ? next.offset + extra_token : 0;
    if (begin < std::min(end, length)) marked[static_cast<size_t>(row)] = true;
  }
}

}  // namespace

Result<std::vector<int64_t>> samples_with_sequences(const GptIndex& index, const GptIndexPlan& plan,
                                                    dataset::LittleEndianArray<int32_t> lengths,
                                                    dataset::SequenceRange range) {
  range.begin = std::max<int64_t>(range.begin, 0);
  range.end = std::min(range.end, lengths.size());
  std::vector<bool> marked(static_cast<size_t>(index.row_count()));
  const std::span<const int32_t> documents = index.documents();
  // Go from entries to rows and from rows to samples: two passes over indices instead of a walk
  // along every sample's text.
  for (size_t entry = 0; entry < documents.size(); ++entry) {
    const int64_t sequence = documents[entry];
    if (sequence < range.begin || sequence >= range.end || lengths[sequence] <= 0) continue;
    mark_rows(index, plan.extra_token, static_cast<int64_t>(entry), lengths[sequence], marked);
  }
  std::vector<int64_t> samples;
  for (int64_t sample = 0; sample < index.samples(); ++sample) {
    const int64_t row = index.row_of(sample);
    if (row < 0 || row >= index.row_count()) {
      return make_error(StatusCode::kCorruption,
                        "shuffle index: entry {}: expected 0 to {}, found {}", sample,
                        index.row_count() - 1, row);
    }
    if (marked[static_cast<size_t>(row)]) samples.push_back(sample);
  }
  return samples;
}

}  // namespace meg::samples
