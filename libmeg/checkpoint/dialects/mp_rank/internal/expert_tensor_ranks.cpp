#include "libmeg/checkpoint/dialects/mp_rank/internal/expert_tensor_ranks.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "libmeg/checkpoint/container/torch_file/tensor_view.h"
#include "libmeg/checkpoint/container/torch_file/torch_source.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/changed_rank.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/expert_optimizers.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/optimizer_rewriter.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_model.h"
#include "libmeg/checkpoint/state/assembled_source.h"
#include "libmeg/model/shard_axes.h"
#include "libmeg/text/printable.h"

// Everything that reads rank files expects all parameters to be divided over the same
// tensor-parallel ranks. If experts are divided over others, their parts are put together and cut
// again here, weights and optimizer state alike, so that no reader has to know of the difference.

namespace meg::checkpoint {
namespace {

using File = std::shared_ptr<const TorchFile>;
using Source = std::shared_ptr<const TensorSource>;

/// A parameter of the experts of one rank, with the state that its optimizer has for it.
struct ExpertParameter {
  const RankEntry* entry = nullptr;
  const RankState* state = nullptr;
};

/// What one file has of experts.
struct ExpertRank {
  File file;
  RankModel model;
  std::optional<RankOptimizer> optimizer;  ///< nullopt: none that can be cut.
  /// For each virtual stage the parameters by name.
  std::vector<std::map<std::string, ExpertParameter, std::less<>>> chunks;
};

bool is_plain(const RankOptimizer& optimizer) {
  return optimizer.layout.form == OptimizerForm::kFp32 ||
         optimizer.layout.form == OptimizerForm::kMixedPrecision;
}

Result<ExpertRank> read_expert_rank(const File& file, const model::ParameterTable& table,
                                    bool with_optimizer) {
  ExpertRank rank;
  rank.file = file;
  MEG_ASSIGN_OR_RETURN(rank.model, read_rank_model(*file, table));
  std::vector<OptimizedParameter> optimized;
  std::vector<ExpertParameter*> in_order;
  for (const std::vector<RankEntry>& chunk : rank.model.chunks) {
    auto& parameters = rank.chunks.emplace_back();
    for (const RankEntry& entry : chunk) {
      if (!entry.match.expert.has_value() || entry.tensor == nullptr) continue;
      if (entry.match.is_extra_state) continue;
      ExpertParameter& parameter = parameters[entry.flat_name];
      parameter.entry = &entry;
      if (!entry.match.has_optimizer_state()) continue;
      optimized.push_back(optimized_parameter(entry));
      in_order.push_back(&parameter);
    }
  }
  const std::optional<PickleId> list = file->graph().find(file->root(), "optimizer");
  // Optimizers that are no pair, or not plain, are refused by who merges the ranks.
  if (!with_optimizer || !list.has_value()) return rank;
  const PickleNode& node = file->graph().node(*list);
  if (!is_optimizer_pair(node)) return rank;
  MEG_ASSIGN_OR_RETURN(RankOptimizer found,
                       read_rank_optimizer(*file, optimized, node.children[1]));
  if (!is_plain(found)) return rank;
  rank.optimizer = std::move(found);
  for (size_t i = 0; i < in_order.size(); ++i) in_order[i]->state = &rank.optimizer->states[i];
  return rank;
}

/// Makes the files of a stage.
class ExpertCutter {
 public:
  ExpertCutter(std::span<const ExpertRank> ranks, const RankGrid& grid,
               const model::GptConfig& config, bool with_optimizer)
      : ranks_(ranks), grid_(grid), config_(config), with_optimizer_(with_optimizer) {}

  Result<File> cut(int64_t tensor_rank, int64_t expert_rank) const {
    const ExpertRank& own = ranks_[static_cast<size_t>(tensor_rank * grid_.files_of_tensor_rank())];
    Parts parts;
    uint64_t bytes = own.file->size();
    for (int64_t part = 0; part < grid_.expert_tensor_size(); ++part) {
      parts.push_back(&ranks_[static_cast<size_t>(grid_.index_of(expert_rank, part))]);
      bytes += parts.back()->file->size();
    }
    RankDraft draft;
    size_t chunk = 0;
    RankChanges changes;
    changes.model = [&](PickleId copied, PickleId) {
      return cut_chunk(own, parts, tensor_rank, chunk++, copied, &draft);
    };
    changes.optimizer = [&](PickleId copied) {
      return cut_optimizers(own, parts, tensor_rank, copied, &draft);
    };
    MEG_ASSIGN_OR_RETURN(draft.content().root, changed_rank(own.file, changes, &draft));
    MEG_ASSIGN_OR_RETURN(TorchFile file, draft.finish(own.file->path(), bytes));
    return std::make_shared<const TorchFile>(std::move(file));
  }

 private:
  using Parts = std::vector<const ExpertRank*>;  // by expert tensor rank

  Result<std::optional<PickleId>> cut_chunk(const ExpertRank& own, const Parts& parts,
                                            int64_t tensor_rank, size_t chunk, PickleId copied,
                                            RankDraft* draft) const {
    PickleGraph& graph = draft->graph();
    std::vector<PickleId> pairs(graph.pairs(copied).begin(), graph.pairs(copied).end());
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const auto found = own.chunks[chunk].find(graph.as_string(pairs[i]).value_or(""));
      if (found == own.chunks[chunk].end()) continue;
      std::vector<Source> sources;
      for (const ExpertRank* part : parts) {
        MEG_ASSIGN_OR_RETURN(const ExpertParameter* parameter,
                             find(*part, own, chunk, *found->second.entry));
        sources.push_back(torch_source(part->file, *parameter->entry->tensor));
      }
      MEG_ASSIGN_OR_RETURN(pairs[i + 1],
                           add_cut(own, *found->second.entry, sources, tensor_rank, draft));
    }
    return std::optional(graph.add_dict(std::move(pairs)));
  }

  /// The same parameter on another rank.
  static Result<const ExpertParameter*> find(const ExpertRank& part, const ExpertRank& own,
                                             size_t chunk, const RankEntry& entry) {
    if (chunk < part.chunks.size()) {
      const auto found = part.chunks[chunk].find(entry.flat_name);
      if (found != part.chunks[chunk].end() &&
          found->second.entry->tensor->shape == entry.tensor->shape &&
          found->second.entry->tensor->dtype == entry.tensor->dtype) {
        return &found->second;
      }
    }
    return make_error(StatusCode::kCorruption,
                      "{}: model: expected {} of shape {} and type {} as in {}, found none",
                      part.file->path(), text::printable_name(entry.flat_name, 200),
                      shape_text(entry.tensor->shape), dtype_name(entry.tensor->dtype),
                      own.file->path());
  }

  /// The shape of a parameter that a tensor-parallel rank holds.
  Result<std::vector<int64_t>> cut_shape(const RankEntry& entry) const {
    const model::Partition partition = entry.match.partition;
    return model::shard_shape(
        partition, model::merged_shape(partition, entry.tensor->shape, grid_.expert_tensor_size()),
        grid_.tensor_size());
  }

  /// Adds the part of a tensor-parallel rank. sources: the parts of the expert tensor ranks.
  Result<PickleId> add_cut(const ExpertRank& own, const RankEntry& entry,
                           const std::vector<Source>& sources, int64_t tensor_rank,
                           RankDraft* draft) const {
    constexpr double kVersion = 3;  // experts came long after the orders of older ones
    const std::string name = text::printable_name(entry.flat_name, 200);
    const model::Partition partition = entry.match.partition;
    Result<model::ShardAxes> axes = model::shard_axes(
        partition, entry.tensor->shape, grid_.expert_tensor_size(), config_, kVersion);
    if (!axes.has_value()) {
      return axes.error().with_prefix(fmt::format("{}: model: {}", own.file->path(), name));
    }
    if (axes->partition_axis < 0) return draft->add_tensor(sources[0], entry.tensor->shape);
    const int64_t extent = axes->sizes[static_cast<size_t>(axes->partition_axis)];
    if (extent % grid_.tensor_size() != 0) {
      return make_error(StatusCode::kUnsupported,
                        "{}: model: {}: expected a size that the {} tensor-parallel ranks divide, "
                        "found {}",
                        own.file->path(), name, grid_.tensor_size(), extent);
    }
    std::vector<Piece> pieces;
    for (const Source& source : sources) {
      const auto part = static_cast<int64_t>(pieces.size());
      pieces.push_back({source, Box::shard(axes->sizes, axes->partition_axis, part,
                                           grid_.expert_tensor_size())});
    }
    MEG_ASSIGN_OR_RETURN(Source source, assemble_box(sources[0]->dtype(), pieces,
                                                     Box::shard(axes->sizes, axes->partition_axis,
                                                                tensor_rank, grid_.tensor_size())));
    MEG_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, cut_shape(entry));
    return draft->add_tensor(std::move(source), shape);
  }

  /// Of the pair, that of experts is the last.
  Result<std::optional<PickleId>> cut_optimizers(const ExpertRank& own, const Parts& parts,
                                                 int64_t tensor_rank, PickleId copied,
                                                 RankDraft* draft) const {
    if (!with_optimizer_) return std::optional<PickleId>();
    bool have_all = own.optimizer.has_value();
    for (const ExpertRank* part : parts) have_all &= part->optimizer.has_value();
    if (!have_all) return std::optional(copied);
    OptimizerRewriter rewriter(draft);
    for (size_t chunk = 0; chunk < own.model.chunks.size(); ++chunk) {
      for (const RankEntry& entry : own.model.chunks[chunk]) {
        const auto found = own.chunks[chunk].find(entry.flat_name);
        if (found == own.chunks[chunk].end() || found->second.state == nullptr) continue;
        MEG_RETURN_IF_ERROR(add_state(own, parts, tensor_rank, chunk, entry, &rewriter, draft));
      }
    }
    PickleGraph& graph = draft->graph();
    // A copy: the graph's nodes move while it grows.
    std::vector<PickleId> both = graph.node(copied).children;
    MEG_ASSIGN_OR_RETURN(both[1], rewriter.finish(both[1], own.optimizer->layout, *own.file));
    return std::optional(graph.add_list(std::move(both)));
  }

  Status add_state(const ExpertRank& own, const Parts& parts, int64_t tensor_rank, size_t chunk,
                   const RankEntry& entry, OptimizerRewriter* rewriter, RankDraft* draft) const {
    std::vector<const RankState*> states;
    for (const ExpertRank* part : parts) {
      MEG_ASSIGN_OR_RETURN(const ExpertParameter* parameter, find(*part, own, chunk, entry));
      states.push_back(parameter->state);
    }
    StatefulParameter parameter{.flat_name = entry.flat_name,
                                .weight = *entry.tensor,
                                .is_embedding_or_output = false,
                                .states = {}};
    MEG_ASSIGN_OR_RETURN(parameter.weight.shape, cut_shape(entry));
    for (size_t k = 0; k < states[0]->tensors.size(); ++k) {
      const auto& [kind, first] = states[0]->tensors[k];
      std::vector<Source> sources;
      for (size_t i = 0; i < parts.size(); ++i) {
        const RankState& state = *states[i];
        if (state.tensors.size() != states[0]->tensors.size() || state.tensors[k].first != kind ||
            state.tensors[k].second.dtype != first.dtype) {
          return make_error(StatusCode::kCorruption,
                            "{}: optimizer: {}: expected {} of type {} as in {}",
                            parts[i]->file->path(), entry.flat_name, kind, dtype_name(first.dtype),
                            parts[0]->file->path());
        }
        sources.push_back(torch_source(parts[i]->file, state.tensors[k].second));
      }
      MEG_ASSIGN_OR_RETURN(parameter.states[kind],
                           add_cut(own, entry, sources, tensor_rank, draft));
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      MEG_RETURN_IF_ERROR(rewriter->add_other(parts[i]->file, entry.flat_name, *states[i]));
    }
    rewriter->add(std::move(parameter));
    return Status();
  }

  std::span<const ExpertRank> ranks_;  // in the order of the grid
  const RankGrid& grid_;
  const model::GptConfig& config_;
  bool with_optimizer_;
};

}  // namespace

Result<std::vector<File>> with_experts_over_tensor_ranks(
    const std::vector<File>& files, const RankGrid& grid, const model::GptConfig& config,
    const model::ParameterTable* optimizer_table) {
  MEG_ASSIGN_OR_RETURN(const model::ParameterTable own_table, model::ParameterTable::gpt());
  const model::ParameterTable& table = optimizer_table == nullptr ? own_table : *optimizer_table;
  const bool with_optimizer = optimizer_table != nullptr;
  std::vector<File> found;
  const auto stage = static_cast<size_t>(grid.size());
  for (size_t begin = 0; begin < files.size(); begin += stage) {
    std::vector<ExpertRank> ranks;
    for (size_t i = begin; i < begin + stage; ++i) {
      MEG_ASSIGN_OR_RETURN(ranks.emplace_back(), read_expert_rank(files[i], table, with_optimizer));
    }
    const ExpertCutter cutter(ranks, grid, config, with_optimizer);
    for (int64_t t = 0; t < grid.tensor_size(); ++t) {
      for (int64_t e = 0; e < grid.expert_size(); ++e) {
        MEG_ASSIGN_OR_RETURN(found.emplace_back(), cutter.cut(t, e));
      }
    }
  }
  return found;
}

}  // namespace meg::checkpoint
