#pragma once

#include <memory>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_draft.h"
#include "libmeg/model/parameter_table.h"

namespace meg::checkpoint {

/// One plain optimizer of those that expert-parallel ranks saved: each has two in a list, for the
/// parameters that all ranks hold alike and for its own experts. Parameters are in the order of the
/// merged file: see merge_expert_ranks().
/// share: experts of a rank. copied: the first rank's `optimizer` in the draft.
/// kUnsupported for distributed optimizers and other lists; kCorruption where state does not fit
/// the parameters, or where groups of experts have other settings.
Result<PickleId> merge_expert_optimizers(const std::vector<std::shared_ptr<const TorchFile>>& files,
                                         int64_t share, const model::ParameterTable& table,
                                         PickleId copied, RankDraft* draft);

}  // namespace meg::checkpoint
