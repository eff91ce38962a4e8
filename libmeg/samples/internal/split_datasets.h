#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/indexed_dataset.h"
#include "libmeg/io/mapping_pool.h"
#include "libmeg/samples/cache/gpt_index_cache.h"
#include "libmeg/samples/cache/internal/index_description.h"
#include "libmeg/samples/gpt_datasets.h"
#include "libmeg/samples/internal/gpt_dataset.h"
#include "libmeg/samples/internal/packed_dataset.h"
#include "libmeg/samples/sample_dataset.h"
#include "libmeg/samples/split.h"

namespace meg::samples {

/// The splits of single datasets, with their index caches. config and result must outlive it.
class SplitDatasets {
 public:
  /// A dataset, and the samples asked of it; nullopt: one epoch.
  struct Part {
    std::string prefix;
    std::optional<int64_t> samples;
  };

  /// cut: how datasets are cut into splits; nullopt: each belongs to one split as a whole.
  /// described: what descriptions then name all the same.
  SplitDatasets(const GptDataConfig& config, std::optional<SplitWeights> cut,
                std::optional<SplitWeights> described, GptDatasets& result)
      : config_(config),
        cut_(std::move(cut)),
        described_(std::move(described)),
        result_(result),
        pool_(std::make_shared<io::MappingPool>(config.mappings)) {}

  /// A split of each dataset, in the order of `parts`; none at all, with a note, where they have no
  /// documents for it (kInvalidArgument where only some have none). Reports go to the result.
  Result<std::vector<std::unique_ptr<SampleDataset>>> open(Split split,
                                                           const std::vector<Part>& parts);

  /// A note that the dataset gives nothing to this split.
  void note_no_documents(Split split, const std::string& prefix);

  GptDescription describe(Split split, const Part& part) const;

  /// The dataset, mapped once for all splits.
  Result<std::shared_ptr<const GptDataset::Dataset>> open_dataset(const std::string& prefix);

  /// nullopt: the split has no documents. kInvalidArgument where it has, but without tokens.
  Result<std::optional<dataset::SequenceRange>> range_of(
      Split split, const dataset::IndexedDataset& dataset) const;

  /// dataset: must outlive the request.
  GptIndexCacheRequest request_for(Split split, const Part& part, dataset::SequenceRange range,
                                   const dataset::IndexedDataset& dataset) const;

 private:
  /// dataset: nullptr where the split has no documents.
  struct Opened {
    Status status;
    std::unique_ptr<SampleDataset> dataset;
    IndexCacheReport report;
  };

  Result<std::vector<std::unique_ptr<SampleDataset>>> open_packed(Split split,
                                                                  const std::vector<Part>& parts);
  Status check_folders_for(const std::string& prefix) const;
  /// Such as "test split (`split` 969,30,1)".
  std::string name_of(Split split) const;
  /// The rest of `opened` comes when the group is committed, at the latest. Without a group nothing
  /// is built: false where that is missing.
  bool open_cache(Split split, const Part& part,
                  const std::shared_ptr<const GptDataset::Dataset>& dataset,
                  GptIndexCacheGroup* group, Opened* opened) const;
  std::vector<Opened> open_caches(
      Split split, const std::vector<Part>& parts,
      const std::vector<std::shared_ptr<const GptDataset::Dataset>>& datasets) const;

  const GptDataConfig& config_;
  std::optional<SplitWeights> cut_;
  std::optional<SplitWeights> described_;
  GptDatasets& result_;
  std::shared_ptr<io::MappingPool> pool_;
  std::map<std::string, std::shared_ptr<const GptDataset::Dataset>> datasets_;
  std::map<std::string, std::shared_ptr<const PackedFiles>> packed_;
};

}  // namespace meg::samples
