#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/plain_optimizer.h"

#include <algorithm>
#include <utility>

#include "libmeg/checkpoint/dialects/mp_rank/parameter_step.h"

namespace meg::checkpoint {
namespace {

/// Whether a kind is the fp32 masters: in Megatron's plain optimizers or in the distributed one.
bool is_master(std::string_view kind) { return kind == "fp32_param" || kind == "param"; }

/// Keys in which groups of one kind may differ.
bool is_own_setting(std::string_view key) { return key == "params" || key == "is_expert_parallel"; }

/// The step of torch's own Adam, which Megatron keeps once for all parameters.
constexpr const char* kCommonStep = "common_step";

/// Writes a plain optimizer's tree around states that are known by parameter: numbers through the
/// groups, as torch has them, with the settings of the distributed optimizer's groups. Readers of
/// plain optimizers (rank_optimizer.cpp) then read both forms.
class PlainOptimizer {
 public:
  PlainOptimizer(const std::vector<StatefulParameter>& parameters, const std::string& name,
                 RankDraft* draft)
      : parameters_(parameters), name_(name), graph_(draft->graph()) {
    has_masters_ = std::any_of(parameters.begin(), parameters.end(), [](const auto& parameter) {
      return parameter.weight.dtype == DType::kFloat16 ||
             parameter.weight.dtype == DType::kBFloat16;
    });
  }

  Result<PickleId> add(PickleId outer, PickleId inner, bool qk_norms_decay) {
    MEG_RETURN_IF_ERROR(check_coverage());
    MEG_RETURN_IF_ERROR(read_groups(inner, qk_norms_decay));
    const PickleId made = add_inner(inner);
    if (!has_masters_) return made;
    std::vector<PickleId> pairs = {graph_.add_string("optimizer"), made};
    for (size_t i = 0; i + 1 < graph_.pairs(outer).size(); i += 2) {
      const PickleId key = graph_.pairs(outer)[i];
      const std::string_view text = graph_.as_string(key).value_or("");
      // The way of sharding is of no meaning once the states are whole.
      if (text == "optimizer" || text == "param_state_sharding_type") continue;
      // What torch's Adam keeps beside a parameter's tensors: the step, which groups have as well.
      if (text == "param_state" && have_steps()) continue;
      if (outer == inner && (text == "state" || text == "param_groups")) continue;
      pairs.insert(pairs.end(), {key, graph_.pairs(outer)[i + 1]});
    }
    pairs.insert(pairs.end(), {graph_.add_string("fp32_from_fp16_params"), add_masters()});
    return graph_.add_dict(std::move(pairs));
  }

 private:
  /// All parameters have the same kinds of state, 16-bit weights a master among them.
  Status check_coverage() const {
    for (const StatefulParameter& parameter : parameters_) {
      MEG_RETURN_IF_ERROR(check_kinds(parameters_.front(), parameter));
      MEG_RETURN_IF_ERROR(check_kinds(parameter, parameters_.front()));
      const bool has_master = std::any_of(parameter.states.begin(), parameter.states.end(),
                                          [](const auto& state) { return is_master(state.first); });
      if (has_master || !has_masters_) continue;
      return make_error(StatusCode::kCorruption,
                        "{}: optimizer: expected the fp32 weights of {}, found none", name_,
                        parameter.flat_name);
    }
    return {};
  }

  /// Whether `parameter` has every kind of state that `other` has.
  Status check_kinds(const StatefulParameter& other, const StatefulParameter& parameter) const {
    for (const auto& [kind, tensor] : other.states) {
      if (parameter.states.contains(kind)) continue;
      return make_error(StatusCode::kCorruption,
                        "{}: optimizer: expected {} of {} as for {}, found none", name_, kind,
                        parameter.flat_name, other.flat_name);
    }
    return {};
  }

  bool have_steps() const {
    return std::all_of(groups_.begin(), groups_.end(),
                       [this](PickleId group) { return graph_.find(group, kStepKey).has_value(); });
  }

  Status read_groups(PickleId inner, bool qk_norms_decay) {
    const std::optional<PickleId> list = graph_.find(inner, "param_groups");
    if (!list.has_value() || graph_.node(*list).kind != PickleKind::kList) {
      return make_error(StatusCode::kCorruption,
                        "{}: optimizer: expected a list of param_groups, found {}", name_,
                        graph_.describe(inner, 80));
    }
    groups_ = graph_.node(*list).children;
    const std::vector<ParamGroupKind> kinds = param_group_kinds(graph_, groups_);
    const bool has_decoupled =
        std::find(kinds.begin(), kinds.end(), ParamGroupKind::kDecoupled) != kinds.end();
    members_.resize(groups_.size());
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const StatefulParameter& parameter = parameters_[i];
      const OptimizedParameter seen{.flat_name = parameter.flat_name,
                                    .weight = &parameter.weight,
                                    .is_embedding_or_output = parameter.is_embedding_or_output};
      const ParamGroupKind kind = param_group_for(seen, has_decoupled, qk_norms_decay);
      const auto group = std::find(kinds.begin(), kinds.end(), kind);
      if (group == kinds.end()) {
        return make_error(StatusCode::kCorruption,
                          "{}: optimizer: expected a group of parameters {} for {}, found none",
                          name_, param_group_text(kind), parameter.flat_name);
      }
      members_[static_cast<size_t>(group - kinds.begin())].push_back(i);
    }
    return {};
  }

  // Numbers follow the groups, so the state is written in their order.
  PickleId add_inner(PickleId inner) {
    std::vector<PickleId> pairs = {graph_.add_string("state"), add_state(inner),
                                   graph_.add_string("param_groups"), add_groups()};
    for (size_t i = 0; i + 1 < graph_.pairs(inner).size(); i += 2) {
      const PickleId key = graph_.pairs(inner)[i];
      const std::string_view text = graph_.as_string(key).value_or("");
      if (text == "state" || text == "param_groups") continue;
      if (text == "param_state_sharding_type") continue;
      pairs.insert(pairs.end(), {key, graph_.pairs(inner)[i + 1]});
    }
    return graph_.add_dict(std::move(pairs));
  }

  PickleId add_state(PickleId inner) {
    // Megatron keeps the step once; torch's form has it with each parameter.
    const std::optional<PickleId> before = graph_.find(inner, "state");
    const std::optional<PickleId> common =
        before.has_value() ? graph_.find(*before, kCommonStep) : std::nullopt;
    std::vector<PickleId> entries;
    int64_t id = 0;
    for (size_t g = 0; g < groups_.size(); ++g) {
      const std::optional<PickleId> step =
          common.has_value() ? common : step_of_parameters(groups_[g]);
      for (const size_t i : members_[g]) {
        std::vector<PickleId> entry;
        if (step.has_value()) entry = {graph_.add_string(kStepKey), *step};
        for (const auto& [kind, tensor] : parameters_[i].states) {
          if (is_master(kind)) continue;
          entry.insert(entry.end(), {graph_.add_string(kind), tensor});
        }
        if (entry.empty()) continue;
        entries.push_back(graph_.add_int(id++));
        entries.push_back(graph_.add_dict(std::move(entry)));
      }
    }
    return graph_.add_dict(std::move(entries));
  }

  /// The distributed optimizer puts the step of torch's own Adam into the groups, as a float; that
  /// of Apex and Transformer Engine, which is theirs, is an int or a tensor.
  std::optional<PickleId> step_of_parameters(PickleId group) const {
    const std::optional<PickleId> step = graph_.find(group, kStepKey);
    const bool is_float = step.has_value() && graph_.node(*step).kind == PickleKind::kFloat;
    return is_float ? step : std::nullopt;
  }

  PickleId add_groups() {
    std::vector<PickleId> groups;
    int64_t id = 0;
    for (size_t g = 0; g < groups_.size(); ++g) {
      std::vector<PickleId> pairs;
      const std::vector<PickleId> found(graph_.pairs(groups_[g]).begin(),
                                        graph_.pairs(groups_[g]).end());
      const bool have_step = step_of_parameters(groups_[g]).has_value();
      for (size_t i = 0; i + 1 < found.size(); i += 2) {
        const std::string_view key = graph_.as_string(found[i]).value_or("");
        if (key == "params" || (key == kStepKey && have_step)) continue;
        pairs.insert(pairs.end(), {found[i], found[i + 1]});
      }
      std::vector<PickleId> ids;
      for (size_t i = 0; i < members_[g].size(); ++i) ids.push_back(graph_.add_int(id++));
      pairs.push_back(graph_.add_string("params"));
      pairs.push_back(graph_.add_list(std::move(ids)));
      groups.push_back(graph_.add_dict(std::move(pairs)));
    }
    return graph_.add_list(std::move(groups));
  }

  PickleId add_masters() {
    std::vector<PickleId> lists;
    for (const std::vector<size_t>& group : members_) {
      std::vector<PickleId> masters;
      for (const size_t i : group) {
        const auto& states = parameters_[i].states;
        const auto master = std::find_if(states.begin(), states.end(),
                                         [](const auto& state) { return is_master(state.first); });
        masters.push_back(master->second);
      }
      lists.push_back(graph_.add_list(std::move(masters)));
    }
    return graph_.add_list(std::move(lists));
  }

  const std::vector<StatefulParameter>& parameters_;
  const std::string& name_;
  PickleGraph& graph_;
  bool has_masters_ = false;
  std::vector<PickleId> groups_;
  std::vector<std::vector<size_t>> members_;  // of each group: indices of parameters
};

}  // namespace

Result<PickleId> add_plain_optimizer(const std::vector<StatefulParameter>& parameters,
                                     PickleId outer, PickleId inner, bool qk_norms_decay,
                                     const std::string& name, RankDraft* draft) {
  return PlainOptimizer(parameters, name, draft).add(outer, inner, qk_norms_decay);
}

Status check_group_settings(const PickleGraph& graph, std::span<const PickleId> groups,
                            const PickleGraph& other_graph, std::span<const PickleId> other_groups,
                            const std::string& where, std::string_view owner) {
  const std::vector<ParamGroupKind> kinds = param_group_kinds(graph, groups);
  const std::vector<ParamGroupKind> other_kinds = param_group_kinds(other_graph, other_groups);
  for (size_t i = 0; i < other_kinds.size(); ++i) {
    const auto same = std::find(kinds.begin(), kinds.end(), other_kinds[i]);
    if (same == kinds.end()) continue;  // add_plain_optimizer() misses it
    const PickleId expected_group = groups[static_cast<size_t>(same - kinds.begin())];
    const std::span<const PickleId> pairs = other_graph.pairs(other_groups[i]);
    for (size_t k = 0; k + 1 < pairs.size(); k += 2) {
      const std::string key(other_graph.as_string(pairs[k]).value_or(""));
      if (is_own_setting(key)) continue;
      const std::string found = other_graph.describe(pairs[k + 1]);
      const std::optional<PickleId> other = graph.find(expected_group, key);
      const std::string expected = other.has_value() ? graph.describe(*other) : "none";
      if (found == expected) continue;
      return make_error(StatusCode::kCorruption, "{}: expected {} {} as {}, found {}", where, key,
                        expected, owner, found);
    }
  }
  return {};
}

}  // namespace meg::checkpoint
