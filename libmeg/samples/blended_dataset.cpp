#include "libmeg/samples/blended_dataset.h"

#include <algorithm>

namespace meg::samples {

Result<std::pair<int64_t, int64_t>> BlendedDataset::locate(int64_t sample) const {
  if (sample < 0 || sample >= size()) {
    return make_error(StatusCode::kOutOfRange, "blend: sample {}: expected 0 to {}", sample,
                      size() - 1);
  }
  const auto place = static_cast<size_t>(sample);
  const int64_t dataset =
      std::visit([place](auto all) { return static_cast<int64_t>(all[place]); }, index_.datasets);
  // Looked at for every sample: the index may come from a file that another program wrote.
  if (dataset >= 0 && dataset < static_cast<int64_t>(datasets_.size())) {
    return std::pair{dataset, index_.samples[place]};
  }
  return make_error(StatusCode::kCorruption,
                    "dataset index: sample {}: expected one of {} datasets, found {}", sample,
                    datasets_.size(), dataset);
}

Status BlendedDataset::text(int64_t sample, int64_t pad, std::span<int64_t> out) const {
  MEG_ASSIGN_OR_RETURN(const auto place, locate(sample));
  return datasets_[static_cast<size_t>(place.first)]->text(place.second, pad, out);
}

Status BlendedDataset::fill(int64_t sample, const GptSampleOptions& options,
                            std::span<int64_t> text, const GptSampleFields& fields,
                            std::vector<int64_t>& document_lengths) const {
  MEG_ASSIGN_OR_RETURN(const auto place, locate(sample));
  return datasets_[static_cast<size_t>(place.first)]->fill(place.second, options, text, fields,
                                                           document_lengths);
}

Result<SampleSource> BlendedDataset::source(int64_t sample) const {
  MEG_ASSIGN_OR_RETURN(const auto place, locate(sample));
  MEG_ASSIGN_OR_RETURN(SampleSource source,
                       datasets_[static_cast<size_t>(place.first)]->source(place.second));
  source.dataset = place.first;
  return source;
}

Result<std::vector<int64_t>> BlendedDataset::samples_with(int64_t dataset,
                                                          dataset::SequenceRange range) const {
  std::vector<int64_t> samples;
  if (dataset < 0 || dataset >= static_cast<int64_t>(datasets_.size())) return samples;
  MEG_ASSIGN_OR_RETURN(const std::vector<int64_t> wanted,
                       datasets_[static_cast<size_t>(dataset)]->samples_with(0, range));
  // A dataset's samples are drawn in order, but a cache from elsewhere need not keep that, so the
  // whole index is read.
  for (int64_t sample = 0; sample < size(); ++sample) {
    MEG_ASSIGN_OR_RETURN(const auto place, locate(sample));
    const bool found =
        place.first == dataset && std::binary_search(wanted.begin(), wanted.end(), place.second);
    if (found) samples.push_back(sample);
  }
  return samples;
}

std::vector<std::string> BlendedDataset::prefixes() const {
  std::vector<std::string> prefixes;
  for (const auto& dataset : datasets_) {
    for (std::string& prefix : dataset->prefixes()) prefixes.push_back(std::move(prefix));
  }
  return prefixes;
}

}  // namespace meg::samples
