#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/rank_optimizer.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_draft.h"

namespace meg::checkpoint {

/// A parameter of a rank with its optimizer state.
struct StatefulParameter {
  std::string flat_name;
  TensorView weight;  ///< dtype and shape.
  bool is_embedding_or_output = false;
  std::map<std::string, PickleId> states;  ///< Tensors of its shape in the draft, by kind.
};

/// Adds a rank's optimizer in the plain form: state by number, param_groups with these numbers, and
/// the masters of 16-bit weights. parameters: in the order of named_parameters(). outer, inner: the
/// nodes, in the draft's graph, of `optimizer` and of the dict with param_groups (the same node in
/// fp32 optimizers of torch's form). name: starts errors.
/// kCorruption if state does not cover the parameters.
Result<PickleId> add_plain_optimizer(const std::vector<StatefulParameter>& parameters,
                                     PickleId outer, PickleId inner, bool qk_norms_decay,
                                     const std::string& name, RankDraft* draft);

/// Checks groups of several optimizers that are merged: kCorruption if groups of the same kind have
/// different settings. where: starts errors. owner: names the others, such as "for the other
/// parameters".
Status check_group_settings(const PickleGraph& graph, std::span<const PickleId> groups,
                            const PickleGraph& other_graph, std::span<const PickleId> other_groups,
                            const std::string& where, std::string_view owner);

}  // namespace meg::checkpoint
