#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::model {

/// The letter of a transformer layer in --pipeline-model-parallel-layout.
inline constexpr char kDecoderLayer = 't';

/// The letters of each stage of such a text, with multiplied parts written out: "Et*2|(t|)*2L" is
/// "Ett", "t", "t", "L". kInvalidArgument for other letters, and for texts that would become too
/// long; kUnsupported for layers of multi-token prediction.
/// Mirrors Megatron-LM megatron/core/transformer/pipeline_parallel_layer_layout.py:
/// parse_str_to_list.
Result<std::vector<std::string>> parse_pipeline_layout(std::string_view text);

/// kInvalidArgument unless `stages` hold num_layers layers between an embedding, at the beginning
/// of the first one, and a loss, at the end of the last one.
Status check_pipeline_layout(std::span<const std::string> stages, int64_t num_layers);

}  // namespace meg::model
