#include "libmeg/checkpoint/reshard/target_optimizer.h"

#include <algorithm>
#include <string>
#include <utility>

namespace meg {
namespace {

/// A param group of a stage: its parameters in the order of their numbers.
struct Group {
  bool weight_decay = false;
  std::vector<const LogicalParameter*> parameters;
};

/// Non-empty groups in their order. Parameters are met in the order of the chunks' modules.
/// Mirrors Megatron-LM megatron/optimizer/__init__.py: get_param_groups.
std::vector<Group> groups_of(const TargetStage& stage, bool by_first_appearance) {
  std::vector<Group> groups;
  if (!by_first_appearance) groups = {Group{true, {}}, Group{false, {}}};
  for (const std::vector<TargetEntry>& chunk : stage.chunks) {
    for (const TargetEntry& entry : chunk) {
      if (entry.parameter == nullptr) continue;
      const bool decays = entry.parameter->weight_decay;
      auto group = std::find_if(groups.begin(), groups.end(),
                                [&](const Group& g) { return g.weight_decay == decays; });
      if (group == groups.end()) group = groups.insert(group, Group{decays, {}});
      group->parameters.push_back(entry.parameter);
    }
  }
  std::erase_if(groups, [](const Group& group) { return group.parameters.empty(); });
  return groups;
}

class OptimizerBuilder {
 public:
  OptimizerBuilder(const MegatronCheckpoint& checkpoint, const TargetLayout& layout,
                   const TargetStage& stage, int reference, TargetFile* target)
      : checkpoint_(checkpoint),
        layout_(layout),
        optimizer_(checkpoint.optimizer()),
        reference_(reference),
        target_(target),
        groups_(groups_of(stage, optimizer_.groups_by_first_appearance)) {}

  Result<PickleId> add() {
    const PickleId outer = *source().find(file().root(), "optimizer");
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
    for (const auto& [key, node] : parameter.other_state) {
      const int owner = checkpoint_.file_index(0, parameter.stage);
      MEG_ASSIGN_OR_RETURN(const PickleId value, target_->carry(owner, node));
      values.emplace_back(key, value);
    }
    const auto place = [&](const std::pair<std::string, PickleId>& value) {
      return std::find(keys.begin(), keys.end(), value.first) - keys.begin();
    };
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

  /// The groups' settings are the same on all ranks: those of the source's first file are taken.
  Result<PickleId> add_groups() {
    std::vector<PickleId> groups;
    int64_t id = 0;
    for (const Group& group : groups_) {
      const std::optional<PickleId> settings =
          group.weight_decay ? optimizer_.decay_group : optimizer_.no_decay_group;
      if (!settings.has_value()) {
        return make_error(StatusCode::kCorruption,
                          "{}: optimizer: expected a group of parameters {} weight decay, found "
                          "none",
                          checkpoint_.files()[0].file->path(),
                          group.weight_decay ? "with" : "without");
      }
      std::vector<PickleId> ids;
      for (size_t i = 0; i < group.parameters.size(); ++i) {
        ids.push_back(target_->graph().add_int(id++));
      }
      MEG_ASSIGN_OR_RETURN(const PickleId dict, add_group(*settings, std::move(ids)));
      groups.push_back(dict);
    }
    return target_->graph().add_list(std::move(groups));
  }

  Result<PickleId> add_group(PickleId settings, std::vector<PickleId> ids) {
    const PickleGraph& graph = checkpoint_.files()[0].file->graph();
    std::vector<PickleId> pairs;
    const std::span<const PickleId> found = graph.pairs(settings);
    for (size_t i = 0; i + 1 < found.size(); i += 2) {
      MEG_ASSIGN_OR_RETURN(const PickleId key, target_->carry(0, found[i]));
      pairs.push_back(key);
      if (graph.as_string(found[i]) == "params") {
        pairs.push_back(target_->graph().add_list(std::move(ids)));
      } else {
        MEG_ASSIGN_OR_RETURN(const PickleId value, target_->carry(0, found[i + 1]));
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
  TargetFile* target_;
  std::vector<Group> groups_;
};

}  // namespace

Result<PickleId> add_optimizer(const MegatronCheckpoint& checkpoint, const TargetLayout& layout,
                               const TargetStage& stage, int reference, TargetFile* target) {
  return OptimizerBuilder(checkpoint, layout, stage, reference, target).add();
}

}  // namespace meg
