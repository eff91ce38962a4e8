#pragma once

#include <cstdint>

#include "libmeg/base/result.h"
#include "libmeg/samples/gpt_index.h"
#include "libmeg/samples/sample_dataset.h"

namespace meg::samples {

/// Calls visit(const SamplePart&), which returns a Status, for each run of tokens of the sample in
/// row `row` of the sample index, 0 <= row < index.row_count(). length_of(sequence): tokens of a
/// sequence of the dataset, negative where there is no such. kCorruption where the index points
/// outside the data; parts given until then are valid. Mirrors Megatron-LM
/// megatron/core/datasets/gpt_dataset.py: GPTDataset._query_document_sample_shuffle_indices.
template <class LengthOf, class Visit>
Status walk_sample(const GptIndex& index, int64_t row, int64_t extra_token,
                   const LengthOf& length_of, const Visit& visit) {
  const SampleStart begin = index.start(row);
  const SampleStart end = index.start(row + 1);
  const auto entries = static_cast<int64_t>(index.documents().size());
  if (begin.entry < 0 || end.entry < begin.entry || end.entry >= entries) {
    return make_error(StatusCode::kCorruption,
                      "sample index: row {}: expected entries of a document index of {}, found {} "
                      "to {}",
                      row, entries, begin.entry, end.entry);
  }
  for (int64_t entry = begin.entry; entry <= end.entry; ++entry) {
    const int64_t sequence = index.documents()[static_cast<size_t>(entry)];
    const int64_t length = length_of(sequence);
    const int64_t from = entry == begin.entry ? begin.offset : 0;
    const int64_t to = entry == end.entry ? end.offset + extra_token : length;
    if (length < 0 || from < 0 || to < from || to > length) {
      return make_error(StatusCode::kCorruption,
                        "sample index: row {}: expected tokens of sequence {} of length {}, found "
                        "{} to {}",
                        row, sequence, length, from, to);
    }
    MEG_RETURN_IF_ERROR(
        visit(SamplePart{.sequence = sequence, .offset = from, .length = to - from}));
  }
  return {};
}

}  // namespace meg::samples
