#include "libmeg/checkpoint/convert/internal/target_optimizer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "libmeg/checkpoint/convert/internal/optimizer_part.h"
#include "libmeg/checkpoint/dialects/mp_rank/parameter_step.h"

namespace meg::checkpoint {
namespace {

/// A param group of a stage: its parameters in the order of their numbers.
struct Group {
  ParamGroupKind kind = ParamGroupKind::kDecay;
  std::vector<const LogicalParameter*> parameters;
};

/// Adds an empty group of a kind if there is none yet, and returns its place.
std::vector<Group>::iterator add_group(ParamGroupKind kind, std::vector<Group>* groups) {
  const auto found = std::find_if(groups->begin(), groups->end(),
                                  [kind](const Group& group) { return group.kind == kind; });
  return found != groups->end() ? found : groups->insert(found, Group{kind, {}});
}

/// Groups in the order in which the parameters of the chunks' modules first need them.
void add_groups_of(const TargetStage& stage, const OptimizerPart& part,
                   std::vector<Group>* groups) {
  for (const std::vector<TargetEntry>& chunk : stage.chunks) {
    for (const TargetEntry& entry : chunk) {
      if (part.has(entry)) add_group(entry.parameter->group, groups);
    }
  }
}

/// The groups of a stage in their order.
/// Mirrors Megatron-LM megatron/core/optimizer/__init__.py: _get_param_groups.
std::vector<Group> groups_of(const TargetStage& stage, const TargetLayout& layout,
                             const OptimizerLayout& optimizer, const OptimizerPart& part) {
  std::vector<Group> groups;
  // Core 0.6 to 0.15 list groups as parameters first need them, so their order differs between
  // stages; core 0.16 sorts them, which is the list below. Groups that only other stages have
  // parameters of come last, and stay where the source keeps empty ones.
  if (optimizer.groups_by_first_appearance) {
    add_groups_of(stage, part, &groups);
    for (const TargetStage& other : layout.stages) add_groups_of(other, part, &groups);
  } else {
    for (const ParamGroupKind kind :
         {ParamGroupKind::kDecay, ParamGroupKind::kDecoupled, ParamGroupKind::kNoDecay}) {
      if (optimizer.group(kind) != nullptr) add_group(kind, &groups);
    }
  }
  for (const std::vector<TargetEntry>& chunk : stage.chunks) {
    for (const TargetEntry& entry : chunk) {
      if (!part.has(entry)) continue;
      add_group(entry.parameter->group, &groups)->parameters.push_back(entry.parameter);
    }
  }
  if (!optimizer.keeps_empty_groups || part.is_of_experts()) {
    std::erase_if(groups, [](const Group& group) { return group.parameters.empty(); });
  }
  return groups;
}

/// Writes the optimizer of one rank as torch and Megatron nest it: the wrapper's keys around
/// torch's own state and param_groups. Keys are written in the source's order and unknown values
/// are copied, so that a target differs from the source only where the layout does. Parameters are
/// renumbered from 0 through all groups, as in torch.
class OptimizerBuilder {
 public:
  OptimizerBuilder(const MegatronCheckpoint& checkpoint, const TargetLayout& layout,
                   const TargetStage& stage, int reference, const OptimizerPart& part,
                   TargetFile* target)
      : checkpoint_(checkpoint),
        layout_(layout),
        optimizer_(checkpoint.optimizer()),
        reference_(reference),
        is_of_experts_(part.is_of_experts()),
        target_(target),
        groups_(groups_of(stage, layout, optimizer_, part)) {}

  Result<PickleId> add() {
    const PickleId outer = *source().find(file().root(), "optimizer");
    if (layout_.has_distributed_optimizer) return add_distributed(outer);
    if (optimizer_.form == OptimizerForm::kFp32) return add_inner(outer);
    std::vector<PickleId> pairs;
    const std::span<const PickleId> found = source().pairs(outer);
    for (size_t i = 0; i + 1 < found.size(); i += 2) {
      const std::optional<std::string_view> key = source().as_string(found[i]);
      MEG_ASSIGN_OR_RETURN(const PickleId name, carry(found[i]));
      pairs.push_back(name);
      if (key == optimizer_.inner_key) {
        MEG_ASSIGN_OR_RETURN(const PickleId inner, add_inner(found[i + 1]));
        pairs.push_back(inner);
      } else if (key == optimizer_.masters_key) {
        MEG_ASSIGN_OR_RETURN(const PickleId masters, add_masters());
        pairs.push_back(masters);
      } else {
        MEG_ASSIGN_OR_RETURN(const PickleId value, carry(found[i + 1]));
        pairs.push_back(value);
      }
    }
    return target_->graph().add_dict(std::move(pairs));
  }

 private:
  const TorchFile& file() const {
    return *checkpoint_.files()[static_cast<size_t>(reference_)].file;
  }

  const PickleGraph& source() const { return file().graph(); }

  Result<PickleId> carry(PickleId id) { return target_->carry(reference_, id); }

  /// The part that is not in distrib_optim.pt: param_groups without numbers, the loss scaler.
  Result<PickleId> add_distributed(PickleId outer) {
    const bool is_nested = optimizer_.form != OptimizerForm::kFp32;
    MEG_ASSIGN_OR_RETURN(const PickleId groups, add_groups());
    std::vector<PickleId> pairs = {
        target_->text("optimizer"),
        target_->graph().add_dict({target_->text("param_groups"), groups})};
    const std::span<const PickleId> found = source().pairs(outer);
    for (size_t i = 0; is_nested && i + 1 < found.size(); i += 2) {
      const std::optional<std::string_view> key = source().as_string(found[i]);
      if (key == optimizer_.inner_key || key == optimizer_.masters_key) continue;
      MEG_ASSIGN_OR_RETURN(const PickleId name, carry(found[i]));
      MEG_ASSIGN_OR_RETURN(const PickleId value, carry(found[i + 1]));
      pairs.insert(pairs.end(), {name, value});
    }
    return target_->graph().add_dict(std::move(pairs));
  }

  /// torch's own part: state and param_groups.
  Result<PickleId> add_inner(PickleId inner) {
    std::vector<PickleId> pairs;
    const std::span<const PickleId> found = source().pairs(inner);
    for (size_t i = 0; i + 1 < found.size(); i += 2) {
      const std::optional<std::string_view> key = source().as_string(found[i]);
      MEG_ASSIGN_OR_RETURN(const PickleId name, carry(found[i]));
      pairs.push_back(name);
      if (key == "state") {
        MEG_ASSIGN_OR_RETURN(const PickleId state, add_state(found[i + 1]));
        pairs.push_back(state);
      } else if (key == "param_groups") {
        MEG_ASSIGN_OR_RETURN(const PickleId groups, add_groups());
        pairs.push_back(groups);
      } else {
        MEG_ASSIGN_OR_RETURN(const PickleId value, carry(found[i + 1]));
        pairs.push_back(value);
      }
    }
    return target_->graph().add_dict(std::move(pairs));
  }

  /// The keys of a parameter's state as the source's first entry has them.
  std::vector<std::string> state_keys(PickleId state) const {
    std::vector<std::string> keys;
    const std::span<const PickleId> entries = source().pairs(state);
    if (entries.size() < 2) return keys;
    const std::span<const PickleId> first = source().pairs(entries[1]);
    for (size_t i = 0; i + 1 < first.size(); i += 2) {
      keys.emplace_back(source().as_string(first[i]).value_or(""));
    }
    return keys;
  }

  Result<PickleId> add_state(PickleId source_state) {
    std::vector<PickleId> pairs;
    if (optimizer_.has_state) {
      const std::vector<std::string> keys = state_keys(source_state);
      int64_t id = 0;
      for (const Group& group : groups_) {
        for (const LogicalParameter* parameter : group.parameters) {
          MEG_ASSIGN_OR_RETURN(const PickleId entry, add_entry(*parameter, keys));
          pairs.push_back(target_->graph().add_int(id++));
          pairs.push_back(entry);
        }
      }
    }
    return target_->graph().add_dict(std::move(pairs));
  }

  Result<PickleId> add_entry(const LogicalParameter& parameter,
                             const std::vector<std::string>& keys) {
    std::vector<std::pair<std::string, PickleId>> values;
    for (const LogicalTensor& tensor : parameter.tensors) {
      if (tensor.kind == "weight" || tensor.kind == "fp32_param") continue;
      MEG_ASSIGN_OR_RETURN(const PickleId value, add_tensor(parameter, tensor));
      values.emplace_back(tensor.kind, value);
    }
    for (const auto& [key, opaque] : parameter.other_state) {
      MEG_ASSIGN_OR_RETURN(const PickleId value, target_->carry(*opaque));
      values.emplace_back(key, value);
    }
    const auto place = [&](const std::pair<std::string, PickleId>& value) {
      return std::find(keys.begin(), keys.end(), value.first) - keys.begin();
    };
    // Keys that the source's first entry lacks come last (their place is the number of keys).
    std::stable_sort(values.begin(), values.end(),
                     [&](const auto& a, const auto& b) { return place(a) < place(b); });
    std::vector<PickleId> pairs;
    for (const auto& [key, value] : values) {
      pairs.push_back(target_->text(key));
      pairs.push_back(value);
    }
    return target_->graph().add_dict(std::move(pairs));
  }

  Result<PickleId> add_tensor(const LogicalParameter& parameter, const LogicalTensor& tensor) {
    MEG_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, layout_.shape(parameter));
    return target_->add_tensor(parameter, tensor, shape);
  }

  /// The groups' settings are the same on all ranks that have parameters in them.
  Result<PickleId> add_groups() {
    std::vector<PickleId> groups;
    int64_t id = 0;
    for (const Group& group : groups_) {
      const ParamGroup* settings = optimizer_.group(group.kind, group.parameters.empty());
      if (settings == nullptr) {
        return make_error(StatusCode::kCorruption,
                          "{}: optimizer: expected a group of parameters {}, found none",
                          checkpoint_.files()[0].file->path(), param_group_text(group.kind));
      }
      std::vector<PickleId> ids;
      for (size_t i = 0; i < group.parameters.size(); ++i) {
        ids.push_back(target_->graph().add_int(id++));
      }
      MEG_ASSIGN_OR_RETURN(const PickleId dict, add_group_dict(*settings, ids));
      groups.push_back(dict);
    }
    return target_->graph().add_list(std::move(groups));
  }

  Result<PickleId> add_group_dict(const ParamGroup& settings, const std::vector<PickleId>& ids) {
    const PickleGraph& graph =
        checkpoint_.files()[static_cast<size_t>(settings.file)].file->graph();
    std::vector<PickleId> pairs;
    const std::span<const PickleId> found = graph.pairs(settings.node);
    // torch's own Adam keeps the step with each parameter when it is plain.
    if (layout_.has_distributed_optimizer && !graph.find(settings.node, kStepKey).has_value()) {
      MEG_ASSIGN_OR_RETURN(const std::optional<PickleId> step,
                           add_group_step(checkpoint_, &target_->graph()));
      if (!step.has_value()) {
        return make_error(
            StatusCode::kUnsupported,
            "{}: optimizer: param_groups: expected a step for a distributed optimizer, found none",
            checkpoint_.files()[static_cast<size_t>(settings.file)].file->path());
      }
      pairs.insert(pairs.end(), {target_->text(kStepKey), *step});
    }
    for (size_t i = 0; i + 1 < found.size(); i += 2) {
      const bool is_ids = graph.as_string(found[i]) == "params";
      if (is_ids && layout_.has_distributed_optimizer) continue;
      MEG_ASSIGN_OR_RETURN(const PickleId key, target_->carry(settings.file, found[i]));
      pairs.push_back(key);
      if (is_ids) {
        pairs.push_back(target_->graph().add_list(ids));
      } else if (graph.as_string(found[i]) == "is_expert_parallel") {
        pairs.push_back(target_->graph().add_bool(is_of_experts_));
      } else {
        MEG_ASSIGN_OR_RETURN(const PickleId value, target_->carry(settings.file, found[i + 1]));
        pairs.push_back(value);
      }
    }
    return target_->graph().add_dict(std::move(pairs));
  }

  /// fp32 masters: a list a group, of those weights that have one.
  Result<PickleId> add_masters() {
    std::vector<PickleId> lists;
    for (const Group& group : groups_) {
      std::vector<PickleId> masters;
      for (const LogicalParameter* parameter : group.parameters) {
        const LogicalTensor* master = parameter->tensor("fp32_param");
        if (master == nullptr) continue;
        MEG_ASSIGN_OR_RETURN(const PickleId node, add_tensor(*parameter, *master));
        masters.push_back(node);
      }
      lists.push_back(target_->graph().add_list(std::move(masters)));
    }
    return target_->graph().add_list(std::move(lists));
  }

  const MegatronCheckpoint& checkpoint_;
  const TargetLayout& layout_;
  const OptimizerLayout& optimizer_;
  int reference_;
  bool is_of_experts_;
  TargetFile* target_;
  std::vector<Group> groups_;
};

}  // namespace

Result<PickleId> add_optimizer(const MegatronCheckpoint& checkpoint, const TargetLayout& layout,
                               const TargetStage& stage, int reference, TargetFile* target) {
  const auto add = [&](const OptimizerPart& part) {
    return OptimizerBuilder(checkpoint, layout, stage, reference, part, target).add();
  };
  const std::vector<OptimizerPart> parts = optimizer_parts(layout, target->place().expert_rank);
  if (parts.size() == 1) return add(parts[0]);
  std::vector<PickleId> optimizers;
  for (const OptimizerPart& part : parts) {
    MEG_ASSIGN_OR_RETURN(optimizers.emplace_back(), add(part));
  }
  return target->graph().add_list(std::move(optimizers));
}

}  // namespace meg::checkpoint
