#include "libmeg/checkpoint/dialects/mp_rank/internal/expert_ranks.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "libmeg/checkpoint/container/torch_file/torch_source.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/changed_rank.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/model_keys.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/expert_optimizers.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_draft.h"
#include "libmeg/checkpoint/state/same_bytes.h"
#include "libmeg/model/expert_names.h"

namespace meg::checkpoint {
namespace {

/// Makes one rank file of those of all expert-parallel ranks: the first one's with the experts of
/// the others, whose local numbers become numbers in the whole model. What ranks hold alike is
/// taken from the first one.
class ExpertMerger {
 public:
  ExpertMerger(const std::vector<std::shared_ptr<const TorchFile>>& files, int64_t num_experts,
               const model::ParameterTable* table)
      : files_(files), share_(num_experts / static_cast<int64_t>(files.size())), table_(table) {}

  Result<TorchFile> merge() {
    std::vector<ModelDicts> models;
    uint64_t bytes = 0;
    for (const auto& file : files_) {
      models.push_back(find_model_dicts(*file));
      bytes += file->size();
      if (models.back().dicts.size() == models[0].dicts.size()) continue;
      return make_error(StatusCode::kCorruption,
                        "{}: expected {} virtual stages as in {}, found {}", file->path(),
                        models[0].dicts.size(), files_[0]->path(), models.back().dicts.size());
    }
    size_t chunk = 0;
    RankChanges changes;
    changes.model = [&](PickleId copied, PickleId) { return merge_chunk(copied, models, chunk++); };
    changes.optimizer = [&](PickleId copied) { return merge_optimizers(copied, models); };
    MEG_ASSIGN_OR_RETURN(draft_.content().root, changed_rank(files_[0], changes, &draft_));
    return draft_.finish(
        fmt::format("{} with the experts of {} more", files_[0]->path(), files_.size() - 1), bytes);
  }

 private:
  PickleGraph& graph() { return draft_.graph(); }

  Result<std::optional<PickleId>> merge_optimizers(PickleId copied,
                                                   const std::vector<ModelDicts>& models) {
    // Without a table the optimizer is not needed.
    if (table_ == nullptr) return std::optional<PickleId>();
    // Experts of which a rank has not its share would be numbered wrong.
    for (size_t rank = 0; rank < files_.size(); ++rank) {
      for (const PickleId dict : models[rank].dicts) {
        MEG_RETURN_IF_ERROR(check_share(*files_[rank], dict));
      }
    }
    MEG_ASSIGN_OR_RETURN(const PickleId merged,
                         merge_expert_optimizers(files_, share_, *table_, copied, &draft_));
    return std::optional(merged);
  }

  /// copied: the first rank's dict in the draft.
  Result<std::optional<PickleId>> merge_chunk(PickleId copied,
                                              const std::vector<ModelDicts>& models, size_t chunk) {
    std::vector<PickleId> pairs(graph().pairs(copied).begin(), graph().pairs(copied).end());
    MEG_RETURN_IF_ERROR(check_share(*files_[0], models[0].dicts[chunk]));
    for (size_t rank = 1; rank < files_.size(); ++rank) {
      MEG_RETURN_IF_ERROR(check_share(*files_[rank], models[rank].dicts[chunk]));
      add_experts(rank, models[rank].dicts[chunk], &pairs);
    }
    return std::optional(graph().add_dict(std::move(pairs)));
  }

  /// Calls visit(name, value) for every expert's key of a dict.
  template <class Visit>
  static void visit_experts(const TorchFile& file, PickleId dict, const Visit& visit) {
    const std::span<const PickleId> pairs = file.graph().pairs(dict);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::string_view key = file.graph().as_string(pairs[i]).value_or("");
      const std::optional<model::ExpertName> name = model::parse_expert_name(key);
      if (name.has_value()) visit(*name, pairs[i + 1]);
    }
  }

  Status check_share(const TorchFile& file, PickleId dict) const {
    std::string wrong;
    visit_experts(file, dict, [&](const model::ExpertName& name, PickleId) {
      if (name.expert >= share_ && wrong.empty()) wrong = model::with_expert(name, name.expert);
    });
    if (wrong.empty()) return Status();
    return make_error(StatusCode::kCorruption, "{}: model: expected experts 0 to {}, found {}",
                      file.path(), share_ - 1, wrong);
  }

  void add_experts(size_t rank, PickleId dict, std::vector<PickleId>* pairs) {
    const std::shared_ptr<const TorchFile>& file = files_[rank];
    const int64_t first = static_cast<int64_t>(rank) * share_;
    visit_experts(*file, dict, [&](const model::ExpertName& name, PickleId value) {
      const TensorView* view = file->tensor(value);
      // State that is no tensor (None of local layers) says nothing that its module needs.
      const PickleId copy = view == nullptr
                                ? graph().add_none()
                                : draft_.add_tensor(torch_source(file, *view), view->shape);
      const std::string text = model::with_expert(name, first + name.expert);
      pairs->insert(pairs->end(), {graph().add_string(text), copy});
    });
  }

  const std::vector<std::shared_ptr<const TorchFile>>& files_;
  int64_t share_;  // experts of a rank
  const model::ParameterTable* table_;
  RankDraft draft_;
};

/// By virtual stage and name.
using RecordedCrcs = std::map<std::pair<size_t, std::string>, uint32_t>;

/// The CRC-32s that a rank's file records for weights that are no expert's.
RecordedCrcs recorded_crcs(const std::shared_ptr<const TorchFile>& file) {
  RecordedCrcs found;
  const std::vector<PickleId> dicts = find_model_dicts(*file).dicts;
  for (size_t chunk = 0; chunk < dicts.size(); ++chunk) {
    const std::span<const PickleId> pairs = file->graph().pairs(dicts[chunk]);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const std::string_view name = file->graph().as_string(pairs[i]).value_or("");
      const TensorView* view = file->tensor(pairs[i + 1]);
      if (view == nullptr || model::parse_expert_name(name).has_value()) continue;
      const std::optional<uint32_t> crc = recorded_crc_of_all(*torch_source(file, *view));
      if (crc.has_value()) found[{chunk, std::string(name)}] = *crc;
    }
  }
  return found;
}

}  // namespace

Result<TorchFile> merge_expert_ranks(const std::vector<std::shared_ptr<const TorchFile>>& files,
                                     int64_t num_experts, const model::ParameterTable* table) {
  return ExpertMerger(files, num_experts, table).merge();
}

std::vector<std::string> drifted_weights(
    const std::vector<std::shared_ptr<const TorchFile>>& files) {
  std::vector<std::string> drifted;
  const RecordedCrcs first = recorded_crcs(files[0]);
  for (size_t i = 1; i < files.size(); ++i) {
    for (const auto& [weight, crc] : recorded_crcs(files[i])) {
      const auto known = first.find(weight);
      if (known != first.end() && known->second != crc) drifted.push_back(weight.second);
    }
  }
  return drifted;
}

Result<TorchFile> without_experts(const std::shared_ptr<const TorchFile>& file,
                                  bool with_optimizer) {
  RankDraft draft;
  PickleGraph& graph = draft.graph();
  RankChanges changes;
  changes.model = [&](PickleId copied, PickleId) {
    std::vector<PickleId> pairs;
    const std::span<const PickleId> found = graph.pairs(copied);
    for (size_t i = 0; i + 1 < found.size(); i += 2) {
      const std::string_view name = graph.as_string(found[i]).value_or("");
      if (model::parse_expert_name(name).has_value()) continue;
      pairs.insert(pairs.end(), {found[i], found[i + 1]});
    }
    return std::optional(graph.add_dict(std::move(pairs)));
  };
  changes.optimizer = [&](PickleId copied) -> std::optional<PickleId> {
    const PickleNode& node = graph.node(copied);
    // Any other form is refused by merge_expert_ranks().
    return with_optimizer && is_optimizer_pair(node) ? std::optional(node.children[0])
                                                     : std::nullopt;
  };
  MEG_ASSIGN_OR_RETURN(draft.content().root, changed_rank(file, changes, &draft));
  return draft.finish(file->path(), file->size());
}

}  // namespace meg::checkpoint
