#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/optimizer_rewriter.h"

#include <algorithm>
#include <utility>

#include "libmeg/checkpoint/container/torch_file/torch_value.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/parameter_step.h"

namespace meg::checkpoint {

Status OptimizerRewriter::add_other(const std::shared_ptr<const TorchFile>& file,
                                    const std::string& name, const RankState& state) {
  for (const auto& [key, node] : state.other) {
    MEG_RETURN_IF_ERROR(add_step(file, name, key, node));
  }
  return {};
}

Result<PickleId> OptimizerRewriter::finish(PickleId copied, const OptimizerLayout& layout,
                                           const TorchFile& file) {
  // Masters are added again for all parameters.
  const PickleId outer = draft_.without(copied, {layout.masters_key});
  const PickleId inner = graph_.find(outer, "optimizer").value_or(outer);
  const PickleId settings = with_common_step(inner);
  const std::optional<PickleId> args = file.graph().find(file.root(), "args");
  const auto decay =
      args.has_value() ? find_arg(file.graph(), *args, "apply_wd_to_qk_layernorm") : std::nullopt;
  const bool qk_norms_decay = decay.has_value() && file.graph().as_bool(*decay).value_or(false);
  return add_plain_optimizer(parameters_, outer == inner ? settings : outer, settings,
                             qk_norms_decay, file.path(), &draft_);
}

/// torch's own Adam keeps it with each parameter; all have taken the same.
Status OptimizerRewriter::add_step(const std::shared_ptr<const TorchFile>& file,
                                   const std::string& name, const std::string& key, PickleId node) {
  if (key != kStepKey) {
    return make_error(StatusCode::kUnsupported,
                      "{}: optimizer: {} of {}: expected tensors and a step, found {}",
                      file->path(), key, name, file->graph().describe(node, 60));
  }
  MEG_ASSIGN_OR_RETURN(const int64_t step, parameter_step(TorchValue(file, node)));
  if (!step_.has_value()) step_ = step;
  // The number alone is compared: it may be an int or a tensor.
  if (step == *step_) return {};
  return make_error(
      StatusCode::kCorruption,
      "{}: optimizer: step of {}: expected {} as for the previous parameters, found {}",
      file->path(), name, *step_, step);
}

/// Uses the step of the first parameter for all of them.
PickleId OptimizerRewriter::with_common_step(PickleId inner) {
  const std::optional<PickleId> state = graph_.find(inner, "state");
  std::vector<PickleId> common;
  if (step_.has_value() && state.has_value() && graph_.pairs(*state).size() > 1) {
    const auto step = graph_.find(graph_.pairs(*state)[1], kStepKey);
    if (step.has_value()) common = {graph_.add_string("common_step"), *step};
  }
  const PickleId rest = draft_.without(inner, {"state"});
  std::vector<PickleId> pairs(graph_.pairs(rest).begin(), graph_.pairs(rest).end());
  pairs.insert(pairs.end(), {graph_.add_string("state"), graph_.add_dict(std::move(common))});
  return graph_.add_dict(std::move(pairs));
}

}  // namespace meg::checkpoint
