#include "libmeg/checkpoint/convert/internal/dist_values.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "libmeg/checkpoint/container/torch_file/internal/torch_storages.h"
#include "libmeg/checkpoint/container/torch_file/torch_value.h"
#include "libmeg/checkpoint/convert/internal/args_editor.h"
#include "libmeg/checkpoint/convert/internal/target_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/args/shape_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/model_keys.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rng_entries.h"
#include "libmeg/checkpoint/dialects/mp_rank/parameter_step.h"
#include "libmeg/model/expert_names.h"

namespace meg::checkpoint {
namespace {

/// The nodes under `root` that name storages.
std::vector<PickleId> persistent_nodes(const PickleGraph& graph, PickleId root) {
  std::vector<PickleId> found, open = {root};
  std::unordered_set<PickleId> visited;
  while (!open.empty()) {
    const PickleId id = open.back();
    open.pop_back();
    if (!visited.insert(id).second) continue;
    const PickleNode& node = graph.node(id);
    if (node.kind == PickleKind::kPersistent) found.push_back(id);
    open.insert(open.end(), node.children.begin(), node.children.end());
    if (node.kind != PickleKind::kCall) continue;
    const PickleCall& call = graph.call(id);
    for (const auto* more : {&call.items, &call.pairs, &call.states}) {
      open.insert(open.end(), more->begin(), more->end());
    }
  }
  return found;
}

/// What Megatron has written ever since it saves torch_dist.
constexpr double kSavedVersion = 3.0;

class CommonState {
 public:
  CommonState(const MegatronCheckpoint& checkpoint, model::NameFamily family,
              const SaveTorchDistOptions& options)
      : checkpoint_(checkpoint),
        family_(family),
        keep_optimizer_(options.keep_optimizer),
        distributed_optimizer_(options.distributed_optimizer),
        expert_size_(
            options.expert_model_parallel_size.value_or(checkpoint.expert_model_parallel_size())),
        file_(*checkpoint.files()[0].file),
        source_(file_.graph()),
        graph_(made_.graph()) {}

  Result<TorchFileContent> make() {
    std::vector<PickleId> pairs;
    const auto add = [&](std::string_view key, PickleId value) {
      pairs.insert(pairs.end(), {graph_.add_string(std::string(key)), value});
    };
    if (!checkpoint_.args(0).has_value()) {
      MEG_ASSIGN_OR_RETURN(const PickleId args, add_args());
      add("args", args);
    }
    const bool is_reordered = checkpoint_.checkpoint_version() < kHeadByHead;
    if (is_reordered) add("checkpoint_version", graph_.add_float(kSavedVersion));
    const std::span<const PickleId> found = source_.pairs(file_.root());
    for (size_t i = 0; i + 1 < found.size(); i += 2) {
      const std::string_view key = source_.as_string(found[i]).value_or("");
      const bool is_optimizer =
          key == "optimizer" && checkpoint_.optimizer().form != OptimizerForm::kNone;
      const bool is_scheduler = key == "opt_param_scheduler" || key == "lr_scheduler";
      // The model and random states are sharded entries of their own in torch_dist; the metadata of
      // how the source was saved would be wrong for the target.
      if (is_model_key(key) || is_rng_key(key) || key == "content_metadata") continue;
      // Rows of query_key_value are written head by head.
      if (key == "checkpoint_version" && is_reordered) continue;
      if (!keep_optimizer_ && (key == "optimizer" || is_scheduler)) continue;
      PickleId value = 0;
      if (is_optimizer) {
        MEG_ASSIGN_OR_RETURN(value, add_optimizers(found[i + 1]));
      } else if (key == "rerun_state_machine") {
        MEG_ASSIGN_OR_RETURN(value, add_without(found[i + 1], {"sharded"}));
      } else {
        MEG_ASSIGN_OR_RETURN(value, copy_value(file_, found[i + 1], &made_));
      }
      if (key == "args") change_args(value);
      add(key, value);
    }
    add("content_metadata", add_content_metadata());
    made_.root = graph_.add_dict(std::move(pairs));
    return std::move(made_);
  }

 private:
  Result<PickleId> add_args() {
    const int64_t rows = checkpoint_.parameters()[0].shape.at(0);
    return add_made_args(
        checkpoint_,
        {.tensor_model_parallel_size = checkpoint_.tensor_model_parallel_size(),
         .pipeline_model_parallel_size = checkpoint_.pipeline_model_parallel_size()},
        family_, rows, &graph_);
  }

  void change_args(PickleId args) {
    const std::optional<PickleId> dict = args_dict(graph_, args);
    if (!dict.has_value()) return;
    ArgsEditor editor(*dict, &graph_);
    // The form of the optimizer follows from it.
    editor.set_int("expert_model_parallel_size", expert_size_);
    // A folder of any layout: its pattern cuts no stages.
    if (family_ == checkpoint_.family()) return;
    set_hybrid_layers(checkpoint_, family_, {checkpoint_.config().num_layers}, &editor);
  }

  /// A dict of the first file without some of its keys.
  Result<PickleId> add_without(PickleId dict, std::initializer_list<std::string_view> keys) {
    return add_without(file_, dict, keys);
  }

  Result<PickleId> add_without(const TorchFile& file, PickleId dict,
                               std::initializer_list<std::string_view> keys) {
    std::vector<PickleId> pairs;
    const std::span<const PickleId> found = file.graph().pairs(dict);
    for (size_t i = 0; i + 1 < found.size(); i += 2) {
      const std::string_view key = file.graph().as_string(found[i]).value_or("");
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
      MEG_ASSIGN_OR_RETURN(const PickleId name, copy_value(file, found[i], &made_));
      MEG_ASSIGN_OR_RETURN(const PickleId value, copy_value(file, found[i + 1], &made_));
      pairs.insert(pairs.end(), {name, value});
    }
    return graph_.add_dict(std::move(pairs));
  }

  /// Which parameters an optimizer is for.
  enum class Part { kShared, kExperts, kAll };

  /// Whether a part has parameters of this kind. Every group of parameters other than experts is
  /// kept.
  bool has_group(Part part, ParamGroupKind kind) const {
    if (part != Part::kExperts) return true;
    return std::any_of(checkpoint_.parameters().begin(), checkpoint_.parameters().end(),
                       [kind](const LogicalParameter& parameter) {
                         return parameter.group == kind &&
                                model::parse_expert_name(parameter.canonical).has_value();
                       });
  }

  /// Each kind of group once, those of the first rank first.
  Result<PickleId> add_groups(Part part) {
    std::vector<ParamGroupKind> known;
    std::vector<PickleId> groups;
    for (const ParamGroup& group : checkpoint_.optimizer().groups) {
      const bool is_known = std::find(known.begin(), known.end(), group.kind) != known.end();
      if (is_known || !has_group(part, group.kind)) continue;
      known.push_back(group.kind);
      const TorchFile& file = *checkpoint_.files()[static_cast<size_t>(group.file)].file;
      MEG_ASSIGN_OR_RETURN(PickleId dict, add_without(file, group.node, {"params"}));
      ArgsEditor(dict, &graph_).set_bool("is_expert_parallel", part == Part::kExperts);
      if (distributed_optimizer_) {
        MEG_ASSIGN_OR_RETURN(dict, with_step(dict));
      }
      groups.push_back(dict);
    }
    return graph_.add_list(std::move(groups));
  }

  /// A group's settings, with the step that a distributed optimizer looks for there.
  Result<PickleId> with_step(PickleId settings) {
    if (graph_.find(settings, kStepKey).has_value()) return settings;
    MEG_ASSIGN_OR_RETURN(const std::optional<PickleId> step, add_group_step(checkpoint_, &graph_));
    if (!step.has_value()) return settings;
    std::vector<PickleId> pairs(graph_.pairs(settings).begin(), graph_.pairs(settings).end());
    pairs.insert(pairs.end(), {graph_.add_string(kStepKey), *step});
    return graph_.add_dict(std::move(pairs));
  }

  /// What a plain optimizer's parameters keep beside their tensors, once for all of them.
  Result<PickleId> add_common_step() {
    const auto* step = dynamic_cast<const TorchValue*>(step_of_parameters(checkpoint_));
    if (step == nullptr) return graph_.add_dict({});
    MEG_ASSIGN_OR_RETURN(const PickleId value, copy_value(*step->file(), step->node(), &made_));
    return graph_.add_dict({graph_.add_string("common_step"), value});
  }

  /// Several expert-parallel ranks chain two: {0: ..., 1: that of experts}.
  Result<PickleId> add_optimizers(PickleId outer) {
    if (expert_size_ == 1) return add_optimizer(outer, Part::kAll);
    MEG_ASSIGN_OR_RETURN(const PickleId shared, add_optimizer(outer, Part::kShared));
    MEG_ASSIGN_OR_RETURN(const PickleId experts, add_optimizer(outer, Part::kExperts));
    return graph_.add_dict({graph_.add_int(0), shared, graph_.add_int(1), experts});
  }

  Result<PickleId> add_optimizer(PickleId outer, Part part) {
    const OptimizerLayout& layout = checkpoint_.optimizer();
    // fp32 optimizers are torch's own dict; those with masters wrap it.
    const bool is_nested = source_.find(outer, layout.inner_key).has_value();
    const PickleId inner = is_nested ? *source_.find(outer, layout.inner_key) : outer;
    MEG_ASSIGN_OR_RETURN(const PickleId groups, add_groups(part));
    MEG_ASSIGN_OR_RETURN(const PickleId rest,
                         add_without(inner, {"state", "param_groups", layout.masters_key}));
    std::vector<PickleId> in_inner(graph_.pairs(rest).begin(), graph_.pairs(rest).end());
    if (!distributed_optimizer_) {
      MEG_ASSIGN_OR_RETURN(const PickleId state, add_common_step());
      in_inner.insert(in_inner.end(), {graph_.add_string("state"), state});
    }
    in_inner.insert(in_inner.end(), {graph_.add_string("param_groups"), groups});
    if (!distributed_optimizer_ && !is_nested) return graph_.add_dict(std::move(in_inner));
    std::vector<PickleId> pairs = {graph_.add_string("optimizer"),
                                   graph_.add_dict(std::move(in_inner))};
    if (is_nested) {
      MEG_ASSIGN_OR_RETURN(const PickleId more,
                           add_without(outer, {layout.inner_key, layout.masters_key}));
      pairs.insert(pairs.end(), graph_.pairs(more).begin(), graph_.pairs(more).end());
    }
    if (distributed_optimizer_) {
      pairs.insert(pairs.end(), {graph_.add_string("param_state_sharding_type"),
                                 graph_.add_string("fully_reshardable")});
    }
    return graph_.add_dict(std::move(pairs));
  }

  /// The metadata by which Megatron decides how to read the optimizer.
  PickleId add_content_metadata() {
    std::vector<PickleId> pairs = {
        graph_.add_string("singleton_local_shards"), graph_.add_bool(false),
        graph_.add_string("chained_optim_avoid_prefix"), graph_.add_bool(true)};
    if (distributed_optimizer_) {
      pairs.insert(pairs.end(), {graph_.add_string("distrib_optim_sharding_type"),
                                 graph_.add_string("fully_reshardable")});
    }
    return graph_.add_dict(std::move(pairs));
  }

  const MegatronCheckpoint& checkpoint_;
  model::NameFamily family_;
  bool keep_optimizer_;
  bool distributed_optimizer_;
  int64_t expert_size_;
  const TorchFile& file_;
  const PickleGraph& source_;
  TorchFileContent made_;
  PickleGraph& graph_;
};

}  // namespace

Result<PickleId> copy_value(const TorchFile& file, PickleId id, TorchFileContent* target) {
  MEG_ASSIGN_OR_RETURN(const TorchStorages named, find_torch_storages(file.graph(), file.path()));
  PickleCopier copier(file.graph(), target->graph());
  std::unordered_map<int, PickleId> copies;
  for (const PickleId persistent : persistent_nodes(file.graph(), id)) {
    const int storage = named.windows.at(persistent).storage;
    const TorchStorage& source = file.storages()[static_cast<size_t>(storage)];
    const auto [copy, is_new] = copies.try_emplace(storage, 0);
    if (is_new) {
      // Common values are small (args, counters); the file that holds them is written at once, so
      // their bytes become literals instead of transfers.
      std::vector<std::byte> bytes(source.bytes);
      MEG_RETURN_IF_ERROR(file.read_storage(storage, 0, bytes));
      const int made = target->add_storage(source.dtype, source.bytes, std::move(bytes));
      copy->second = target->storages()[static_cast<size_t>(made)].persistent;
    }
    copier.replace(persistent, copy->second);
  }
  return copier.copy(id);
}

Result<TorchFileContent> common_state(const MegatronCheckpoint& checkpoint,
                                      model::NameFamily family,
                                      const SaveTorchDistOptions& options) {
  return CommonState(checkpoint, family, options).make();
}

}  // namespace meg::checkpoint
