#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_draft.h"
#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_common.h"
#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_model.h"

namespace meg::checkpoint {

/// The parts of a parameter that the ranks of a stage have, by tensor rank.
struct DistCut {
  std::string flat_name;
  std::vector<int64_t> shape;
  bool is_table = false;
  bool is_buffer = false;         ///< No optimizer updates it.
  std::optional<int64_t> expert;  ///< The expert's number in its layer.
  const DistParameter* parameter = nullptr;
  std::optional<int64_t> stacked_layer;  ///< Layer within a stacked parameter.
  std::vector<std::shared_ptr<const TensorSource>> weights;
  std::map<std::string, std::vector<std::shared_ptr<const TensorSource>>> states;
};

/// Indexed by virtual stage, each in the order of named_parameters().
using DistChunks = std::vector<std::vector<DistCut>>;

/// A tensor and pipeline rank.
struct DistRank {
  int64_t tensor_rank = 0, stage = 0;
  int64_t tensor_size = 1, pipeline_size = 1;
  int64_t expert_size = 1;         ///< Ranks over which a layer's experts are divided.
  int64_t expert_tensor_size = 1;  ///< Ranks over which each expert is divided.
  std::string name;                ///< Starts errors.
};

/// Adds a rank's optimizer in the plain form, whatever form the folder has. Runs with several
/// expert-parallel ranks chain two, that of the experts last; they are merged into one.
/// saved: `optimizer` of common.pt in the draft.
/// kUnsupported: other chains, buffers that the parameters do not fill. kCorruption if state does
/// not cover the parameters, or if the groups of experts have other settings.
/// alignment: set if buffers tell it, see CutStates.
Result<PickleId> add_dist_optimizer(const DistFolder& folder, const CommonState& common,
                                    const DistChunks& chunks, const DistRank& rank, PickleId saved,
                                    RankDraft* draft, std::optional<int64_t>* alignment);

/// Copies the value of an object into the draft.
Result<PickleId> copy_dist_value(const DistFolder& folder, const DistObject& object,
                                 RankDraft* draft);

/// The same, but a list of one value gives that value, because Megatron wraps values this way in
/// torch_dist.
Result<PickleId> copy_dist_object(const DistFolder& folder, const DistObject& object,
                                  RankDraft* draft);

}  // namespace meg::checkpoint
