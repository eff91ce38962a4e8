#include "libmeg/checkpoint/dialects/mp_rank/internal/grouped_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/tensor_view.h"
#include "libmeg/checkpoint/container/torch_file/torch_source.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/changed_rank.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/model_keys.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/optimizer_rewriter.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_draft.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_model.h"
#include "libmeg/checkpoint/state/transposed_source.h"
#include "libmeg/model/expert_names.h"
#include "libmeg/text/printable.h"

namespace meg::checkpoint {
namespace {

using File = std::shared_ptr<const TorchFile>;
using Source = std::shared_ptr<const TensorSource>;

/// A matrix of all experts, and what each expert has of it.
struct GroupedMatrix {
  std::string_view ending, single;
  size_t grouped_dimension;  // the experts' parts of it stand one after another
};

constexpr GroupedMatrix kMatrices[] = {
    {".mlp.experts.weight1", ".mlp.experts.local_experts.0.linear_fc1.weight", 1},
    {".mlp.experts.weight2", ".mlp.experts.local_experts.0.linear_fc2.weight", 0},
};

const GroupedMatrix* matrix_ending(std::string_view name, std::string_view GroupedMatrix::*ending) {
  const auto* found = std::find_if(std::begin(kMatrices), std::end(kMatrices),
                                   [&](const auto& one) { return name.ends_with(one.*ending); });
  return found == std::end(kMatrices) ? nullptr : found;
}

class GroupSplitter {
 public:
  GroupSplitter(File file, int64_t experts, const model::ParameterTable* table)
      : file_(std::move(file)), experts_(experts), table_(table) {}

  Result<TorchFile> split() {
    const RankChanges changes{
        .model = [this](PickleId copied, PickleId dict) { return split_chunk(copied, dict); },
        .optimizer = [this](PickleId copied) { return split_optimizers(copied); }};
    MEG_ASSIGN_OR_RETURN(draft_.content().root, changed_rank(file_, changes, &draft_));
    return draft_.finish(file_->path(), file_->size());
  }

 private:
  PickleGraph& graph() { return draft_.graph(); }

  /// The parts of a grouped matrix, or of what an optimizer keeps for it, that the experts have.
  std::vector<Source> parts(const GroupedMatrix& matrix, const TensorView& view) const {
    const auto [rows, columns] = shape(matrix, view);
    const auto whole = torch_source(file_, view);
    std::vector<Source> sources;
    for (int64_t expert = 0; expert < experts_; ++expert) {
      // One expert's part, in the form of products: [inputs, outputs], which linear modules store
      // transposed.
      Source part = part_of(whole, expert * rows * columns, rows * columns);
      sources.push_back(transposed_source(std::move(part), rows, columns));
    }
    return sources;
  }

  /// Rows and columns of an expert's part.
  std::pair<int64_t, int64_t> shape(const GroupedMatrix& matrix, const TensorView& view) const {
    std::pair<int64_t, int64_t> found(view.shape[1], view.shape[0]);
    (matrix.grouped_dimension == 1 ? found.first : found.second) /= experts_;
    return found;
  }

  Result<std::optional<PickleId>> split_chunk(PickleId copied, PickleId dict) {
    const std::vector<PickleId> before(graph().pairs(copied).begin(), graph().pairs(copied).end());
    const std::span<const PickleId> source = file_->graph().pairs(dict);
    std::vector<PickleId> pairs;
    for (size_t i = 0; i + 1 < before.size(); i += 2) {
      const std::string name(graph().as_string(before[i]).value_or(""));
      const GroupedMatrix* matrix = matrix_ending(name, &GroupedMatrix::single);
      if (matrix == nullptr) {
        pairs.insert(pairs.end(), {before[i], before[i + 1]});
        continue;
      }
      const TensorView* view = file_->tensor(source[i + 1]);
      MEG_RETURN_IF_ERROR(check(name, *matrix, view));
      const auto [rows, columns] = shape(*matrix, *view);
      for (int64_t expert = 0; Source & part : parts(*matrix, *view)) {
        const PickleId tensor = draft_.add_tensor(std::move(part), {rows, columns});
        pairs.insert(pairs.end(), {graph().add_string(expert_name(name, expert++)), tensor});
      }
    }
    return std::optional(graph().add_dict(std::move(pairs)));
  }

  static std::string expert_name(const std::string& name, int64_t expert) {
    return model::with_expert(*model::parse_expert_name(name), expert);
  }

  Status check(const std::string& name, const GroupedMatrix& matrix, const TensorView* view) const {
    const bool fits = view != nullptr && view->shape.size() == 2 && view->numel() > 0 &&
                      view->shape[matrix.grouped_dimension] % experts_ == 0;
    if (fits) return Status();
    // The file's own spelling.
    const std::string own =
        name.substr(0, name.size() - matrix.single.size()) + std::string(matrix.ending);
    return make_error(StatusCode::kCorruption,
                      "{}: model: {}: expected a matrix that {} experts divide evenly, found {}",
                      file_->path(), text::printable_name(own, 200), experts_,
                      view == nullptr ? "no tensor" : shape_text(view->shape));
  }

  /// One for all parameters, or the pair of expert-parallel ranks: that of experts is the last.
  Result<std::optional<PickleId>> split_optimizers(PickleId copied) {
    if (table_ == nullptr) return std::optional<PickleId>();
    MEG_ASSIGN_OR_RETURN(const RankModel model, read_rank_model(*file_, *table_));
    const PickleId own = *file_->graph().find(file_->root(), "optimizer");
    if (file_->graph().node(own).kind != PickleKind::kList) {
      MEG_ASSIGN_OR_RETURN(const PickleId split, split_optimizer(model, false, own, copied));
      return std::optional(split);
    }
    // Copies: the graph's nodes move while it grows.
    std::vector<PickleId> both = graph().node(copied).children;
    // Any other list is refused by who merges the ranks.
    if (both.size() == 2) {
      MEG_ASSIGN_OR_RETURN(
          both[1], split_optimizer(model, true, file_->graph().node(own).children[1], both[1]));
    }
    return std::optional(graph().add_list(std::move(both)));
  }

  /// own: of the file; copied: the same in the draft.
  Result<PickleId> split_optimizer(const RankModel& model, bool only_experts, PickleId own,
                                   PickleId copied) {
    std::vector<const RankEntry*> entries;
    std::vector<OptimizedParameter> parameters;
    for (const std::vector<RankEntry>& chunk : model.chunks) {
      for (const RankEntry& entry : chunk) {
        const bool is_expert = entry.match.expert.has_value();
        if (!entry.match.has_optimizer_state() || (only_experts && !is_expert)) continue;
        const GroupedMatrix* matrix = matrix_ending(entry.flat_name, &GroupedMatrix::single);
        if (matrix != nullptr) {
          MEG_RETURN_IF_ERROR(check(entry.flat_name, *matrix, entry.tensor));
        }
        entries.push_back(&entry);
        parameters.push_back(optimized_parameter(entry));
      }
    }
    MEG_ASSIGN_OR_RETURN(const RankOptimizer found, read_rank_optimizer(*file_, parameters, own));
    if (found.layout.form == OptimizerForm::kDistributed) {
      return make_error(StatusCode::kUnsupported,
                        "{}: optimizer: a distributed one without its file of states is not "
                        "supported; `ignore_optimizer = true` skips it",
                        file_->path());
    }
    OptimizerRewriter rewriter(&draft_);
    for (size_t i = 0; i < entries.size(); ++i) {
      MEG_RETURN_IF_ERROR(rewriter.add_other(file_, entries[i]->flat_name, found.states[i]));
      add_parameter(*entries[i], parameters[i], found.states[i], &rewriter);
    }
    return rewriter.finish(copied, found.layout, *file_);
  }

  void add_parameter(const RankEntry& entry, const OptimizedParameter& seen, const RankState& state,
                     OptimizerRewriter* rewriter) {
    const GroupedMatrix* matrix = matrix_ending(entry.flat_name, &GroupedMatrix::single);
    StatefulParameter parameter{.flat_name = entry.flat_name,
                                .weight = *entry.tensor,
                                .is_embedding_or_output = seen.is_embedding_or_output,
                                .states = {}};
    if (matrix == nullptr) {
      for (const auto& [kind, view] : state.tensors) {
        parameter.states[kind] = draft_.add_tensor(torch_source(file_, view), view.shape);
      }
      rewriter->add(std::move(parameter));
      return;
    }
    const auto [rows, columns] = shape(*matrix, *entry.tensor);
    parameter.weight.shape = {rows, columns};
    std::vector<StatefulParameter> experts(static_cast<size_t>(experts_), parameter);
    for (const auto& [kind, view] : state.tensors) {
      std::vector<Source> sources = parts(*matrix, view);
      for (size_t i = 0; i < experts.size(); ++i) {
        experts[i].states[kind] = draft_.add_tensor(std::move(sources[i]), {rows, columns});
      }
    }
    for (int64_t expert = 0; StatefulParameter & one : experts) {
      one.flat_name = expert_name(entry.flat_name, expert++);
      rewriter->add(std::move(one));
    }
  }

  File file_;
  int64_t experts_;
  const model::ParameterTable* table_;
  RankDraft draft_;
};

bool has_grouped(const TorchFile& file) {
  for (const PickleId dict : find_model_dicts(file).dicts) {
    const std::span<const PickleId> pairs = file.graph().pairs(dict);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::string_view name = file.graph().as_string(pairs[i]).value_or("");
      if (matrix_ending(name, &GroupedMatrix::ending) != nullptr) return true;
    }
  }
  return false;
}

}  // namespace

Result<File> with_experts_as_one(File file) {
  if (!has_grouped(*file)) return file;
  RankDraft draft;
  PickleGraph& graph = draft.graph();
  const auto rename = [&](PickleId copied, PickleId) -> Result<std::optional<PickleId>> {
    std::vector<PickleId> pairs(graph.pairs(copied).begin(), graph.pairs(copied).end());
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::string name(graph.as_string(pairs[i]).value_or(""));
      if (matrix_ending(name, &GroupedMatrix::single) != nullptr) {
        return make_error(StatusCode::kCorruption,
                          "{}: model: expected all experts in one matrix, found {} as well",
                          file->path(), text::printable_name(name, 200));
      }
      const GroupedMatrix* matrix = matrix_ending(name, &GroupedMatrix::ending);
      if (matrix == nullptr) continue;
      const std::string start = name.substr(0, name.size() - matrix->ending.size());
      pairs[i] = graph.add_string(start + std::string(matrix->single));
    }
    return std::optional(graph.add_dict(std::move(pairs)));
  };
  const auto keep = [](PickleId copied) { return std::optional(copied); };
  MEG_ASSIGN_OR_RETURN(draft.content().root,
                       changed_rank(file, {.model = rename, .optimizer = keep}, &draft));
  MEG_ASSIGN_OR_RETURN(TorchFile renamed, draft.finish(file->path(), file->size()));
  return std::make_shared<const TorchFile>(std::move(renamed));
}

Result<File> with_single_experts(const File& file, int64_t experts,
                                 const model::ParameterTable* table) {
  if (experts < 1) {
    return make_error(StatusCode::kCorruption,
                      "{}: args: expected num_experts for all experts in one matrix, found none",
                      file->path());
  }
  MEG_ASSIGN_OR_RETURN(TorchFile split, GroupSplitter(file, experts, table).split());
  return std::make_shared<const TorchFile>(std::move(split));
}

}  // namespace meg::checkpoint
