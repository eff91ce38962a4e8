#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/core/megatron_version.h"
#include "libmeg/core/result.h"
#include "libmeg/dataset/samples/blend.h"
#include "libmeg/dataset/samples/sample_dataset.h"
#include "libmeg/dataset/samples/split.h"
#include "libmeg/tokenizer/tokenizer_identity.h"

namespace meg {

/// Which samples a run trains and evaluates on.
/// Mirrors Megatron-LM megatron/core/datasets/gpt_dataset.py: GPTDatasetConfig.
struct GptDataConfig {
  std::optional<Blend> blend;                ///< --data-path, cut by `split`; else
  PerSplit<std::optional<Blend>> per_split;  ///< --train-data-path and so on; else mock data.
  std::string split = "969,30,1";            ///< --split; used with `blend`.
  PerSplit<std::optional<int64_t>> samples;  ///< Asked for; nullopt: one epoch.
  int64_t sequence_length = 0;               ///< --seq-length, tokens
  int64_t seed = 1234;                       ///< --seed, 0 to 2^32 - 1
  std::optional<std::string> cache_path;     ///< --data-cache-path
  TokenizerIdentity tokenizer;               ///< For the description.
  int64_t vocab_size = 0;                    ///< Of the tokenizer; mock data only.
  int64_t eod = 0;                           ///< Of the tokenizer; mock data only.
  bool extra_token = true;                   ///< add_extra_token_to_sequence
  bool drop_last_partial_validation_sequence = true;
  MegatronVersion version = newest_megatron_version();
};

/// The three sets of samples. A split without samples is null, with a note that says why.
struct GptDatasets {
  PerSplit<std::unique_ptr<SampleDataset>> splits;
  /// What was found, built or rebuilt, and what is unusual; one line each, in order.
  std::vector<std::string> notes;
};

/// Opens the datasets, and opens or builds every index cache of the run.
/// kInvalidArgument where the configuration cannot be met, with the numbers: among others a dataset
/// of fewer tokens than one sample, and a training split without documents.
/// Mirrors Megatron-LM megatron/core/datasets/blended_megatron_dataset_builder.py:
/// BlendedMegatronDatasetBuilder.
Result<GptDatasets> build_gpt_datasets(const GptDataConfig& config);

}  // namespace meg
