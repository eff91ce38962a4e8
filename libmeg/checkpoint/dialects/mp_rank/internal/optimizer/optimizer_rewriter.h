#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/plain_optimizer.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/rank_optimizer.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_draft.h"

namespace meg::checkpoint {

/// Rewrites plain optimizers of rank files as one for other parameters: those of several ranks, or
/// the parts of a parameter.
class OptimizerRewriter {
 public:
  explicit OptimizerRewriter(RankDraft* draft) : draft_(*draft), graph_(draft->graph()) {}

  /// Parameters are numbered in the order in which they are added. states: in the draft.
  void add(StatefulParameter parameter) { parameters_.push_back(std::move(parameter)); }

  /// Adds what an optimizer keeps for a parameter beside tensors: in torch's own Adam the step,
  /// which is the same for all parameters. kUnsupported for anything else, kCorruption for a
  /// different step.
  Status add_other(const std::shared_ptr<const TorchFile>& file, const std::string& name,
                   const RankState& state);

  /// copied: an optimizer in the draft, copied from `file`, that has the settings. layout: the
  /// layout of that optimizer.
  Result<PickleId> finish(PickleId copied, const OptimizerLayout& layout, const TorchFile& file);

 private:
  Status add_step(const std::shared_ptr<const TorchFile>& file, const std::string& name,
                  const std::string& key, PickleId node);
  PickleId with_common_step(PickleId inner);

  RankDraft& draft_;
  PickleGraph& graph_;
  std::vector<StatefulParameter> parameters_;
  std::optional<int64_t> step_;
};

}  // namespace meg::checkpoint
