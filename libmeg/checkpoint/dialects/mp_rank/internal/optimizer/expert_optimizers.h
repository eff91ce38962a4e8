#pragma once

#include <memory>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_draft.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

/// Whether an optimizer, or its state, is one of the lists of two that expert-parallel ranks save:
/// for the parameters that they share, and for their own experts.
inline bool is_optimizer_pair(const PickleNode& node) {
  return node.kind == PickleKind::kList && node.children.size() == 2;
}

/// Merges the optimizers of expert-parallel ranks into one plain optimizer. Each rank saved a list
/// of two: for the parameters that all ranks share and for its own experts. The parameters of the
/// result are in the order of the merged file: see merge_expert_ranks().
/// share: experts per rank. copied: the first rank's `optimizer` in the draft.
/// kUnsupported for distributed optimizers and other lists; kCorruption if state does not fit the
/// parameters, or if the groups of experts have other settings.
Result<PickleId> merge_expert_optimizers(const std::vector<std::shared_ptr<const TorchFile>>& files,
                                         int64_t share, const model::ParameterTable& table,
                                         PickleId copied, RankDraft* draft);

}  // namespace meg::checkpoint
