#include "libmeg/samples/internal/gpt_dataset.h"

#include <algorithm>

#include "libmeg/samples/internal/sample_walk.h"
#include "libmeg/samples/internal/sequence_samples.h"

// An index may come from a file that Megatron or somebody else wrote, so nothing that it says is
// used unchecked: rows, sequences and lengths are looked at as samples are requested, since looking
// at all of them first would read gigabytes.

namespace meg::samples {

Result<int64_t> GptDataset::row_of(int64_t sample) const {
  if (sample < 0 || sample >= size()) {
    return make_error(StatusCode::kOutOfRange, "{}: sample {}: expected 0 to {}",
                      dataset_->prefix(), sample, size() - 1);
  }
  const int64_t row = index_.row_of(sample);
  if (row >= 0 && row < size()) return row;
  return make_error(StatusCode::kCorruption,
                    "{}: shuffle index: sample {}: expected a row of 0 to {}, found {}",
                    dataset_->prefix(), sample, size() - 1, row);
}

int64_t GptDataset::length_of(int64_t sequence) const {
  if (sequence < 0 || sequence >= dataset_->sequence_count()) return -1;
  return dataset_->sequence_lengths()[sequence];
}

Status GptDataset::text(int64_t sample, int64_t pad, std::span<int64_t> out) const {
  MEG_ASSIGN_OR_RETURN(const int64_t row, row_of(sample));
  auto left = out.first(static_cast<size_t>(text_length()));
  const auto copy = [&](const SamplePart& part) -> Status {
    const auto length = static_cast<size_t>(part.length);
    // The index is data from a file: what it says is measured against the room before anything is
    // copied.
    if (length > left.size()) {
      return make_error(StatusCode::kCorruption,
                        "sample index: row {}: expected {} tokens, found more", row, text_length());
    }
    MEG_RETURN_IF_ERROR(dataset_->copy_tokens(part.sequence, part.offset, left.first(length)));
    left = left.subspan(length);
    return {};
  };
  const auto length_of_sequence = [this](int64_t sequence) { return length_of(sequence); };
  const Status walked = walk_sample(index_, row, plan_.extra_token, length_of_sequence, copy);
  if (!walked.ok()) return walked.with_prefix(dataset_->prefix());
  // Only a last, partial sample leaves room.
  std::fill(left.begin(), left.end(), pad);
  return {};
}

Result<SampleSource> GptDataset::source(int64_t sample) const {
  MEG_ASSIGN_OR_RETURN(const int64_t row, row_of(sample));
  SampleSource source;
  const auto add = [&source](const SamplePart& part) -> Status {
    source.parts.push_back(part);
    return {};
  };
  const auto length_of_sequence = [this](int64_t sequence) { return length_of(sequence); };
  const Status walked = walk_sample(index_, row, plan_.extra_token, length_of_sequence, add);
  if (!walked.ok()) return walked.with_prefix(dataset_->prefix());
  return source;
}

Result<std::vector<int64_t>> GptDataset::samples_with(int64_t dataset,
                                                      dataset::SequenceRange range) const {
  if (dataset != 0) return std::vector<int64_t>();
  auto samples = samples_with_sequences(index_, plan_, dataset_->sequence_lengths(), range);
  if (!samples.has_value()) return samples.error().with_prefix(dataset_->prefix());
  return samples;
}

}  // namespace meg::samples
