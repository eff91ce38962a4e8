#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/rank_optimizer.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_draft.h"

namespace meg::checkpoint {

/// A parameter of a rank with all that its optimizer keeps for it.
struct StatefulParameter {
  std::string flat_name;
  TensorView weight;  ///< dtype and shape.
  bool is_embedding_or_output = false;
  std::map<std::string, PickleId> states;  ///< Tensors of its shape in the draft, by kind.
};

/// The optimizer of a rank in the plain form: state by number, param_groups with their numbers, and
/// for 16-bit weights the masters. parameters: in the order of named_parameters(). outer, inner:
/// the node of `optimizer` in the draft's graph and that of what holds param_groups (the same for
/// fp32 optimizers of torch's form). name: starts errors.
/// kCorruption where state does not cover the parameters.
Result<PickleId> add_plain_optimizer(const std::vector<StatefulParameter>& parameters,
                                     PickleId outer, PickleId inner, bool qk_norms_decay,
                                     const std::string& name, RankDraft* draft);

/// Groups of several optimizers that become one: kCorruption where one of the others of the same
/// kind has other settings. where: starts errors; owner: "for the other parameters".
Status check_group_settings(const PickleGraph& graph, std::span<const PickleId> groups,
                            const PickleGraph& other_graph, std::span<const PickleId> other_groups,
                            const std::string& where, std::string_view owner);

}  // namespace meg::checkpoint
