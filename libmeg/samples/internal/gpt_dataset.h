#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/samples/gpt_index.h"
#include "libmeg/samples/gpt_index_plan.h"
#include "libmeg/samples/sample_dataset.h"

namespace meg::samples {

/// One split of one dataset: tokens come straight from the mapped .bin.
/// Mirrors Megatron-LM megatron/core/datasets/gpt_dataset.py: GPTDataset.
class GptDataset : public SampleDataset {
 public:
  GptDataset(std::shared_ptr<const dataset::IndexedDataset> dataset, GptIndex index,
             GptIndexPlan plan)
      : dataset_(std::move(dataset)), index_(std::move(index)), plan_(plan) {}

  int64_t size() const override { return plan_.samples; }

  int64_t text_length() const override { return plan_.sequence_length + plan_.extra_token; }

  Status text(int64_t sample, int64_t pad, std::span<int64_t> out) const override;
  Result<SampleSource> source(int64_t sample) const override;
  Result<std::vector<int64_t>> samples_with(int64_t dataset,
                                            dataset::SequenceRange range) const override;

  std::vector<std::string> prefixes() const override { return {dataset_->prefix()}; }

  const dataset::IndexedDataset& dataset() const { return *dataset_; }

  const GptIndex& index() const { return index_; }

  const GptIndexPlan& plan() const { return plan_; }

 private:
  /// The row of the sample index; kOutOfRange, kCorruption.
  Result<int64_t> row_of(int64_t sample) const;

  /// Tokens of a sequence, -1 where there is none.
  int64_t length_of(int64_t sequence) const;

  std::shared_ptr<const dataset::IndexedDataset> dataset_;
  GptIndex index_;
  GptIndexPlan plan_;
};

}  // namespace meg::samples
