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

/// One kind of state of a parameter, wherever its parts are stored.
struct LogicalTensor {
  /// "weight"; "fp32_param" (the fp32 master of a 16-bit weight), or the key of Adam's state:
  /// "exp_avg", "exp_avg_sq".
  std::string kind;
  DType dtype = DType::kFloat32;
  /// Pieces in the axes of the parameter, disjoint and together covering it. In an mp_rank
  /// checkpoint there is one for each tensor-parallel rank, in their order.
  std::vector<Piece> pieces;
  /// Further copies of a tensor that is one piece: those of the other tensor-parallel ranks if the
  /// parameter is replicated.
  std::vector<Piece> replicas;
};

/// The optimizer's param_group to which a parameter belongs, in core 0.16's order of the groups.
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
  std::string canonical;  ///< The name with {} for the number.
  std::string spelling;   ///< The source's flat spelling with {} for the number.
  std::optional<int64_t> layer;
  model::Partition partition = model::Partition::kReplicated;
  model::Placement placement = model::Placement::kLayer;
  bool is_buffer = false;      ///< No optimizer updates it, and it keeps its dtype.
  std::vector<int64_t> shape;  ///< Merged; the vocabulary is padded as in the source.
  model::ShardAxes axes;
  ParamGroupKind group = ParamGroupKind::kDecay;
  int64_t stage = 0;  ///< The stage of the source that holds it.
  int64_t chunk = 0;
  std::vector<LogicalTensor> tensors;  ///< The weight first.
  /// Other state of the optimizer for it, such as a `step` tensor, by key.
  std::vector<std::pair<std::string, OpaqueValue>> other_state;

  /// nullptr if there is none of this kind.
  const LogicalTensor* tensor(std::string_view kind) const;
};

}  // namespace meg::checkpoint
