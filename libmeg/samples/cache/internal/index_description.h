#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libmeg/megatron/megatron_version.h"
#include "libmeg/megatron/tokenizer_identity.h"
#include "libmeg/samples/split.h"

namespace meg::samples {

/// What names a split's index cache: the fields of its description.
struct GptDescription {
  std::string prefix;
  std::optional<int64_t> samples;
  Split split = Split::kTrain;
  uint32_t seed = 0;
  int64_t sequence_length = 0;
  std::optional<SplitWeights> weights;  ///< nullopt: each split has its own datasets.
  megatron::TokenizerIdentity tokenizer;
};

/// The description text of a split of one dataset. Its md5 is in the cache's file names.
/// Mirrors Megatron-LM megatron/core/datasets/megatron_dataset.py: MegatronDataset, and
/// megatron/data/gpt_dataset.py: _build_index_mappings. Empty at v2.x.
std::string gpt_description(const GptDescription& description,
                            const megatron::MegatronVersion& version);

/// The same of a blend.
struct BlendDescription {
  std::vector<GptDescription> datasets;
  Split split = Split::kTrain;
  std::vector<double> weights;  ///< Normalized; sample counts where `size` is nullopt.
  std::optional<int64_t> size;
};

/// Mirrors megatron/core/datasets/blended_dataset.py: BlendedDataset, and
/// megatron/data/blendable_dataset.py: BlendableDataset.
std::string blend_description(const BlendDescription& description,
                              const megatron::MegatronVersion& version);

}  // namespace meg::samples
