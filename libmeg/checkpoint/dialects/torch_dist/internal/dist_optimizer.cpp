#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "libmeg/checkpoint/container/torch_file/torch_value.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/flat_parameters.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/plain_optimizer.h"
#include "libmeg/checkpoint/dialects/mp_rank/parameter_step.h"
#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_buffers.h"
#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_shards.h"
#include "libmeg/model/expert_names.h"
#include "libmeg/text/printable.h"

// The optimizer of a rank in the plain form. torch_dist keeps it in one of three ways: a tensor for
// each parameter and kind (any run loads them), the buffers of each group of data-parallel ranks in
// buckets, or gathered in one object. Settings and steps are in common.pt, or in the group's own
// object.

namespace meg::checkpoint {
namespace {

using Source = std::shared_ptr<const TensorSource>;

/// Returns the optimizers of {0: ..., 1: ...}, as several are chained, in the order of their
/// numbers, whatever the dict's; any other value is the only one.
std::vector<PickleId> chained(const PickleGraph& graph, PickleId saved) {
  std::map<int64_t, PickleId> found;
  const std::span<const PickleId> pairs = graph.pairs(saved);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (const auto number = graph.as_int(pairs[i])) found[*number] = pairs[i + 1];
  }
  if (found.empty()) return {saved};
  std::vector<PickleId> optimizers;
  optimizers.reserve(found.size());
  for (const auto& [number, node] : found) optimizers.push_back(node);
  return optimizers;
}

class OptimizerReader {
 public:
  OptimizerReader(const DistFolder& folder, const CommonState& common, const DistChunks& chunks,
                  const DistRank& rank, RankDraft* draft, std::optional<int64_t>* alignment)
      : folder_(folder),
        common_(common),
        chunks_(chunks),
        rank_(rank),
        draft_(*draft),
        graph_(draft->graph()),
        alignment_(*alignment) {
    for (const std::vector<DistCut>& chunk : chunks) {
      for (const DistCut& cut : chunk) {
        if (!cut.is_buffer) add_parameter(cut);
      }
    }
  }

  Result<PickleId> read(PickleId saved) {
    MEG_RETURN_IF_ERROR(find_parts(saved));
    for (size_t i = 0; i < parts_.size(); ++i) MEG_RETURN_IF_ERROR(read_part(i));
    const bool qk_norms_decay = common_.says("apply_wd_to_qk_layernorm");
    if (is_chained()) {
      MEG_RETURN_IF_ERROR(check_group_settings(graph_, groups(0), graph_, groups(1),
                                               rank_.name + ": optimizer: experts",
                                               "for the other parameters"));
      MEG_RETURN_IF_ERROR(check_steps());
    }
    return add_plain_optimizer(parameters_, parts_[0].outer, parts_[0].inner, qk_norms_decay,
                               rank_.name, &draft_);
  }

 private:
  /// One of those that are chained, or the only one.
  struct Part {
    PickleId outer = 0, inner = 0;  // what has the wrapper's keys, what has param_groups
  };

  bool is_chained() const { return parts_.size() > 1; }

  void add_parameter(const DistCut& cut) {
    const Source& weight = cut.weights[static_cast<size_t>(rank_.tensor_rank)];
    StatefulParameter& parameter = parameters_.emplace_back();
    parameter.flat_name = cut.flat_name;
    parameter.weight.dtype = weight->dtype();
    parameter.weight.shape = cut.shape;
    parameter.is_embedding_or_output = cut.is_table;
    for (const auto& [kind, sources] : cut.states) {
      parameter.states[kind] =
          draft_.add_tensor(sources[static_cast<size_t>(rank_.tensor_rank)], cut.shape);
    }
  }

  Status find_parts(PickleId saved) {
    for (const PickleId node : chained(graph_, saved)) parts_.push_back({node, node});
    const bool has_experts = std::any_of(parameters_.begin(), parameters_.end(), is_of_expert);
    if (parts_.size() == 1 || (parts_.size() == 2 && has_experts)) return {};
    return make_error(StatusCode::kUnsupported,
                      "{}: optimizer: found {} chained optimizers, expected one, or one and that "
                      "of experts; `ignore_optimizer = true` skips them",
                      rank_.name, parts_.size());
  }

  /// torch's own Adam keeps a step for each of those that are chained.
  Status check_steps() const {
    const PickleGraph& graph = common_.file()->graph();
    std::optional<int64_t> expected;
    // Looked at in common.pt itself, as a step may be a tensor, whose bytes are there.
    for (const PickleId optimizer : chained(graph, *common_.top("optimizer"))) {
      const auto inner = graph.find(optimizer, "optimizer");
      const auto state = inner.has_value() ? graph.find(*inner, "state") : std::nullopt;
      const auto node = state.has_value() ? graph.find(*state, "common_step") : std::nullopt;
      if (!node.has_value()) continue;
      MEG_ASSIGN_OR_RETURN(const int64_t step, parameter_step(TorchValue(common_.file(), *node)));
      if (step == expected.value_or(step)) {
        expected = step;
        continue;
      }
      return make_error(
          StatusCode::kCorruption,
          "{}: optimizer: experts: expected common_step {} as for the other parameters, found {}",
          rank_.name, *expected, step);
    }
    return {};
  }

  static bool is_of_expert(const StatefulParameter& parameter) {
    return model::parse_expert_name(parameter.flat_name).has_value();
  }

  std::span<const PickleId> groups(size_t part) const {
    const std::optional<PickleId> list = graph_.find(parts_[part].inner, "param_groups");
    if (!list.has_value()) return {};
    return graph_.node(*list).children;
  }

  std::string prefix(size_t part, int64_t group) const {
    return fmt::format("{}{}{}", is_chained() ? dist_chain_prefix(part) : "", kDistBufferPrefix,
                       group);
  }

  /// Groups of model-parallel ranks are numbered by tensor, then pipeline ranks.
  int64_t group() const { return rank_.tensor_rank + rank_.tensor_size * rank_.stage; }

  /// Groups of experts are numbered by expert tensor rank, then by expert and pipeline rank.
  int64_t expert_group(int64_t expert_rank, int64_t expert_tensor_rank) const {
    return expert_tensor_rank +
           rank_.expert_tensor_size * (expert_rank + rank_.expert_size * rank_.stage);
  }

  bool has_own_cut() const { return rank_.expert_tensor_size != rank_.tensor_size; }

  Status read_part(size_t number) {
    Part& part = parts_[number];
    const std::string start =
        prefix(number, number == 0 ? group() : expert_group(0, first_expert_tensor_rank()));
    part.inner = graph_.find(part.outer, "optimizer").value_or(part.outer);
    bool has_buffers = false;
    std::vector<PickleId> own;  // what else the group keeps: its loss scaler
    for (const DistObject& object : folder_.metadata().objects) {
      if (!object.name.starts_with(start + ".")) continue;
      const std::string_view rest = std::string_view(object.name).substr(start.size());
      if (rest.starts_with(".optimizer/")) {
        // Where the group kept its own param_groups, these and not common.pt's are the optimizer's.
        MEG_ASSIGN_OR_RETURN(part.inner, copy_dist_object(folder_, object, &draft_));
      } else if (rest.starts_with(".param_state/") || rest.starts_with(".per_bucket_numel")) {
        has_buffers = true;
      } else if (const auto name = parse_shard_name(rest.substr(1))) {
        MEG_ASSIGN_OR_RETURN(const PickleId value, copy_dist_object(folder_, object, &draft_));
        own.insert(own.end(), {graph_.add_string(name->key), value});
      }
    }
    add_to_wrapper(own, &part);
    // States by parameter were read with the parameters.
    if (!has_buffers) return {};
    MEG_RETURN_IF_ERROR(check_buffers());
    if (number == 0) {
      return read_own_buffers(prefix(0, group()), is_chained() ? -1 : 0, common_.flat_run());
    }
    for (int64_t e = 0; e < rank_.expert_size; ++e) MEG_RETURN_IF_ERROR(read_expert_buffers(e));
    return {};
  }

  /// pairs: keys and values that common.pt does not have.
  void add_to_wrapper(const std::vector<PickleId>& pairs, Part* part) {
    if (pairs.empty()) return;
    const bool is_one = part->inner == part->outer;
    std::vector<PickleId> all(graph_.pairs(part->outer).begin(), graph_.pairs(part->outer).end());
    all.insert(all.end(), pairs.begin(), pairs.end());
    part->outer = graph_.add_dict(std::move(all));
    if (is_one) part->inner = part->outer;
  }

  /// What a tensor rank finds in its own place where experts are cut as all else is.
  int64_t first_expert_tensor_rank() const { return has_own_cut() ? 0 : rank_.tensor_rank; }

  Status check_buffers() const {
    const bool has_experts = std::any_of(parameters_.begin(), parameters_.end(), is_of_expert);
    const bool are_legacy = common_.says("moe_use_legacy_grouped_gemm");
    if (!has_experts || (!are_legacy && (is_chained() || !has_own_cut()))) return {};
    return make_error(
        StatusCode::kUnsupported,
        "{}: optimizer: the distributed optimizer's buffers of experts {} are not supported; "
        "`ignore_optimizer = true` skips them",
        rank_.name,
        are_legacy ? std::string("with moe_use_legacy_grouped_gemm")
                   : fmt::format("of one expert-parallel rank with expert_tensor_parallel_size {} "
                                 "and tensor_model_parallel_size {}",
                                 rank_.expert_tensor_size, rank_.tensor_size));
  }

  /// The parameters of a buffer, and their indices among all parameters.
  struct Members {
    std::vector<std::vector<BufferedParameter>> chunks;
    std::vector<size_t> numbers;
    std::vector<const DistCut*> cuts;
  };

  using States = std::map<std::string, std::vector<Source>>;

  /// Whether the buffers of such an expert-parallel rank hold a parameter; -1: what all hold alike.
  bool is_in(const DistCut& cut, int64_t expert_rank) const {
    if (!is_chained()) return true;
    if (!cut.expert.has_value()) return expert_rank < 0;
    const int64_t experts = common_.size("num_experts").value_or(rank_.expert_size);
    return *cut.expert / std::max<int64_t>(1, experts / rank_.expert_size) == expert_rank;
  }

  Members members(int64_t expert_rank) const {
    const bool is_shared =
        rank_.pipeline_size > 1 && !common_.says("untie_embeddings_and_output_weights");
    Members found;
    size_t number = 0;
    for (const std::vector<DistCut>& chunk : chunks_) {
      found.chunks.emplace_back();
      for (const DistCut& cut : chunk) {
        if (cut.is_buffer) continue;
        const size_t place = number++;
        if (!is_in(cut, expert_rank)) continue;
        found.numbers.push_back(place);
        found.cuts.push_back(&cut);
        found.chunks.back().push_back({.name = cut.flat_name,
                                       .weight = own_weight(cut),
                                       .is_shared_embedding = cut.is_table && is_shared});
      }
    }
    return found;
  }

  Result<States> read_buffers(const std::string& prefix, const Members& members,
                              const FlatRun& run) {
    MEG_ASSIGN_OR_RETURN(const std::vector<FlatState> buffers, read_dist_buffers(folder_, prefix));
    MEG_ASSIGN_OR_RETURN(CutStates cut,
                         cut_flat_states(buffers, members.chunks, run,
                                         fmt::format("{}: {}", folder_.path(), prefix)));
    if (cut.alignment.has_value()) alignment_ = cut.alignment;
    return std::move(cut.kinds);
  }

  Source own_weight(const DistCut& cut) const {
    return cut.weights[static_cast<size_t>(rank_.tensor_rank)];
  }

  void add_state(size_t number, const std::string& kind, Source source) {
    StatefulParameter& parameter = parameters_[number];
    parameter.states[kind] = draft_.add_tensor(std::move(source), parameter.weight.shape);
  }

  void add_states(const Members& members, const States& states) {
    for (const auto& [kind, sources] : states) {
      for (size_t i = 0; i < sources.size(); ++i) add_state(members.numbers[i], kind, sources[i]);
    }
  }

  Status read_own_buffers(const std::string& prefix, int64_t expert_rank, const FlatRun& run) {
    const Members found = members(expert_rank);
    MEG_ASSIGN_OR_RETURN(const States states, read_buffers(prefix, found, run));
    add_states(found, states);
    return {};
  }

  Status read_expert_buffers(int64_t expert_rank) {
    const FlatRun run = common_.flat_run().of_experts(rank_.tensor_size, rank_.expert_tensor_size,
                                                      rank_.expert_size);
    if (!has_own_cut()) {
      return read_own_buffers(prefix(1, expert_group(expert_rank, rank_.tensor_rank)), expert_rank,
                              run);
    }
    // A tensor rank of the model has a different part of an expert than a tensor rank of experts:
    // the parts of all of these are joined and divided again.
    Members found = members(expert_rank);
    std::vector<std::vector<Source>> weights;
    const DistShards shards(folder_, rank_.expert_tensor_size);
    for (const DistCut* cut : found.cuts) {
      MEG_ASSIGN_OR_RETURN(
          weights.emplace_back(),
          shards.cut(*cut->parameter, *cut->parameter->weight, cut->stacked_layer));
    }
    std::vector<States> by_rank;
    for (int64_t t = 0; t < rank_.expert_tensor_size; ++t) {
      size_t number = 0;
      for (std::vector<BufferedParameter>& chunk : found.chunks) {
        for (BufferedParameter& parameter : chunk) {
          parameter.weight = weights[number++][static_cast<size_t>(t)];
        }
      }
      MEG_ASSIGN_OR_RETURN(by_rank.emplace_back(),
                           read_buffers(prefix(1, expert_group(expert_rank, t)), found, run));
    }
    for (const auto& [kind, sources] : by_rank[0]) {
      for (size_t i = 0; i < sources.size(); ++i) {
        MEG_ASSIGN_OR_RETURN(Source source, cut_again(*found.cuts[i]->parameter, kind, i, by_rank));
        add_state(found.numbers[i], kind, std::move(source));
      }
    }
    return {};
  }

  /// This tensor rank's part of the state of the i-th parameter, of which the tensor ranks of
  /// experts have theirs.
  Result<Source> cut_again(const DistParameter& parameter, const std::string& kind, size_t i,
                           const std::vector<States>& by_rank) const {
    std::vector<Source> parts;
    for (const States& states : by_rank) {
      const auto sources = states.find(kind);
      if (sources == states.end()) {
        return make_error(StatusCode::kCorruption,
                          "{}: optimizer: experts: expected {} of all {} tensor ranks of {}, found "
                          "it only for some",
                          rank_.name, kind, by_rank.size(), text::printable(parameter.name, 200));
      }
      parts.push_back(sources->second[i]);
    }
    const DistShards of_experts(folder_, rank_.expert_tensor_size);
    MEG_ASSIGN_OR_RETURN(const std::vector<Piece> pieces, of_experts.joined(parameter, parts));
    const DistShards of_model(folder_, rank_.tensor_size);
    MEG_ASSIGN_OR_RETURN(const std::vector<Source> cuts,
                         of_model.cut(parameter, parts[0]->dtype(), pieces));
    return cuts[static_cast<size_t>(rank_.tensor_rank)];
  }

  const DistFolder& folder_;
  const CommonState& common_;
  const DistChunks& chunks_;
  const DistRank& rank_;
  RankDraft& draft_;
  PickleGraph& graph_;
  std::optional<int64_t>& alignment_;
  std::vector<StatefulParameter> parameters_;  // of all chunks
  std::vector<Part> parts_;
};

}  // namespace

Result<PickleId> add_dist_optimizer(const DistFolder& folder, const CommonState& common,
                                    const DistChunks& chunks, const DistRank& rank, PickleId saved,
                                    RankDraft* draft, std::optional<int64_t>* alignment) {
  return OptimizerReader(folder, common, chunks, rank, draft, alignment).read(saved);
}

Result<PickleId> copy_dist_value(const DistFolder& folder, const DistObject& object,
                                 RankDraft* draft) {
  MEG_ASSIGN_OR_RETURN(const TorchFileParts parts, folder.read_value(object.blob, object.name));
  std::vector<Source> sources;
  for (const TorchStorage& storage : parts.tensors.storages) {
    sources.push_back(folder.view_source(
        parts, view_of_storage(storage, static_cast<int>(sources.size())), object));
  }
  return draft->copy(parts.graph, parts.root, object.name, sources);
}

Result<PickleId> copy_dist_object(const DistFolder& folder, const DistObject& object,
                                  RankDraft* draft) {
  MEG_ASSIGN_OR_RETURN(const PickleId value, copy_dist_value(folder, object, draft));
  const PickleNode& node = draft->graph().node(value);
  const bool is_wrapped = node.kind == PickleKind::kList && node.children.size() == 1;
  return is_wrapped ? node.children[0] : value;
}

}  // namespace meg::checkpoint
