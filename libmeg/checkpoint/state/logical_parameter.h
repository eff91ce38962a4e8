#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/checkpoint/state/opaque.h"
#include "libmeg/checkpoint/state/piece.h"
#include "libmeg/model/parameter_table.h"
#include "libmeg/model/shard_axes.h"

namespace meg::checkpoint {

/// One kind of state of a parameter, wherever its parts lie.
struct LogicalTensor {
  /// "weight"; "fp32_param" (the fp32 master of a 16-bit weight), or the key of Adam's state:
  /// "exp_avg", "exp_avg_sq".
  std::string kind;
  DType dtype = DType::kFloat32;
  /// Of LogicalParameter::axes: disjoint, together the whole. Of an mp_rank checkpoint one a
  /// tensor-parallel rank, in their order.
  std::vector<Piece> pieces;
  /// Further copies of a tensor that is one piece: the other tensor-parallel ranks' of a replicated
  /// parameter.
  std::vector<Piece> replicas;
};

/// Which of an optimizer's param_groups a parameter stands in, in core 0.16's order of the groups.
enum class ParamGroupKind : uint8_t {
  kDecay,      ///< Weight decay: matrices; with --apply-wd-to-qk-layernorm the norms of the heads.
  kDecoupled,  ///< With --decoupled-lr: the embedding and the output layer.
  kNoDecay,    ///< No weight decay.
};

/// "with weight decay", "with decoupled learning rate" or "without weight decay".
std::string_view param_group_text(ParamGroupKind kind);

/// A parameter of the whole model with all of its state.
struct LogicalParameter {
  std::string name;       ///< Canonical name with the layer's number in the whole model.
  std::string canonical;  ///< The same with {} for the number.
  std::string spelling;   ///< The source's flat spelling with {} for the number.
  std::optional<int64_t> layer;
  model::Partition partition = model::Partition::kReplicated;
  model::Placement placement = model::Placement::kLayer;
  bool is_buffer = false;      ///< No optimizer changes it; it keeps its type.
  std::vector<int64_t> shape;  ///< Merged, vocabulary padded as in the source.
  model::ShardAxes axes;
  ParamGroupKind group = ParamGroupKind::kDecay;
  int64_t stage = 0;  ///< Where the source holds it.
  int64_t chunk = 0;
  std::vector<LogicalTensor> tensors;  ///< The weight first.
  /// What else the optimizer keeps for it (a `step` tensor, say), by key.
  std::vector<std::pair<std::string, OpaqueValue>> other_state;

  /// nullptr where there is none of this kind.
  const LogicalTensor* tensor(std::string_view kind) const;
};

}  // namespace meg::checkpoint
