#include "libmeg/checkpoint/dialects/mp_rank/internal/split_files.h"

#include <filesystem>
#include <string>
#include <utility>

#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/checkpoint_contents.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/optimizer_shards.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_draft.h"

// model_rng.pt and optim.pt hold different keys of what was one dict before June 2022 and after May
// 2023. Their trees are merged; tensors stay in their files.

namespace meg::checkpoint {
namespace {

bool says_no_optimizer(const TorchFile& file) {
  const PickleGraph& graph = file.graph();
  const std::optional<PickleId> args = graph.find(file.root(), "args");
  const auto flag = args.has_value() ? find_arg(graph, *args, "no_save_optim") : std::nullopt;
  return flag.has_value() && graph.as_bool(*flag).value_or(false);
}

Result<std::vector<std::shared_ptr<const TorchFile>>> open_shards(const RankFolder& rank,
                                                                  const TorchFileOptions& options) {
  std::vector<std::shared_ptr<const TorchFile>> shards;
  for (const auto& [number, path] : rank.optimizer_shards) {
    if (number != static_cast<int>(shards.size())) {
      return make_error(StatusCode::kNotFound,
                        "{}: optimizer: expected the shard ({}) of data-parallel rank {}, found {} "
                        "next; `ignore_optimizer = true` skips them",
                        rank.file, kSplitOptimFile, shards.size(), path);
    }
    MEG_ASSIGN_OR_RETURN(TorchFile shard, TorchFile::open(path, options));
    shards.push_back(std::make_shared<const TorchFile>(std::move(shard)));
  }
  return shards;
}

}  // namespace

Result<TorchFile> join_split_files(const RankFolder& rank,
                                   const std::shared_ptr<const TorchFile>& model_file,
                                   const model::ParameterTable& table,
                                   const TorchFileOptions& options,
                                   std::vector<std::shared_ptr<const TorchFile>>* sources) {
  if (!rank.optimizer_shards.empty()) {
    if (rank.has_split_optim) {
      return make_error(StatusCode::kCorruption,
                        "{}: optimizer: expected {} beside it or shards of data-parallel ranks, "
                        "found both: {}",
                        model_file->path(), kSplitOptimFile, rank.optimizer_shards.begin()->second);
    }
    MEG_ASSIGN_OR_RETURN(const auto shards, open_shards(rank, options));
    sources->insert(sources->end(), shards.begin(), shards.end());
    return with_optimizer_of_shards(model_file, shards, table);
  }
  RankDraft draft;
  PickleGraph& graph = draft.graph();
  MEG_ASSIGN_OR_RETURN(const PickleId root, draft.copy(model_file));
  std::vector<PickleId> pairs(graph.pairs(root).begin(), graph.pairs(root).end());
  uint64_t bytes = model_file->size();
  if (rank.has_split_optim) {
    const std::string path =
        (std::filesystem::path(rank.file).parent_path() / kSplitOptimFile).string();
    MEG_ASSIGN_OR_RETURN(TorchFile opened, TorchFile::open(path, options));
    const auto optim_file = std::make_shared<const TorchFile>(std::move(opened));
    sources->push_back(optim_file);
    bytes += optim_file->size();
    MEG_ASSIGN_OR_RETURN(const PickleId more, draft.copy(optim_file));
    for (size_t i = 0; i + 1 < graph.pairs(more).size(); i += 2) {
      const std::string key(graph.as_string(graph.pairs(more)[i]).value_or(""));
      if (graph.find(root, key).has_value()) {
        return make_error(StatusCode::kCorruption, "{}: unexpected {}, which {} already has", path,
                          key, model_file->path());
      }
      pairs.insert(pairs.end(), {graph.pairs(more)[i], graph.pairs(more)[i + 1]});
    }
  } else if (!says_no_optimizer(*model_file)) {
    // Without optim.pt a checkpoint is whole only if its run saved no optimizer.
    return make_error(StatusCode::kNotFound,
                      "{}: optimizer: expected {} beside it, found no such file; `ignore_optimizer "
                      "= true` skips it",
                      model_file->path(), kSplitOptimFile);
  }
  draft.content().root = graph.add_dict(std::move(pairs));
  return draft.finish(model_file->path(), bytes);
}

}  // namespace meg::checkpoint
