#include "libmeg/samples/sample_dataset.h"

#include <algorithm>

namespace meg::samples {

Status SampleDataset::fill(int64_t sample, const GptSampleOptions& options, std::span<int64_t> text,
                           const GptSampleFields& fields,
                           std::vector<int64_t>& document_lengths) const {
  MEG_RETURN_IF_ERROR(this->text(sample, options.pad, text));
  fill_gpt_sample(text, options, fields);
  if (options.reset_attention_mask) {
    append_document_lengths(text.first(fields.tokens.size()), options.eod, document_lengths);
  }
  return Status();
}

Result<std::vector<int64_t>> SampleDataset::samples_with(int64_t dataset,
                                                         dataset::SequenceRange range) const {
  const auto wanted = [range](const SamplePart& part) {
    return part.length > 0 && part.sequence >= range.begin && part.sequence < range.end;
  };
  std::vector<int64_t> samples;
  // The plain way, for datasets without an index to search.
  for (int64_t sample = 0; sample < size(); ++sample) {
    MEG_ASSIGN_OR_RETURN(const SampleSource found, source(sample));
    if (found.dataset == dataset && std::any_of(found.parts.begin(), found.parts.end(), wanted)) {
      samples.push_back(sample);
    }
  }
  return samples;
}

}  // namespace meg::samples
