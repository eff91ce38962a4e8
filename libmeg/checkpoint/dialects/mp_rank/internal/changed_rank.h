#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_draft.h"

namespace meg::checkpoint {

/// What changed_rank() puts in place of parts of a rank's file; nullopt leaves a part out.
struct RankChanges {
  /// For each model dict: `copied` is the dict in the draft, whose pairs are those of `dict` in the
  /// file.
  std::function<Result<std::optional<PickleId>>(PickleId copied, PickleId dict)> model;
  /// For the optimizer, unless it is None; `copied` is in the draft.
  std::function<Result<std::optional<PickleId>>(PickleId copied)> optimizer;
};

/// Copies the value of `file` to the draft with these changes and returns it.
Result<PickleId> changed_rank(const std::shared_ptr<const TorchFile>& file,
                              const RankChanges& changes, RankDraft* draft);

}  // namespace meg::checkpoint
