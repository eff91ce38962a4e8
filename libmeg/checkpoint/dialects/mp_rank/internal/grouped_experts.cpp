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
#include "libmeg/checkpoint/dialects/mp_rank/internal/model_keys.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_draft.h"
#include "libmeg/checkpoint/state/transposed_source.h"
#include "libmeg/text/printable.h"

namespace meg::checkpoint {
namespace {

/// A matrix of all experts, and what each expert has of it.
struct GroupedMatrix {
  std::string_view ending, single;
  size_t grouped_dimension;  // the experts' parts of it stand one after another
};

constexpr GroupedMatrix kMatrices[] = {
    {".mlp.experts.weight1", "linear_fc1.weight", 1},
    {".mlp.experts.weight2", "linear_fc2.weight", 0},
};

const GroupedMatrix* grouped_matrix(std::string_view name) {
  const auto* found = std::find_if(std::begin(kMatrices), std::end(kMatrices),
                                   [&](const auto& one) { return name.ends_with(one.ending); });
  return found == std::end(kMatrices) ? nullptr : found;
}

class GroupSplitter {
 public:
  GroupSplitter(std::shared_ptr<const TorchFile> file, int64_t experts)
      : file_(std::move(file)), experts_(experts) {}

  Result<TorchFile> split() {
    MEG_ASSIGN_OR_RETURN(const PickleId root, draft_.copy(file_));
    const ModelDicts models = find_model_dicts(*file_);
    const std::vector<PickleId> found(graph().pairs(root).begin(), graph().pairs(root).end());
    std::vector<PickleId> pairs;
    size_t chunk = 0;
    for (size_t i = 0; i + 1 < found.size(); i += 2) {
      const std::string key(graph().as_string(found[i]).value_or(""));
      PickleId value = found[i + 1];
      if (key == "optimizer") continue;
      if (is_model_key(key) && chunk < models.dicts.size()) {
        MEG_ASSIGN_OR_RETURN(value, split_chunk(value, models.dicts[chunk++]));
      }
      pairs.insert(pairs.end(), {found[i], value});
    }
    draft_.content().root = graph().add_dict(std::move(pairs));
    return draft_.finish(file_->path(), file_->size());
  }

 private:
  PickleGraph& graph() { return draft_.graph(); }

  /// copied: the dict in the draft, whose pairs are those of `dict`.
  Result<PickleId> split_chunk(PickleId copied, PickleId dict) {
    const std::vector<PickleId> before(graph().pairs(copied).begin(), graph().pairs(copied).end());
    const std::span<const PickleId> source = file_->graph().pairs(dict);
    std::vector<PickleId> pairs;
    for (size_t i = 0; i + 1 < before.size(); i += 2) {
      const std::string name(graph().as_string(before[i]).value_or(""));
      const GroupedMatrix* matrix = grouped_matrix(name);
      if (matrix == nullptr) {
        pairs.insert(pairs.end(), {before[i], before[i + 1]});
        continue;
      }
      const TensorView* view = file_->tensor(source[i + 1]);
      MEG_RETURN_IF_ERROR(check(name, *matrix, view));
      add_experts(name.substr(0, name.rfind('.') + 1), *matrix, *view, &pairs);
    }
    return graph().add_dict(std::move(pairs));
  }

  Status check(const std::string& name, const GroupedMatrix& matrix, const TensorView* view) const {
    const bool fits = view != nullptr && view->shape.size() == 2 && view->numel() > 0 &&
                      view->shape[matrix.grouped_dimension] % experts_ == 0;
    if (fits) return Status();
    return make_error(StatusCode::kCorruption,
                      "{}: model: {}: expected a matrix that {} experts share evenly, found {}",
                      file_->path(), text::printable_name(name, 200), experts_,
                      view == nullptr ? "no tensor" : shape_text(view->shape));
  }

  /// start: of the names, up to "experts.".
  void add_experts(const std::string& start, const GroupedMatrix& matrix, const TensorView& view,
                   std::vector<PickleId>* pairs) {
    // Of one expert, as products take it: [inputs, outputs], which linear modules have transposed.
    std::vector<int64_t> shape = view.shape;
    shape[matrix.grouped_dimension] /= experts_;
    const int64_t elements = shape[0] * shape[1];
    const auto whole = torch_source(file_, view);
    for (int64_t expert = 0; expert < experts_; ++expert) {
      const PickleId tensor = draft_.add_tensor(
          transposed_source(part_of(whole, expert * elements, elements), shape[1], shape[0]),
          {shape[1], shape[0]});
      const std::string name = fmt::format("{}local_experts.{}.{}", start, expert, matrix.single);
      pairs->insert(pairs->end(), {graph().add_string(name), tensor});
    }
  }

  std::shared_ptr<const TorchFile> file_;
  int64_t experts_;
  RankDraft draft_;
};

/// The name of the first such matrix in a file.
std::optional<std::string> first_grouped(const TorchFile& file) {
  for (const PickleId dict : find_model_dicts(file).dicts) {
    const std::span<const PickleId> pairs = file.graph().pairs(dict);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::string_view name = file.graph().as_string(pairs[i]).value_or("");
      if (grouped_matrix(name) != nullptr) return std::string(name);
    }
  }
  return std::nullopt;
}

}  // namespace

Result<std::shared_ptr<const TorchFile>> with_single_experts(std::shared_ptr<const TorchFile> file,
                                                             int64_t experts,
                                                             bool ignore_optimizer) {
  const std::optional<std::string> name = first_grouped(*file);
  if (!name.has_value()) return file;
  const PickleGraph& graph = file->graph();
  const std::optional<PickleId> optimizer = graph.find(file->root(), "optimizer");
  const bool has_optimizer =
      optimizer.has_value() && graph.node(*optimizer).kind != PickleKind::kNone;
  if (has_optimizer && !ignore_optimizer) {
    return make_error(StatusCode::kUnsupported,
                      "{}: optimizer: the state of {}, all experts in one matrix, is not "
                      "supported; --no-optim leaves it out",
                      file->path(), text::printable_name(*name, 200));
  }
  if (experts < 1) {
    return make_error(StatusCode::kCorruption, "{}: args: expected num_experts for {}, found none",
                      file->path(), text::printable_name(*name, 200));
  }
  MEG_ASSIGN_OR_RETURN(TorchFile split, GroupSplitter(file, experts).split());
  return std::make_shared<const TorchFile>(std::move(split));
}

}  // namespace meg::checkpoint
