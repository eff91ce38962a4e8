#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libmeg/model/parameter_count.h"

namespace meg::checkpoint {

/// A key of the state dict of one chunk of a stage.
struct ChunkEntry {
  std::string name;                 ///< Flat, its layer counted from 0 in the chunk.
  std::optional<size_t> parameter;  ///< Index into the rank's parameters; nullopt: extra state.
};

/// The keys of a chunk in the order of the model's state_dict(). parameters: rank_parameters() of
/// the stage in this family. core has `_extra_state` keys, after the parameters of their modules;
/// older families have none.
std::vector<ChunkEntry> chunk_entries(std::span<const model::RankParameter> parameters,
                                      const model::PipelineLayout& layout, int64_t stage,
                                      int64_t chunk, model::NameFamily family,
                                      const model::ParameterTable& table);

}  // namespace meg::checkpoint
