#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/samples/sample_dataset.h"

namespace meg::samples {

/// A blend's two indices, mapped from files or held in memory.
struct BlendIndex {
  std::variant<std::span<const int16_t>, std::span<const uint8_t>> datasets;
  std::span<const int64_t> samples;
  std::shared_ptr<const void> owner;
};

/// Samples drawn from several datasets by weight.
/// Mirrors Megatron-LM megatron/core/datasets/blended_dataset.py: BlendedDataset.
class BlendedDataset : public SampleDataset {
 public:
  /// datasets: at least one, all of the same text length.
  BlendedDataset(std::vector<std::unique_ptr<SampleDataset>> datasets, BlendIndex index)
      : datasets_(std::move(datasets)), index_(std::move(index)) {}

  int64_t size() const override { return static_cast<int64_t>(index_.samples.size()); }

  int64_t text_length() const override { return datasets_[0]->text_length(); }

  Status text(int64_t sample, int64_t pad, std::span<int64_t> out) const override;
  Status fill(int64_t sample, const GptSampleOptions& options, std::span<int64_t> text,
              const GptSampleFields& fields, std::vector<int64_t>& document_lengths) const override;
  Result<SampleSource> source(int64_t sample) const override;
  Result<std::vector<int64_t>> samples_with(int64_t dataset,
                                            dataset::SequenceRange range) const override;
  std::vector<std::string> prefixes() const override;

  const std::vector<std::unique_ptr<SampleDataset>>& datasets() const { return datasets_; }

  /// Which dataset each sample comes from, and which of its samples it is. Not checked.
  const BlendIndex& index() const { return index_; }

  /// What the index has for a sample. kOutOfRange, kCorruption.
  Result<std::pair<int64_t, int64_t>> locate(int64_t sample) const;

 private:
  std::vector<std::unique_ptr<SampleDataset>> datasets_;
  BlendIndex index_;
};

}  // namespace meg::samples
