#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/expert_optimizers.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "libmeg/checkpoint/container/torch_file/torch_source.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/checkpoint_contents.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/optimizer_rewriter.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_model.h"
#include "libmeg/model/expert_names.h"

// Expert-parallel ranks save two optimizers each. Here they become the one plain optimizer that a
// run without expert parallelism would have: states of the first rank's shared parameters, then
// every rank's experts under their numbers in the whole model. Settings of groups must agree, since
// there is one group of a kind afterwards.

namespace meg::checkpoint {
namespace {

class OptimizerMerger {
 public:
  OptimizerMerger(const std::vector<std::shared_ptr<const TorchFile>>& files, int64_t share,
                  const model::ParameterTable& table, RankDraft* draft)
      : files_(files),
        share_(share),
        table_(table),
        draft_(*draft),
        graph_(draft->graph()),
        rewriter_(draft) {}

  Result<PickleId> merge(PickleId copied) {
    for (const auto& file : files_) MEG_RETURN_IF_ERROR(read_rank(file));
    for (size_t chunk = 0; chunk < ranks_[0].model.chunks.size(); ++chunk) {
      for (size_t rank = 0; rank < ranks_.size(); ++rank) {
        MEG_RETURN_IF_ERROR(add_chunk(rank, chunk));
      }
    }
    // A copy: the graph's nodes move while it grows.
    const PickleId settings = graph_.node(copied).children[0];
    return rewriter_.finish(settings, ranks_[0].shared.layout, *files_[0]);
  }

 private:
  struct Rank {
    RankModel model;
    RankOptimizer shared, experts;
    size_t next_shared = 0, next_expert = 0;  // of their states
  };

  Status read_rank(const std::shared_ptr<const TorchFile>& file) {
    Rank rank;
    MEG_ASSIGN_OR_RETURN(rank.model, read_rank_model(*file, table_));
    const PickleGraph& graph = file->graph();
    const std::optional<PickleId> list = graph.find(file->root(), "optimizer");
    if (!list.has_value() || !is_optimizer_pair(graph.node(*list))) {
      return make_error(
          StatusCode::kUnsupported,
          "{}: optimizer: expected a list of two, that of experts last, as "
          "expert-parallel ranks have them, found {}; `ignore_optimizer = true` skips it",
          file->path(), list.has_value() ? graph.describe(*list, 60) : std::string("none"));
    }
    std::vector<OptimizedParameter> shared, experts;
    for (const std::vector<RankEntry>& chunk : rank.model.chunks) {
      for (const RankEntry& entry : chunk) {
        if (!entry.match.has_optimizer_state()) continue;
        (entry.match.expert.has_value() ? experts : shared).push_back(optimized_parameter(entry));
      }
    }
    MEG_ASSIGN_OR_RETURN(rank.shared, read(*file, graph.node(*list).children[0], shared));
    MEG_ASSIGN_OR_RETURN(rank.experts, read(*file, graph.node(*list).children[1], experts));
    ranks_.push_back(std::move(rank));
    return check_settings(*file, ranks_.back());
  }

  static Result<RankOptimizer> read(const TorchFile& file, PickleId optimizer,
                                    const std::vector<OptimizedParameter>& parameters) {
    MEG_ASSIGN_OR_RETURN(RankOptimizer read, read_rank_optimizer(file, parameters, optimizer));
    const OptimizerForm form = read.layout.form;
    if (form == OptimizerForm::kFp32 || form == OptimizerForm::kMixedPrecision) return read;
    return make_error(StatusCode::kUnsupported,
                      "{}: optimizer: distributed ones of expert-parallel ranks without {} are not "
                      "supported; `ignore_optimizer = true` skips them",
                      file.path(), kDistribOptimFile);
  }

  Status check_settings(const TorchFile& file, const Rank& rank) const {
    return check_group_settings(files_[0]->graph(), nodes_of(ranks_[0].shared), file.graph(),
                                nodes_of(rank.experts), file.path() + ": optimizer: experts",
                                "for the other parameters");
  }

  static std::vector<PickleId> nodes_of(const RankOptimizer& optimizer) {
    std::vector<PickleId> nodes;
    for (const ParamGroup& group : optimizer.layout.groups) nodes.push_back(group.node);
    return nodes;
  }

  Status add_chunk(size_t place, size_t chunk) {
    Rank& rank = ranks_[place];
    for (const RankEntry& entry : rank.model.chunks[chunk]) {
      if (!entry.match.has_optimizer_state()) continue;
      const bool is_expert = entry.match.expert.has_value();
      const RankState& state = is_expert ? rank.experts.states[rank.next_expert++]
                                         : rank.shared.states[rank.next_shared++];
      // What ranks hold alike is the first one's: these states are passed over.
      if (!is_expert && place > 0) continue;
      std::string name = entry.flat_name;
      if (is_expert) {
        const int64_t number = static_cast<int64_t>(place) * share_ + *entry.match.expert;
        name = model::with_expert(*model::parse_expert_name(name), number);
      }
      MEG_RETURN_IF_ERROR(add_parameter(files_[place], std::move(name), entry, state));
    }
    return {};
  }

  Status add_parameter(const std::shared_ptr<const TorchFile>& file, std::string name,
                       const RankEntry& entry, const RankState& state) {
    StatefulParameter parameter{
        .flat_name = std::move(name),
        .weight = *entry.tensor,
        .is_embedding_or_output = optimized_parameter(entry).is_embedding_or_output,
        .states = {}};
    for (const auto& [kind, view] : state.tensors) {
      parameter.states[kind] = draft_.add_tensor(torch_source(file, view), view.shape);
    }
    MEG_RETURN_IF_ERROR(rewriter_.add_other(file, parameter.flat_name, state));
    rewriter_.add(std::move(parameter));
    return {};
  }

  const std::vector<std::shared_ptr<const TorchFile>>& files_;
  int64_t share_;
  const model::ParameterTable& table_;
  RankDraft& draft_;
  PickleGraph& graph_;
  std::vector<Rank> ranks_;
  OptimizerRewriter rewriter_;
};

}  // namespace

Result<PickleId> merge_expert_optimizers(const std::vector<std::shared_ptr<const TorchFile>>& files,
                                         int64_t share, const model::ParameterTable& table,
                                         PickleId copied, RankDraft* draft) {
  return OptimizerMerger(files, share, table, draft).merge(copied);
}

}  // namespace meg::checkpoint
