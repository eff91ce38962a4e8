#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/index_format.h"
#include "libmeg/io/mapping_pool.h"
#include "libmeg/megatron/megatron_version.h"
#include "libmeg/megatron/tokenizer_identity.h"
#include "libmeg/samples/blend.h"
#include "libmeg/samples/cache_callbacks.h"
#include "libmeg/samples/sample_dataset.h"
#include "libmeg/samples/split.h"

namespace meg::samples {

/// Which samples a run trains and evaluates on.
/// Mirrors Megatron-LM megatron/core/datasets/gpt_dataset.py: GPTDatasetConfig.
struct GptDataConfig {
  std::optional<Blend> blend;                ///< --data-path, cut by `split`; else
  PerSplit<std::optional<Blend>> per_split;  ///< --train-data-path and so on; else mock data.
  std::string split = "969,30,1";            ///< --split; used with `blend`.
  /// --split as in 6ef5bdc's descriptions of per_split's datasets, which it does not split.
  std::optional<std::string> per_split_split = std::nullopt;
  /// --data-impl: the only format that datasets may have; nullopt: any.
  std::optional<dataset::IndexFormat> format = std::nullopt;
  PerSplit<std::optional<int64_t>> samples;  ///< Asked for; nullopt: one epoch.
  /// --sft: datasets are those of pack_dataset, and each of their documents is a sample.
  bool packed = false;
  int64_t sequence_length = 0;            ///< --seq-length, tokens
  int64_t seed = 1234;                    ///< --seed, 0 to 2^32 - 1
  std::optional<std::string> cache_path;  ///< --data-cache-path
  /// --object-storage-cache-path: folder of the .idx of datasets at s3://, which need it, and
  /// cache_path, too.
  std::optional<std::string> object_storage_cache_path = std::nullopt;
  megatron::TokenizerIdentity tokenizer;  ///< For the description.
  int64_t vocab_size = 0;                 ///< Of the tokenizer; mock data only.
  int64_t eod = 0;                        ///< Of the tokenizer; mock data only.
  bool extra_token = true;                ///< add_extra_token_to_sequence
  bool drop_last_partial_validation_sequence = true;
  /// --mid-level-dataset-surplus
  double mid_level_dataset_surplus = kMidLevelDatasetSurplus;
  /// --dataloader-defer-npy-index-mmap: with cache_path, indices that libmeg has cached are mapped
  /// when the first sample of theirs is read.
  bool defer_npy_index_mmap = false;
  /// Datasets and indices beyond these are closed and opened again as samples are read.
  io::MappingPool::Limits mappings = {};
  int threads = 1;  ///< --num-dataset-builder-threads: datasets of a blend built at once
  megatron::MegatronVersion version = megatron::newest_megatron_version();
  CacheWaiting waiting = {};
  CacheCancelled cancelled = {};
  /// Called after the index cache of every dataset of a split, by one thread at a time.
  std::function<void(Split split, int64_t done, int64_t datasets)> cache_progress = {};
};

/// What was done with one index cache.
struct IndexCacheReport {
  Split split = Split::kTrain;
  std::string prefix;  ///< Empty for the index of a blend.
  CacheOutcome outcome = CacheOutcome::kFound;
  std::string reason;              ///< kRebuilt: why.
  std::string description;         ///< File, where there is one; the others stand beside it.
  std::vector<std::string> files;  ///< Of the cache, the description with them.
  int64_t samples = 0;
  int64_t epochs = 1;
  double seconds = 0;
};

/// The three sets of samples. A split without samples is null, with a note that says why.
struct GptDatasets {
  PerSplit<std::unique_ptr<SampleDataset>> splits;
  std::vector<IndexCacheReport> caches;
  std::vector<std::string> notes;  ///< What a user should know; one line each.
};

/// Opens the datasets, and opens or builds every index cache of the run; where it is cancelled,
/// those that are finished stay.
/// kInvalidArgument where the configuration cannot be met, with the numbers: among others a split
/// whose documents have no tokens, where Megatron hangs. A split without documents is null; the
/// caller decides whether the run needs it. Mirrors Megatron-LM
/// megatron/core/datasets/blended_megatron_dataset_builder.py: BlendedMegatronDatasetBuilder.
Result<GptDatasets> build_gpt_datasets(const GptDataConfig& config);

}  // namespace meg::samples
