#include "libmeg/checkpoint/training/internal/optimizer_tree.h"

#include <algorithm>
#include <array>
#include <bit>

#include "libmeg/base/bytes.h"

// The value under "optimizer", in the form of torch's Optimizer.state_dict: parameters have no
// names there but numbers, which count through the groups in their order. So the order of groups
// and of members decides which moments belong to which parameter, and it must be the one in which
// Megatron makes them (get_param_groups).

namespace meg::checkpoint {
namespace {

bool is_sixteen_bit(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

class OptimizerWriter {
 public:
  OptimizerWriter(const OptimizerState& state, const std::vector<OptimizerMember>& members,
                  const ParamGroupRules& rules, TrainingTree* tree)
      : state_(state),
        is_core_(rules.is_core),
        is_expert_parallel_(rules.is_expert_parallel),
        tree_(*tree) {
    // 6ef5bdc puts the group with decay first; core begins a group when the first parameter needs
    // it, in the order of named_parameters().
    if (!is_core_) group_with(&state.decay);
    for (const OptimizerMember& member : members) {
      group_with(settings_of(member)).members.push_back(member.parameter);
    }
    if (rules.keeps_empty) {
      if (state.decoupled.has_value()) group_with(&*state.decoupled);
      group_with(&state.decay);
      group_with(&state.no_decay);
    } else {
      std::erase_if(groups_, [](const Group& group) { return group.members.empty(); });
    }
  }

  Result<PickleId> write() {
    MEG_RETURN_IF_ERROR(check());
    const PickleId inner = add_inner();
    if (!state_.mixed_precision) return inner;
    std::vector<PickleId> pairs = {tree_.text("optimizer"), inner};
    if (state_.grad_scaler.has_value()) {
      pairs.push_back(tree_.text("grad_scaler"));
      pairs.push_back(add_scaler(*state_.grad_scaler));
    }
    pairs.push_back(tree_.text("fp32_from_fp16_params"));
    pairs.push_back(add_masters());
    return tree_.graph().add_dict(std::move(pairs));
  }

 private:
  struct Group {
    const ParamGroupState* settings = nullptr;
    std::vector<const TrainingParameter*> members;
  };

  const ParamGroupState* settings_of(const OptimizerMember& member) const {
    if (member.is_embedding_or_output && state_.decoupled.has_value()) return &*state_.decoupled;
    return member.weight_decay ? &state_.decay : &state_.no_decay;
  }

  Group& group_with(const ParamGroupState* settings) {
    const auto found = std::find_if(groups_.begin(), groups_.end(),
                                    [&](const Group& group) { return group.settings == settings; });
    if (found != groups_.end()) return *found;
    return groups_.emplace_back(Group{.settings = settings, .members = {}});
  }

  Status check() {
    if (!is_core_ && state_.decoupled.has_value()) {
      return make_error(StatusCode::kInvalidArgument,
                        "optimizer: a decoupled learning rate is only possible with core's names");
    }
    if (!state_.mixed_precision && state_.grad_scaler.has_value()) {
      return make_error(StatusCode::kInvalidArgument,
                        "optimizer: a loss scaler is only possible with 16-bit weights");
    }
    for (const Group& group : groups_) {
      // Adam either has stepped all parameters or none.
      for (const TrainingParameter* member : group.members) {
        const bool has_state = member->exp_avg.has_value();
        has_state_ = has_state_.value_or(has_state);
        if (has_state != *has_state_ || member->exp_avg_sq.has_value() != has_state) {
          return make_error(StatusCode::kInvalidArgument,
                            "{}: expected exp_avg and exp_avg_sq on all parameters or on none",
                            member->name);
        }
        // A reader could not assign masters that only some parameters have:
        // fp32_from_fp16_params is a list by number.
        const bool wants_master = state_.mixed_precision && is_sixteen_bit(member->weight.dtype);
        if (member->fp32_param.has_value() != wants_master) {
          return make_error(StatusCode::kInvalidArgument, "{}: expected {} fp32 master",
                            member->name, wants_master ? "an" : "no");
        }
      }
    }
    return Status();
  }

  /// torch's own part: state by number, and the groups with these numbers.
  PickleId add_inner() {
    std::vector<PickleId> states, groups;
    int64_t next = 0;
    for (const Group& group : groups_) {
      for (const TrainingParameter* member : group.members) {
        // Before the first step "state" is an empty dict, as torch's.
        if (has_state_ != true) break;
        states.push_back(tree_.graph().add_int(next++));
        const PickleId exp_avg = tree_.tensor(*member->exp_avg);
        const PickleId exp_avg_sq = tree_.tensor(*member->exp_avg_sq);
        states.push_back(tree_.dict({{"exp_avg", exp_avg}, {"exp_avg_sq", exp_avg_sq}}));
      }
    }
    int64_t first = 0;
    for (const Group& group : groups_) {
      groups.push_back(add_group(group, first));
      first += static_cast<int64_t>(group.members.size());
    }
    return tree_.dict({{"state", tree_.graph().add_dict(std::move(states))},
                       {"param_groups", tree_.graph().add_list(std::move(groups))}});
  }

  PickleId add_group(const Group& group, int64_t first) {
    const ParamGroupState& settings = *group.settings;
    PickleGraph& graph = tree_.graph();
    std::vector<PickleId> pairs;
    const auto add = [&](std::string_view key, PickleId value) {
      pairs.push_back(tree_.text(key));
      pairs.push_back(value);
    };
    add("wd_mult", graph.add_float(settings.wd_mult));
    add("lr_mult", graph.add_float(settings.lr_mult));
    if (is_core_) {
      add("is_expert_parallel", graph.add_bool(is_expert_parallel_));
      add("is_decoupled_lr",
          graph.add_bool(state_.decoupled.has_value() && &settings == &*state_.decoupled));
      add("max_lr", graph.add_float(settings.max_lr));
      add("min_lr", graph.add_float(settings.min_lr));
    }
    add("lr", graph.add_float(settings.lr));
    add("bias_correction", graph.add_bool(settings.bias_correction));
    add("betas",
        graph.add_tuple({graph.add_float(settings.betas[0]), graph.add_float(settings.betas[1])}));
    add("eps", graph.add_float(settings.eps));
    add("weight_decay", graph.add_float(settings.weight_decay));
    if (settings.step.has_value()) add("step", graph.add_int(*settings.step));
    std::vector<PickleId> ids;
    for (size_t i = 0; i < group.members.size(); ++i) {
      ids.push_back(graph.add_int(first + static_cast<int64_t>(i)));
    }
    add("params", graph.add_list(std::move(ids)));
    return graph.add_dict(std::move(pairs));
  }

  PickleId add_masters() {
    std::vector<PickleId> lists;
    for (const Group& group : groups_) {
      std::vector<PickleId> masters;
      for (const TrainingParameter* member : group.members) {
        if (member->fp32_param.has_value()) masters.push_back(tree_.tensor(*member->fp32_param));
      }
      lists.push_back(tree_.graph().add_list(std::move(masters)));
    }
    return tree_.graph().add_list(std::move(lists));
  }

  PickleId add_scaler(const GradScalerState& scaler) {
    if (!scaler.dynamic.has_value()) return tree_.dict({});
    // Megatron keeps the scale as a CUDA tensor of one float32.
    std::array<std::byte, sizeof(float)> bytes = {};
    store_le(bytes.data(), std::bit_cast<uint32_t>(scaler.dynamic->scale));
    const PickleId scale = tree_.literal(DType::kFloat32, bytes);
    PickleGraph& graph = tree_.graph();
    return tree_.dict({{"scale", scale},
                       {"growth_tracker", graph.add_int(scaler.dynamic->growth_tracker)},
                       {"hysteresis_tracker", graph.add_int(scaler.dynamic->hysteresis_tracker)}});
  }

  const OptimizerState& state_;
  bool is_core_, is_expert_parallel_;
  TrainingTree& tree_;
  std::vector<Group> groups_;
  std::optional<bool> has_state_;
};

}  // namespace

Result<PickleId> add_optimizer(const OptimizerState& state,
                               const std::vector<OptimizerMember>& members,
                               const ParamGroupRules& rules, TrainingTree* tree) {
  return OptimizerWriter(state, members, rules, tree).write();
}

}  // namespace meg::checkpoint
