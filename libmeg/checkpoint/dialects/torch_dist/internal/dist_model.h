#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/container/torch_dist/internal/dist_folder.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

/// A parameter as a torch_dist folder names it: of one layer, of all layers stacked along dimension
/// 0, or beside the layers.
struct DistParameter {
  model::ParameterMatch match;  ///< Its layer is not set where it is stacked.
  std::string name;             ///< As in the folder, without "optimizer.state.KIND.".
  bool is_stacked = false;      ///< Dimension 0 counts the layers of the model.
  /// Where the next dimension counts experts: which of them this is.
  std::optional<int64_t> stacked_expert;
  bool is_gated = false;  ///< A gate above what it gates.
  const DistTensor* weight = nullptr;
  /// What the optimizer keeps for it: kind ("exp_avg") and tensor.
  std::vector<std::pair<std::string, const DistTensor*>> states;

  /// Of the whole parameter of one layer.
  std::vector<int64_t> shape() const {
    return {weight->shape.begin() + (is_stacked ? 1 : 0) + (stacked_expert.has_value() ? 1 : 0),
            weight->shape.end()};
  }
};

/// `..._extra_state` of one module.
struct DistExtraState {
  model::ParameterMatch match;  ///< With its layer, where it is in one.
  const DistObject* object = nullptr;
};

/// The model in a folder, by names alone.
struct DistModel {
  int64_t num_layers = 0;
  std::vector<DistParameter> parameters;
  std::vector<DistExtraState> extra_states;
  /// Optimizer tensors of data-parallel buffers, which names of parameters do not tell.
  bool has_buckets = false;
};

/// An object's name: "KEY/shard_1.0_2.2" is part (1, 0) of 2 x 2.
struct DistShardName {
  std::string key;
  std::vector<int64_t> offsets, sizes;
};

/// nullopt where it is no such name.
std::optional<DistShardName> parse_shard_name(std::string_view name);

/// What names of everything begin with that optimizers keep.
inline constexpr std::string_view kDistOptimizerPrefix = "optimizer.";
/// What stands in front of a parameter's name where a tensor is its optimizer state; the kind
/// follows.
inline constexpr std::string_view kDistStatePrefix = "optimizer.state.";
/// What names of the distributed optimizer's own tensors and objects begin with.
inline constexpr std::string_view kDistBufferPrefix = "optimizer.distributed.dp_group_idx_";

/// Where several optimizers are chained, names of the second begin with "chained_1.", but for those
/// of the forms that any run loads, in newer revisions.
std::string dist_chain_prefix(size_t optimizer);

/// A name without that.
std::string_view without_chain_prefix(std::string_view name);

/// Sorts out what a folder holds. kUnsupported, by name: parameters that no rule knows, experts,
/// optimizer state that is kept otherwise. kCorruption: layers that disagree, state of no
/// parameter. is_hybrid: names are a hybrid model's, see model::ParameterTable::match. The folder
/// outlives the result.
Result<DistModel> read_dist_model(const DistFolder& folder, const model::ParameterTable& table,
                                  bool is_hybrid);

}  // namespace meg::checkpoint
