#include "libmeg/samples/internal/gpt_dataset.h"

#include <algorithm>

#include "libmeg/samples/internal/sample_walk.h"
#include "libmeg/samples/internal/sequence_samples.h"

// An index may come from a file that Megatron or somebody else wrote, so nothing that it says is
// used unchecked: rows, sequences and lengths are looked at as samples are requested, since looking
// at all of them first would read gigabytes.

namespace meg::samples {

Result<int64_t> GptDataset::row_of(int64_t sample, const GptIndex& index) const {
  if (sample < 0 || sample >= size()) {
    return make_error(StatusCode::kOutOfRange, "{}: sample {}: expected 0 to {}", prefix_, sample,
                      size() - 1);
  }
  const int64_t row = index.row_of(sample);
  if (row >= 0 && row < index.row_count()) return row;
  return make_error(StatusCode::kCorruption,
                    "{}: shuffle index: sample {}: expected a row of 0 to {}, found {}", prefix_,
                    sample, index.row_count() - 1, row);
}

template <class Visit>
Status GptDataset::walk(int64_t sample, const GptIndex& index,
                        const dataset::IndexedDataset& dataset, const Visit& visit) const {
  MEG_ASSIGN_OR_RETURN(const int64_t row, row_of(sample, index));
  const auto length_of = [&](int64_t sequence) -> int64_t {
    if (sequence < 0 || sequence >= dataset.sequence_count()) return -1;
    return dataset.sequence_lengths()[sequence];
  };
  const Status walked = walk_sample(index, row, plan_.extra_token, length_of, visit);
  return walked.ok() ? walked : walked.with_prefix(prefix_);
}

Status GptDataset::text(int64_t sample, int64_t pad, std::span<int64_t> out) const {
  MEG_ASSIGN_OR_RETURN(const auto dataset, dataset_->pin());
  MEG_ASSIGN_OR_RETURN(const auto index, index_->pin());
  auto left = out.first(static_cast<size_t>(text_length()));
  const auto copy = [&](const SamplePart& part) -> Status {
    const auto length = static_cast<size_t>(part.length);
    // The index is data from a file: what it says is measured against the room before anything is
    // copied.
    if (length > left.size()) {
      return make_error(StatusCode::kCorruption,
                        "sample index: sample {}: expected {} tokens, found more", sample,
                        text_length());
    }
    MEG_RETURN_IF_ERROR(dataset->copy_tokens(part.sequence, part.offset, left.first(length)));
    left = left.subspan(length);
    return {};
  };
  MEG_RETURN_IF_ERROR(walk(sample, *index, *dataset, copy));
  // Only a last, partial sample leaves room.
  std::fill(left.begin(), left.end(), pad);
  return {};
}

Result<SampleSource> GptDataset::source(int64_t sample) const {
  MEG_ASSIGN_OR_RETURN(const auto dataset, dataset_->pin());
  MEG_ASSIGN_OR_RETURN(const auto index, index_->pin());
  SampleSource source;
  const auto add = [&source](const SamplePart& part) -> Status {
    source.parts.push_back(part);
    return {};
  };
  MEG_RETURN_IF_ERROR(walk(sample, *index, *dataset, add));
  return source;
}

Result<std::vector<int64_t>> GptDataset::samples_with(int64_t dataset,
                                                      dataset::SequenceRange range) const {
  if (dataset != 0) return std::vector<int64_t>();
  MEG_ASSIGN_OR_RETURN(const auto data, dataset_->pin());
  MEG_ASSIGN_OR_RETURN(const auto index, index_->pin());
  auto samples = samples_with_sequences(*index, plan_, data->sequence_lengths(), range);
  if (!samples.has_value()) return samples.error().with_prefix(prefix_);
  return samples;
}

}  // namespace meg::samples
