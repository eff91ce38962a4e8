#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/optimizer_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "libmeg/checkpoint/container/torch_file/torch_source.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/flat_parameters.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/plain_optimizer.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/rank_optimizer.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_model.h"
#include "libmeg/checkpoint/state/assembled_source.h"

// Shards are equal parts of the flat gradient buffer, which holds the parameters in reverse order;
// they may begin and end inside parameters. A shard's file has no names: by group, and in the order
// of named_parameters() within a group, it lists its part of every parameter. So the lengths of all
// parameters determine what each tensor is. They are compared with every tensor's length, and
// masters with the weights. Mirrors DistributedOptimizer of Megatron-LM
// megatron/optimizer/distrib_optimizer.py before 49e4bd68 (build_model_gbuf_param_range_map).

namespace meg::checkpoint {
namespace {

using File = std::shared_ptr<const TorchFile>;
using Source = std::shared_ptr<const TensorSource>;

constexpr const char* kMaster = "fp32_param";

/// The groups that these revisions have, in their order.
constexpr ParamGroupKind kGroups[] = {ParamGroupKind::kDecay, ParamGroupKind::kNoDecay};

/// Elements [first, first + count) of a parameter.
struct Part {
  size_t parameter = 0;
  int64_t first = 0, count = 0;
};

struct Parameter {
  OptimizedParameter seen;
  Source weight;
  ParamGroupKind group = ParamGroupKind::kDecay;
  std::map<std::string, std::vector<Piece>> pieces;  // by kind of state
};

class ShardReader {
 public:
  ShardReader(const File& model_file, const std::vector<File>& shards,
              const model::ParameterTable& table)
      : model_file_(model_file), shards_(shards), table_(table) {}

  Result<TorchFile> compose() {
    MEG_RETURN_IF_ERROR(read_parameters());
    MEG_RETURN_IF_ERROR(check_count());
    for (size_t s = 0; s < shards_.size(); ++s) MEG_RETURN_IF_ERROR(read_shard(s));
    MEG_ASSIGN_OR_RETURN(const PickleId root, draft_.copy(model_file_));
    MEG_ASSIGN_OR_RETURN(const PickleId first, draft_.copy(shards_[0]));
    const PickleId outer = *draft_.graph().find(first, "optimizer");
    MEG_ASSIGN_OR_RETURN(const PickleId plain, add_optimizer(outer));
    return finish(root, first, plain);
  }

 private:
  Status corrupt(size_t shard, const std::string& what) const {
    return make_error(StatusCode::kCorruption, "{}: optimizer: {}", shards_[shard]->path(), what);
  }

  Status read_parameters() {
    MEG_ASSIGN_OR_RETURN(model_, read_rank_model(*model_file_, table_));
    for (const std::vector<RankEntry>& chunk : model_.chunks) {
      chunk_begins_.push_back(parameters_.size());
      for (const RankEntry& entry : chunk) {
        if (!entry.match.has_optimizer_state()) continue;
        Parameter& parameter = parameters_.emplace_back();
        parameter.seen = optimized_parameter(entry);
        parameter.weight = torch_source(model_file_, *entry.tensor);
        parameter.group = param_group_for(parameter.seen, false, false);
        if (parameter.weight->dtype() == parameters_.front().weight->dtype()) continue;
        return make_error(StatusCode::kUnsupported,
                          "{}: optimizer: shards of data-parallel ranks for weights of several "
                          "types ({}: {}) are not supported; `ignore_optimizer = true` skips them",
                          model_file_->path(), parameter.seen.flat_name,
                          dtype_name(parameter.weight->dtype()));
      }
    }
    chunk_begins_.push_back(parameters_.size());
    return {};
  }

  Status check_count() const {
    const PickleGraph& graph = model_file_->graph();
    const std::optional<PickleId> args = graph.find(model_file_->root(), "args");
    const auto size = args.has_value() ? int_arg(graph, *args, "data_parallel_size") : std::nullopt;
    const auto count = static_cast<int64_t>(shards_.size());
    if (size.value_or(count) == count) return {};
    return make_error(StatusCode::kCorruption,
                      "{}: optimizer: expected shards of {} data-parallel ranks, as args say, "
                      "found {}",
                      model_file_->path(), *size, count);
  }

  bool has_masters() const {
    return !parameters_.empty() && parameters_.front().weight->dtype() != DType::kFloat32;
  }

  /// What a shard has of the parameters of a group, in the order of its file.
  std::vector<Part> parts_of(size_t shard, ParamGroupKind group) const {
    std::vector<Part> parts;
    for (size_t c = 0; c + 1 < chunk_begins_.size(); ++c) {
      int64_t total = 0;
      for (size_t i = chunk_begins_[c]; i < chunk_begins_[c + 1]; ++i) {
        total += parameters_[i].weight->elements();
      }
      const auto ranks = static_cast<int64_t>(shards_.size());
      const int64_t share = (total + ranks - 1) / ranks;
      const int64_t begin = std::min(total, static_cast<int64_t>(shard) * share);
      const int64_t end = std::min(total, begin + share);
      int64_t at = total;
      for (size_t i = chunk_begins_[c]; i < chunk_begins_[c + 1]; ++i) {
        const int64_t elements = parameters_[i].weight->elements();
        at -= elements;
        const int64_t from = std::max(at, begin);
        const int64_t to = std::min(at + elements, end);
        if (from < to && parameters_[i].group == group) {
          parts.push_back({.parameter = i, .first = from - at, .count = to - from});
        }
      }
    }
    return parts;
  }

  Status read_shard(size_t s) {
    const PickleGraph& graph = shards_[s]->graph();
    const auto outer = graph.find(shards_[s]->root(), "optimizer");
    const auto inner = outer.has_value() ? graph.find(*outer, "optimizer") : std::nullopt;
    const auto list = inner.has_value() ? graph.find(*inner, "param_groups") : std::nullopt;
    const auto masters = outer.has_value() ? graph.find(*outer, kShardMasters) : std::nullopt;
    if (!list.has_value() || graph.node(*list).kind != PickleKind::kList || !masters.has_value() ||
        graph.node(*masters).kind != PickleKind::kList) {
      return corrupt(
          s, fmt::format("expected param_groups and {} of a data-parallel rank's shard, "
                         "found {}",
                         kShardMasters, outer.has_value() ? graph.describe(*outer, 80) : "none"));
    }
    const std::vector<PickleId>& groups = graph.node(*list).children;
    const std::vector<ParamGroupKind> kinds = param_group_kinds(graph, groups);
    if (graph.node(*masters).children.size() != groups.size()) {
      return corrupt(s, fmt::format("{}: expected {} groups, found {}", kShardMasters,
                                    groups.size(), graph.node(*masters).children.size()));
    }
    MEG_RETURN_IF_ERROR(check_groups(s, kinds));
    for (size_t g = 0; g < groups.size(); ++g) {
      MEG_RETURN_IF_ERROR(read_group(s, groups[g], kinds[g], *inner,
                                     graph.node(graph.node(*masters).children[g]).children));
    }
    return {};
  }

  /// A shard has the groups of the parameters that it has parts of, and no others.
  Status check_groups(size_t s, const std::vector<ParamGroupKind>& kinds) const {
    for (const ParamGroupKind kind : kGroups) {
      const auto found = std::count(kinds.begin(), kinds.end(), kind);
      const int expected = parts_of(s, kind).empty() ? 0 : 1;
      if (found == expected) continue;
      return corrupt(s, fmt::format("param_groups: expected {} of parameters {}, found {}",
                                    expected, param_group_text(kind), found));
    }
    const auto foreign = std::find_if(kinds.begin(), kinds.end(), [](ParamGroupKind kind) {
      return std::find(std::begin(kGroups), std::end(kGroups), kind) == std::end(kGroups);
    });
    if (foreign == kinds.end()) return {};
    return corrupt(s, fmt::format("param_groups: expected groups with and without weight decay, "
                                  "found one of parameters {}",
                                  param_group_text(*foreign)));
  }

  Status read_group(size_t s, PickleId group, ParamGroupKind kind, PickleId inner,
                    const std::vector<PickleId>& masters) {
    const PickleGraph& graph = shards_[s]->graph();
    const std::vector<Part> parts = parts_of(s, kind);
    const auto ids = graph.find(group, "params");
    const size_t count = ids.has_value() ? graph.node(*ids).children.size() : 0;
    if (count != parts.size()) {
      return corrupt(s, fmt::format("param_groups: expected parts of {} parameters {}, found {}",
                                    parts.size(), param_group_text(kind), count));
    }
    if (masters.size() != (has_masters() ? parts.size() : 0)) {
      return corrupt(
          s, fmt::format("{}: expected {} tensors of parameters {}, found {}", kShardMasters,
                         has_masters() ? parts.size() : 0, param_group_text(kind), masters.size()));
    }
    MEG_ASSIGN_OR_RETURN(const auto entries, state_entries(*shards_[s], inner));
    for (size_t i = 0; i < parts.size(); ++i) {
      if (has_masters()) MEG_RETURN_IF_ERROR(add_piece(s, parts[i], kMaster, masters[i]));
      // Before the first step torch has no state at all.
      if (entries.empty()) continue;
      const auto entry = entries.find(graph.as_int(graph.node(*ids).children[i]).value_or(-1));
      if (entry == entries.end()) {
        return corrupt(s, fmt::format("state: expected an entry for {}, found none",
                                      parameters_[parts[i].parameter].seen.flat_name));
      }
      const std::span<const PickleId> pairs = graph.pairs(entry->second);
      for (size_t k = 0; k + 1 < pairs.size(); k += 2) {
        const std::string kind_of_state(graph.as_string(pairs[k]).value_or(""));
        MEG_RETURN_IF_ERROR(add_piece(s, parts[i], kind_of_state, pairs[k + 1]));
      }
    }
    return remember(s, group, kind);
  }

  Status add_piece(size_t s, const Part& part, const std::string& kind, PickleId node) {
    Parameter& parameter = parameters_[part.parameter];
    const TensorView* view = shards_[s]->tensor(node);
    if (view == nullptr || view->dtype != DType::kFloat32 || view->numel() != part.count) {
      return corrupt(
          s, fmt::format("{} of {}: expected {} elements of float32 from element {} on, found {}",
                         kind, parameter.seen.flat_name, part.count, part.first,
                         view == nullptr ? shards_[s]->graph().describe(node, 60)
                                         : fmt::format("shape {} of {}", shape_text(view->shape),
                                                       dtype_name(view->dtype))));
    }
    parameter.pieces[kind].push_back({.source = torch_source(shards_[s], *view),
                                      .box = Box::whole({parameter.weight->elements()}),
                                      .first = part.first});
    return {};
  }

  /// Notes where the settings of a group are, which all shards have alike.
  Status remember(size_t s, PickleId group, ParamGroupKind kind) {
    const auto [place, is_new] = groups_.try_emplace(kind, s, group);
    if (is_new) return {};
    const auto& [shard, first] = place->second;
    return check_group_settings(shards_[shard]->graph(), std::span(&first, 1), shards_[s]->graph(),
                                std::span(&group, 1), shards_[s]->path() + ": optimizer",
                                "in " + shards_[shard]->path());
  }

  /// outer: the first shard's optimizer in the draft.
  Result<PickleId> add_optimizer(PickleId outer) {
    PickleGraph& graph = draft_.graph();
    std::vector<PickleId> groups;
    for (const ParamGroupKind kind : kGroups) {
      const auto group = groups_.find(kind);
      if (group == groups_.end()) continue;
      const File& file = shards_[group->second.first];
      PickleCopier copier(file->graph(), graph);
      MEG_RETURN_IF_ERROR(check_plain(group->second.first, group->second.second));
      MEG_ASSIGN_OR_RETURN(groups.emplace_back(), copier.copy(group->second.second));
    }
    const PickleId list = graph.add_list(std::move(groups));
    const PickleId inner = graph.add_dict({graph.add_string("param_groups"), list});
    MEG_ASSIGN_OR_RETURN(const std::vector<StatefulParameter> parameters, whole_parameters());
    return add_plain_optimizer(parameters, draft_.without(outer, {kShardMasters}), inner, false,
                               model_file_->path(), &draft_);
  }

  /// Tensors among settings would bring storages of another file with them.
  Status check_plain(size_t s, PickleId group) const {
    const PickleGraph& graph = shards_[s]->graph();
    const std::span<const PickleId> pairs = graph.pairs(group);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const PickleNode& node = graph.node(pairs[i + 1]);
      const bool is_sequence = node.kind == PickleKind::kList || node.kind == PickleKind::kTuple;
      const bool is_number = graph.as_number(pairs[i + 1]).has_value() ||
                             graph.as_bool(pairs[i + 1]).has_value() ||
                             node.kind == PickleKind::kNone;
      const bool are_numbers =
          is_sequence && std::all_of(node.children.begin(), node.children.end(),
                                     [&](PickleId id) { return graph.as_number(id).has_value(); });
      if (is_number || are_numbers || graph.as_string(pairs[i + 1]).has_value()) continue;
      return corrupt(s,
                     fmt::format("param_groups: {}: expected numbers, found {}",
                                 graph.describe(pairs[i], 40), graph.describe(pairs[i + 1], 60)));
    }
    return {};
  }

  Result<std::vector<StatefulParameter>> whole_parameters() {
    std::vector<StatefulParameter> found;
    for (const Parameter& parameter : parameters_) {
      StatefulParameter& whole = found.emplace_back();
      whole.flat_name = parameter.seen.flat_name;
      whole.weight = *parameter.seen.weight;
      whole.is_embedding_or_output = parameter.seen.is_embedding_or_output;
      const int64_t elements = parameter.weight->elements();
      for (const auto& [kind, pieces] : parameter.pieces) {
        int64_t covered = 0;
        for (const Piece& piece : pieces) covered += piece.source->elements();
        if (covered != elements) {
          return make_error(StatusCode::kCorruption,
                            "{}: optimizer: {} of {}: expected {} elements in all shards, found {}",
                            model_file_->path(), kind, whole.flat_name, elements, covered);
        }
        MEG_ASSIGN_OR_RETURN(const Source source, assemble(DType::kFloat32, {elements}, pieces));
        if (kind == kMaster) MEG_RETURN_IF_ERROR(check_master(parameter, *source));
        whole.states[kind] = draft_.add_tensor(source, whole.weight.shape);
      }
    }
    return found;
  }

  Status check_master(const Parameter& parameter, const TensorSource& master) const {
    MEG_ASSIGN_OR_RETURN(const bool fits, is_master_of(master, *parameter.weight));
    if (fits) return {};
    return make_error(StatusCode::kCorruption,
                      "{}: optimizer: {}: expected the fp32 weights of {}, found other numbers",
                      model_file_->path(), kShardMasters, parameter.seen.flat_name);
  }

  /// root, first: the values of the model file and of the first shard in the draft.
  Result<TorchFile> finish(PickleId root, PickleId first, PickleId plain) {
    PickleGraph& graph = draft_.graph();
    std::vector<PickleId> pairs(graph.pairs(root).begin(), graph.pairs(root).end());
    for (size_t i = 0; i + 1 < graph.pairs(first).size(); i += 2) {
      const PickleId key = graph.pairs(first)[i];
      const std::string name(graph.as_string(key).value_or(""));
      if (graph.find(root, name).has_value()) {
        return make_error(StatusCode::kCorruption, "{}: expected no {}, which {} has, found it",
                          shards_[0]->path(), name, model_file_->path());
      }
      pairs.insert(pairs.end(), {key, name == "optimizer" ? plain : graph.pairs(first)[i + 1]});
    }
    draft_.content().root = graph.add_dict(std::move(pairs));
    uint64_t bytes = model_file_->size();
    for (const File& shard : shards_) bytes += shard->size();
    return draft_.finish(model_file_->path(), bytes);
  }

  const File& model_file_;
  const std::vector<File>& shards_;
  const model::ParameterTable& table_;
  RankModel model_;
  std::vector<Parameter> parameters_;                             // of all chunks
  std::vector<size_t> chunk_begins_;                              // and the end of the last
  std::map<ParamGroupKind, std::pair<size_t, PickleId>> groups_;  // shard and node
  RankDraft draft_;
};

}  // namespace

Result<TorchFile> with_optimizer_of_shards(const File& model_file, const std::vector<File>& shards,
                                           const model::ParameterTable& table) {
  return ShardReader(model_file, shards, table).compose();
}

}  // namespace meg::checkpoint
