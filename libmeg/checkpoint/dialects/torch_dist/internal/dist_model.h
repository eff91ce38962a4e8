#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/container/torch_dist/internal/dist_folder.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

/// A parameter as named in a torch_dist folder: of one layer, of all layers stacked along dimension
/// 0, or outside the layers.
struct DistParameter {
  model::ParameterMatch match;  ///< Its layer is not set if it is stacked.
  std::string name;             ///< As in the folder, without "optimizer.state.KIND.".
  bool is_stacked = false;      ///< Dimension 0 counts the layers of the model.
  /// The expert's number, if the next dimension counts experts.
  std::optional<int64_t> stacked_expert;
  bool is_gated = false;  ///< The gate stands above the matrix that it gates.
  const DistTensor* weight = nullptr;
  /// Its optimizer state: kind ("exp_avg") and tensor.
  std::vector<std::pair<std::string, const DistTensor*>> states;

  /// Shape of the whole parameter of one layer.
  std::vector<int64_t> shape() const {
    return {weight->shape.begin() + (is_stacked ? 1 : 0) + (stacked_expert.has_value() ? 1 : 0),
            weight->shape.end()};
  }
};

/// `..._extra_state` of one module.
struct DistExtraState {
  model::ParameterMatch match;  ///< Includes its layer if it is in one.
  const DistObject* object = nullptr;
};

/// The model in a folder, found by names alone.
struct DistModel {
  int64_t num_layers = 0;
  std::vector<DistParameter> parameters;
  std::vector<DistExtraState> extra_states;
  /// Whether there are optimizer tensors of data-parallel buffers, whose names do not contain those
  /// of parameters.
  bool has_buckets = false;
};

/// An object's name: "KEY/shard_1.0_2.2" is part (1, 0) of 2 x 2.
struct DistShardName {
  std::string key;
  std::vector<int64_t> offsets, sizes;
};

/// nullopt if it is not such a name.
std::optional<DistShardName> parse_shard_name(std::string_view name);

/// Prefix of the names of all optimizer state.
inline constexpr std::string_view kDistOptimizerPrefix = "optimizer.";
/// Prefix of tensors that are the optimizer state of a parameter; followed by the kind and the
/// parameter's name.
inline constexpr std::string_view kDistStatePrefix = "optimizer.state.";
/// Prefix of the distributed optimizer's own tensors and objects.
inline constexpr std::string_view kDistBufferPrefix = "optimizer.distributed.dp_group_idx_";

/// Prefix of the names of one of several chained optimizers: "chained_1." for the second. In newer
/// revisions, the forms that any run can load have no such prefix.
std::string dist_chain_prefix(size_t optimizer);

/// A name without that prefix.
std::string_view without_chain_prefix(std::string_view name);

/// Assigns the items of a folder to the model's parameters. kUnsupported, with the name: parameters
/// that no rule knows, experts, optimizer state in an unknown form. kCorruption: layers that
/// disagree, state without a parameter. is_hybrid: names are a hybrid model's, see
/// model::ParameterTable::match. The folder must outlive the result.
Result<DistModel> read_dist_model(const DistFolder& folder, const model::ParameterTable& table,
                                  bool is_hybrid);

}  // namespace meg::checkpoint
