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

/// What the ranks of a stage have of a parameter, by tensor rank.
struct DistCut {
  std::string flat_name;
  std::vector<int64_t> shape;
  bool is_table = false;
  bool is_buffer = false;         ///< No optimizer changes it.
  std::optional<int64_t> expert;  ///< Which of the layer's.
  const DistParameter* parameter = nullptr;
  std::optional<int64_t> stacked_layer;  ///< Of a stacked parameter.
  std::vector<std::shared_ptr<const TensorSource>> weights;
  std::map<std::string, std::vector<std::shared_ptr<const TensorSource>>> states;
};

/// By virtual stage, each in the order of named_parameters().
using DistChunks = std::vector<std::vector<DistCut>>;

/// A tensor and pipeline rank.
struct DistRank {
  int64_t tensor_rank = 0, stage = 0;
  int64_t tensor_size = 1, pipeline_size = 1;
  int64_t expert_size = 1;         ///< Divides the experts of a layer.
  int64_t expert_tensor_size = 1;  ///< Cuts each of them.
  std::string name;                ///< Starts errors.
};

/// The optimizer of a rank in the plain form, whatever the folder keeps. Runs with several
/// expert-parallel ranks chain two, that of experts last; they become one.
/// saved: `optimizer` of common.pt in the draft.
/// kUnsupported, by name: other chains, buffers that parameters do not fill. kCorruption where
/// state does not cover the parameters, or where groups of experts have other settings.
Result<PickleId> add_dist_optimizer(const DistFolder& folder, const CommonState& common,
                                    const DistChunks& chunks, const DistRank& rank, PickleId saved,
                                    RankDraft* draft);

/// The value of an object.
Result<PickleId> copy_dist_value(const DistFolder& folder, const DistObject& object,
                                 RankDraft* draft);

/// The same; of a list of one value that value, as Megatron wraps it in torch_dist.
Result<PickleId> copy_dist_object(const DistFolder& folder, const DistObject& object,
                                  RankDraft* draft);

}  // namespace meg::checkpoint
