#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/io/mapping_pool.h"
#include "libmeg/samples/gpt_index.h"
#include "libmeg/samples/gpt_index_plan.h"
#include "libmeg/samples/sample_dataset.h"

namespace meg::samples {

/// One split of one dataset: tokens come straight from the mapped .bin. Both its files and its
/// index are mapped when a sample is read, and may be closed in between.
/// Mirrors Megatron-LM megatron/core/datasets/gpt_dataset.py: GPTDataset.
class GptDataset : public SampleDataset {
 public:
  using Dataset = io::PooledMapping<dataset::IndexedDataset>;
  using Index = io::PooledMapping<GptIndex>;

  GptDataset(std::string prefix, std::shared_ptr<const Dataset> dataset,
             std::unique_ptr<const Index> index, GptIndexPlan plan)
      : prefix_(std::move(prefix)),
        dataset_(std::move(dataset)),
        index_(std::move(index)),
        plan_(plan) {}

  int64_t size() const override { return plan_.samples; }

  int64_t text_length() const override { return plan_.sequence_length + plan_.extra_token; }

  Status text(int64_t sample, int64_t pad, std::span<int64_t> out) const override;
  Result<SampleSource> source(int64_t sample) const override;
  Result<std::vector<int64_t>> samples_with(int64_t dataset,
                                            dataset::SequenceRange range) const override;

  std::vector<std::string> prefixes() const override { return {prefix_}; }

 private:
  /// The row of the sample index; kOutOfRange, kCorruption.
  Result<int64_t> row_of(int64_t sample, const GptIndex& index) const;

  /// Calls visit for each part of the sample; errors begin with the prefix.
  template <class Visit>
  Status walk(int64_t sample, const GptIndex& index, const dataset::IndexedDataset& dataset,
              const Visit& visit) const;

  const std::string prefix_;
  const std::shared_ptr<const Dataset> dataset_;
  const std::unique_ptr<const Index> index_;
  const GptIndexPlan plan_;
};

}  // namespace meg::samples
