#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/rank_optimizer.h"

#include <fmt/format.h>

#include <algorithm>

namespace meg::checkpoint {
namespace {

bool is_sixteen_bit(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

/// Whether a group's parameters decay; by wd_mult, or in files without it by weight_decay.
std::optional<bool> decays(const PickleGraph& graph, PickleId group) {
  for (const char* key : {"wd_mult", "weight_decay"}) {
    const std::optional<PickleId> id = graph.find(group, key);
    const std::optional<double> value = id.has_value() ? graph.as_number(*id) : std::nullopt;
    if (value.has_value()) return *value != 0;
  }
  return std::nullopt;
}

/// core 0.6 to 0.15 say is_decoupled_lr; later ones that the group's learning rate is its own.
bool is_decoupled(const PickleGraph& graph, PickleId group) {
  const auto flag = [&](std::string_view key) -> std::optional<bool> {
    const std::optional<PickleId> id = graph.find(group, key);
    return id.has_value() ? graph.as_bool(*id) : std::nullopt;
  };
  return flag("is_decoupled_lr") == true || flag("default_config") == false;
}

/// Reads a rank's optimizer by the order of its parameters: torch's state knows numbers, not names.
/// Megatron deals parameters out to groups by rules (decay, decoupled learning rate), numbers them
/// through the groups, and each revision has its rules. The counts of the groups and the shapes of
/// every tensor must fit what these rules say, otherwise the state would belong to other
/// parameters.
class OptimizerReader {
 public:
  /// optimizer: where the file's own is not meant.
  OptimizerReader(const TorchFile& file, std::span<const OptimizedParameter> parameters,
                  std::optional<PickleId> optimizer)
      : file_(file),
        graph_(file.graph()),
        parameters_(parameters),
        outer_(optimizer.has_value() ? optimizer : graph_.find(file.root(), "optimizer")) {}

  Result<OptimizerForm> form() {
    if (!outer_.has_value() || graph_.node(*outer_).kind == PickleKind::kNone) {
      return OptimizerForm::kNone;
    }
    MEG_RETURN_IF_ERROR(find_form(*outer_));
    return found_.layout.form;
  }

  Result<RankOptimizer> read() {
    found_.states.resize(parameters_.size());
    MEG_ASSIGN_OR_RETURN(const OptimizerForm found, form());
    if (found == OptimizerForm::kDistributed || found == OptimizerForm::kNone) return found_;
    MEG_RETURN_IF_ERROR(read_groups());
    MEG_RETURN_IF_ERROR(read_masters(*outer_));
    MEG_RETURN_IF_ERROR(read_state());
    return found_;
  }

 private:
  template <class... Args>
  Status corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    return Status(StatusCode::kCorruption,
                  fmt::format("{}: optimizer: ", file_.path()) +
                      fmt::vformat(format, fmt::make_format_args(args...)));
  }

  Status find_form(PickleId outer) {
    OptimizerLayout& layout = found_.layout;
    // Expert-parallel ranks have one; their optimizers are read one by one (expert_optimizers.cpp).
    if (graph_.node(outer).kind == PickleKind::kList) {
      return make_error(StatusCode::kUnsupported,
                        "{}: optimizer: chained optimizers, as with experts, are not supported; "
                        "`ignore_optimizer = true` skips them",
                        file_.path());
    }
    for (const char* key : {"fp32_groups_flat", "single_partition_of_fp32_groups"}) {
      // Told by their keys before anything else is looked for in them.
      if (!graph_.find(outer, key).has_value()) continue;
      return make_error(StatusCode::kUnsupported,
                        "{}: optimizer: DeepSpeed's flat groups ({}) are not supported; "
                        "`ignore_optimizer = true` skips them",
                        file_.path(), key);
    }
    if (graph_.find(outer, kShardMasters).has_value()) {
      return make_error(
          StatusCode::kUnsupported,
          "{}: optimizer: a data-parallel rank's shard ({}) in place of the whole optimizer is not "
          "supported; `ignore_optimizer = true` skips it",
          file_.path(), kShardMasters);
    }
    // FP32Optimizer's state is torch's own, at the top.
    if (graph_.find(outer, "param_groups").has_value()) {
      layout.form = OptimizerForm::kFp32;
      inner_ = outer;
    } else {
      layout.form = OptimizerForm::kMixedPrecision;
      for (const char* key : {"optimizer", "optimizer_state_dict"}) {
        if (const auto inner = graph_.find(outer, key)) {
          layout.inner_key = key;
          inner_ = *inner;
          break;
        }
        inner_ = outer;
      }
      for (const char* key : {"fp32_from_fp16_params", "fp32_from_fp16"}) {
        if (graph_.find(outer, key).has_value()) layout.masters_key = key;
      }
    }
    const std::optional<PickleId> groups = graph_.find(inner_, "param_groups");
    if (!groups.has_value() || graph_.node(*groups).kind != PickleKind::kList) {
      return make_error(StatusCode::kUnsupported,
                        "{}: optimizer: expected state and param_groups, found {}", file_.path(),
                        graph_.describe(outer, 80));
    }
    groups_ = graph_.node(*groups).children;
    const bool has_ids = std::all_of(groups_.begin(), groups_.end(), [this](PickleId group) {
      return graph_.find(group, "params").has_value();
    });
    // Without params or state this is what the distributed optimizer leaves in the model file.
    if (!has_ids || !graph_.find(inner_, "state").has_value()) {
      layout.form = OptimizerForm::kDistributed;
    }
    return Status();
  }

  Status read_groups() {
    const std::vector<ParamGroupKind> kinds = param_group_kinds(graph_, groups_);
    for (size_t g = 0; g < groups_.size(); ++g) {
      MEG_RETURN_IF_ERROR(add_group(groups_[g], kinds[g]));
    }
    MEG_RETURN_IF_ERROR(choose_members());
    for (size_t g = 0; g < groups_.size(); ++g) MEG_RETURN_IF_ERROR(read_ids(g));
    return Status();
  }

  Status add_group(PickleId group, ParamGroupKind kind) {
    OptimizerLayout& layout = found_.layout;
    const bool is_twice = std::any_of(layout.groups.begin(), layout.groups.end(),
                                      [&](const ParamGroup& other) { return other.kind == kind; });
    if (is_twice) {
      return make_error(StatusCode::kUnsupported,
                        "{}: optimizer: param_groups: expected at most one group {}, found {} "
                        "groups, several of which are",
                        file_.path(), param_group_text(kind), groups_.size());
    }
    const size_t count = graph_.node(*graph_.find(group, "params")).children.size();
    // The keys that came with the order of core 0.6, and with that of core 0.16.
    const bool is_core = graph_.find(group, "is_decoupled_lr").has_value();
    const bool is_sorted = graph_.find(group, "default_config").has_value();
    const bool no_decay_is_first = layout.groups.empty() && kind == ParamGroupKind::kNoDecay;
    if ((is_core && !is_sorted) || (no_decay_is_first && groups_.size() > 1 && count > 0)) {
      layout.groups_by_first_appearance = true;
    }
    layout.keeps_empty_groups |= is_sorted || count == 0;
    layout.groups.push_back({.kind = kind, .file = 0, .node = group, .parameters = count});
    return Status();
  }

  /// Sets members_: the parameters of each group.
  Status choose_members() {
    Status misfit;
    // Whether norms of queries and keys decay is not known here without args of new revisions: the
    // counts say it. The error of the usual rule is the one that is shown.
    for (const bool qk_norms_decay : {false, true}) {
      members_.assign(groups_.size(), {});
      for (size_t i = 0; i < parameters_.size(); ++i) {
        const std::optional<size_t> group = group_for(parameters_[i], qk_norms_decay);
        if (!group.has_value()) {
          return corrupt("param_groups: expected every parameter in a group, found {} in none",
                         parameters_[i].flat_name);
        }
        members_[*group].push_back(i);
      }
      const Status status = check_counts();
      if (status.ok()) return Status();
      if (misfit.ok()) misfit = status;
    }
    return misfit;
  }

  std::optional<size_t> group_for(const OptimizedParameter& parameter, bool qk_norms_decay) const {
    const std::vector<ParamGroup>& groups = found_.layout.groups;
    const auto place_of = [&](ParamGroupKind kind) {
      return std::find_if(groups.begin(), groups.end(),
                          [kind](const ParamGroup& group) { return group.kind == kind; });
    };
    const bool has_decoupled = place_of(ParamGroupKind::kDecoupled) != groups.end();
    const auto place = place_of(param_group_for(parameter, has_decoupled, qk_norms_decay));
    if (place == groups.end()) return std::nullopt;
    return static_cast<size_t>(place - groups.begin());
  }

  Status check_counts() const {
    for (size_t g = 0; g < groups_.size(); ++g) {
      const ParamGroup& group = found_.layout.groups[g];
      if (group.parameters == members_[g].size()) continue;
      // Groups of another rule than --decoupled-lr's look alike.
      const StatusCode code = found_.layout.group(ParamGroupKind::kDecoupled) != nullptr
                                  ? StatusCode::kUnsupported
                                  : StatusCode::kCorruption;
      return make_error(
          code, "{}: optimizer: param_groups[{}]: expected {} parameters {}, found {}",
          file_.path(), g, members_[g].size(), param_group_text(group.kind), group.parameters);
    }
    return Status();
  }

  Status read_ids(size_t g) {
    ids_.resize(parameters_.size(), -1);
    const std::vector<PickleId>& ids = graph_.node(*graph_.find(groups_[g], "params")).children;
    for (size_t k = 0; k < ids.size(); ++k) {
      const std::optional<int64_t> id = graph_.as_int(ids[k]);
      if (!id.has_value()) return corrupt("param_groups[{}]: params[{}] is not a number", g, k);
      ids_[members_[g][k]] = *id;
      found_.states[members_[g][k]].group = found_.layout.groups[g].kind;
    }
    return Status();
  }

  Status add_tensor(size_t parameter, const std::string& kind, const TensorView& tensor) {
    const OptimizedParameter& owner = parameters_[parameter];
    if (tensor.shape != owner.weight->shape) {
      return corrupt("{} of {}: expected shape {}, found {}", kind, owner.flat_name,
                     shape_text(owner.weight->shape), shape_text(tensor.shape));
    }
    found_.states[parameter].tensors.emplace_back(kind, tensor);
    return Status();
  }

  Status read_masters(PickleId outer) {
    if (found_.layout.form != OptimizerForm::kMixedPrecision) return Status();
    const std::string& key = found_.layout.masters_key;
    const std::optional<PickleId> lists = graph_.find(outer, key);
    if (!lists.has_value()) return corrupt("expected {}, found no such key", key);
    const std::vector<PickleId>& groups = graph_.node(*lists).children;
    if (groups.size() != groups_.size()) {
      return corrupt("{}: expected {} groups, found {}", key, groups_.size(), groups.size());
    }
    for (size_t g = 0; g < groups.size(); ++g) {
      const std::vector<PickleId>& masters = graph_.node(groups[g]).children;
      // Weights that were widened when the checkpoint was converted keep their masters.
      const bool has_all = masters.size() == members_[g].size();
      size_t next = 0;
      for (const size_t member : members_[g]) {
        // Groups list masters of 16-bit parameters alone, in the order of the group.
        if (!has_all && !is_sixteen_bit(parameters_[member].weight->dtype)) continue;
        const TensorView* tensor = next < masters.size() ? file_.tensor(masters[next]) : nullptr;
        if (tensor == nullptr) {
          return corrupt("{}[{}][{}]: expected the master of {}, found {}", key, g, next,
                         parameters_[member].flat_name,
                         next < masters.size() ? "no tensor" : "the list's end");
        }
        ++next;
        MEG_RETURN_IF_ERROR(add_tensor(member, "fp32_param", *tensor));
      }
      if (next != masters.size()) {
        return corrupt("{}[{}]: expected {} masters, found {}", key, g, next, masters.size());
      }
    }
    return Status();
  }

  Status read_state() {
    MEG_ASSIGN_OR_RETURN(const auto entries, state_entries(file_, inner_));
    if (entries.empty()) return Status();
    found_.layout.has_state = true;
    // torch has state for all parameters or, before the first step, for none.
    if (entries.size() != parameters_.size()) {
      return corrupt("state: expected {} entries, found {}", parameters_.size(), entries.size());
    }
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const auto entry = entries.find(ids_[i]);
      if (entry == entries.end()) {
        return corrupt("state: expected an entry {} for {}, found none", ids_[i],
                       parameters_[i].flat_name);
      }
      MEG_RETURN_IF_ERROR(read_entry(i, entry->second));
    }
    return Status();
  }

  Status read_entry(size_t parameter, PickleId entry) {
    const std::span<const PickleId> pairs = graph_.pairs(entry);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::optional<std::string_view> key = graph_.as_string(pairs[i]);
      if (!key.has_value()) {
        return corrupt("state of {}: expected names as keys", parameters_[parameter].flat_name);
      }
      const TensorView* tensor = file_.tensor(pairs[i + 1]);
      const bool is_scalar = tensor != nullptr && tensor->numel() == 1 && tensor->shape.empty();
      // Steps and the like, which are per parameter but not cut as it is.
      if (tensor == nullptr || is_scalar) {
        found_.states[parameter].other.emplace_back(*key, pairs[i + 1]);
      } else {
        MEG_RETURN_IF_ERROR(add_tensor(parameter, std::string(*key), *tensor));
      }
    }
    return Status();
  }

  const TorchFile& file_;
  const PickleGraph& graph_;
  std::span<const OptimizedParameter> parameters_;
  std::optional<PickleId> outer_;
  RankOptimizer found_;
  PickleId inner_ = 0;
  std::vector<PickleId> groups_;
  std::vector<std::vector<size_t>> members_;  // of each group: indices of parameters
  std::vector<int64_t> ids_;
};

}  // namespace

OptimizedParameter optimized_parameter(const RankEntry& entry) {
  return {.flat_name = entry.flat_name,
          .weight = entry.tensor,
          .is_embedding_or_output = entry.match.partition == model::Partition::kVocabulary};
}

std::vector<ParamGroupKind> param_group_kinds(const PickleGraph& graph,
                                              std::span<const PickleId> groups) {
  // Without any decay in the run both groups say 0 where wd_mult is missing: get_param_groups puts
  // decay first.
  const bool told_apart = groups.size() != 2 ||
                          decays(graph, groups[0]) != decays(graph, groups[1]) ||
                          is_decoupled(graph, groups[0]) != is_decoupled(graph, groups[1]);
  std::vector<ParamGroupKind> kinds;
  for (size_t g = 0; g < groups.size(); ++g) {
    const bool decay = told_apart ? decays(graph, groups[g]).value_or(g == 0) : g == 0;
    kinds.push_back(!decay                           ? ParamGroupKind::kNoDecay
                    : is_decoupled(graph, groups[g]) ? ParamGroupKind::kDecoupled
                                                     : ParamGroupKind::kDecay);
  }
  return kinds;
}

ParamGroupKind param_group_for(const OptimizedParameter& parameter, bool has_decoupled,
                               bool qk_norms_decay) {
  if (parameter.is_embedding_or_output && has_decoupled) return ParamGroupKind::kDecoupled;
  const std::string& name = parameter.flat_name;
  const bool is_qk_norm = name.find("q_layernorm.") != std::string::npos ||
                          name.find("k_layernorm.") != std::string::npos;
  const bool decays = model::has_weight_decay(name, parameter.weight->shape.size()) ||
                      (is_qk_norm && qk_norms_decay);
  return decays ? ParamGroupKind::kDecay : ParamGroupKind::kNoDecay;
}

Result<OptimizerForm> optimizer_form(const TorchFile& file, PickleId optimizer) {
  return OptimizerReader(file, {}, optimizer).form();
}

Result<std::unordered_map<int64_t, PickleId>> state_entries(const TorchFile& file, PickleId inner) {
  const PickleGraph& graph = file.graph();
  const std::optional<PickleId> state = graph.find(inner, "state");
  std::unordered_map<int64_t, PickleId> entries;
  if (!state.has_value()) return entries;
  const std::span<const PickleId> pairs = graph.pairs(*state);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::optional<int64_t> id = graph.as_int(pairs[i]);
    if (!id.has_value()) {
      return make_error(StatusCode::kCorruption,
                        "{}: optimizer: state: expected numbers as keys, found {}", file.path(),
                        graph.describe(pairs[i], 40));
    }
    entries[*id] = pairs[i + 1];
  }
  return entries;
}

Result<RankOptimizer> read_rank_optimizer(const TorchFile& file,
                                          std::span<const OptimizedParameter> parameters,
                                          std::optional<PickleId> optimizer) {
  return OptimizerReader(file, parameters, optimizer).read();
}

}  // namespace meg::checkpoint
