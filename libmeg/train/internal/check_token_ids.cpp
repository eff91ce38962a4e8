#include "libmeg/train/internal/check_token_ids.h"

#include <algorithm>
#include <vector>

namespace meg::train {
namespace {

// Samples of each split. Data of another tokenizer usually shows in the first documents, and to
// read these costs nothing; checking all would read the whole dataset before the first step.
constexpr int64_t kSamples = 64;

Status check_sample(const samples::SampleDataset& dataset, int64_t sample,
                    int64_t padded_vocab_size, std::span<int64_t> text) {
  MEG_RETURN_IF_ERROR(dataset.text(sample, 0, text));
  const auto [least, most] = std::minmax_element(text.begin(), text.end());
  if (*least >= 0 && *most < padded_vocab_size) return {};
  MEG_ASSIGN_OR_RETURN(const samples::SampleSource source, dataset.source(sample));
  return make_error(
      StatusCode::kInvalidArgument,
      "{}: expected token ids of a vocabulary padded to {}, found {}: it was made with "
      "another tokenizer",
      dataset.prefixes()[static_cast<size_t>(source.dataset)], padded_vocab_size,
      *least < 0 ? *least : *most);
}

}  // namespace

Status check_token_ids(const samples::GptDatasets& datasets, int64_t padded_vocab_size) {
  for (const auto& dataset : datasets.splits) {
    if (dataset == nullptr) continue;
    std::vector<int64_t> text(static_cast<size_t>(dataset->text_length()));
    for (int64_t sample = 0; sample < std::min(kSamples, dataset->size()); ++sample) {
      MEG_RETURN_IF_ERROR(check_sample(*dataset, sample, padded_vocab_size, text));
    }
  }
  return {};
}

}  // namespace meg::train
