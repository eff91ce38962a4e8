#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <string>
#include <utility>

#include "libmeg/base/thread_pool.h"
#include "libmeg/checkpoint/dialects/huggingface/internal/huggingface_ranks.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_args.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/args/checkpoint_config.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/checkpoint_contents.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/expert_ranks.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/expert_tensor_ranks.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/grouped_experts.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/distributed_optimizer.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_grid.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/split_files.h"
#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_ranks.h"
#include "libmeg/text/printable.h"

// Opens the files of all ranks and checks that they are one checkpoint: as many as args say, of one
// iteration, one version, one shape of the model. Files of a run that was resumed in another layout
// in the same folder are found out by these.

namespace meg::checkpoint {
namespace {

/// Refuses sizes that no cluster has before anything is multiplied or listed by them.
constexpr int64_t kMaxRanks = 1 << 20;

/// The first of `names` that args have as a number.
std::optional<int64_t> first_arg(const TorchFile& file, std::initializer_list<const char*> names) {
  const std::optional<PickleId> args = file.graph().find(file.root(), "args");
  if (!args.has_value()) return std::nullopt;
  for (const char* name : names) {
    const std::optional<int64_t> value = int_arg(file.graph(), *args, name);
    if (value.has_value()) return value;
  }
  return std::nullopt;
}

/// The first of `keys` beside the model that is a number.
std::optional<int64_t> first_top(const TorchFile& file, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const std::optional<PickleId> id = file.graph().find(file.root(), key);
    const std::optional<int64_t> value = id.has_value() ? file.graph().as_int(*id) : std::nullopt;
    if (value.has_value()) return value;
  }
  return std::nullopt;
}

/// DeepSpeed stores it beside the model.
std::optional<int64_t> tensor_size_of(const TorchFile& file) {
  // The second name is that of 2019 and 2020.
  const auto size = first_arg(file, {"tensor_model_parallel_size", "model_parallel_size"});
  return size.has_value() ? size : first_top(file, {"mp_world_size"});
}

std::optional<int64_t> pipeline_size_of(const TorchFile& file) {
  return first_arg(file, {"pipeline_model_parallel_size"});
}

int64_t expert_size_of(const TorchFile& file) {
  return first_arg(file, {"expert_model_parallel_size"}).value_or(1);
}

double version_of(const TorchFile& file) {
  const std::optional<PickleId> id = file.graph().find(file.root(), "checkpoint_version");
  return id.has_value() ? file.graph().as_number(*id).value_or(0) : 0;
}

/// The word of 2019 and that of DeepSpeed come after today's.
std::optional<int64_t> iteration_of(const TorchFile& file) {
  return first_top(file, {"iteration", "total_iters", "global_steps"});
}

std::string text(const std::optional<int64_t>& value) {
  return value.has_value() ? fmt::format("{}", *value) : "none";
}

/// The ranks of a stage, after the sizes of expert parallelism in a file's args.
Result<RankGrid> find_rank_grid(const TorchFile& file, int64_t tensor_size, int64_t pipeline_size) {
  const int64_t expert_size = expert_size_of(file);
  const int64_t experts = first_arg(file, {"num_experts"}).value_or(0);
  if (expert_size < 1 || (expert_size > 1 && experts < 1) ||
      (experts > 0 && experts % expert_size != 0)) {
    return make_error(StatusCode::kCorruption,
                      "{}: args: expected an expert_model_parallel_size that divides num_experts "
                      "{}, found {}",
                      file.path(), experts, expert_size);
  }
  const int64_t own = first_arg(file, {"expert_tensor_parallel_size"}).value_or(0);
  Result<RankGrid> grid =
      RankGrid::create(tensor_size, expert_size, experts == 0 || own == 0 ? tensor_size : own);
  if (!grid.has_value()) return grid.error().with_prefix(file.path() + ": args");
  if (pipeline_size <= kMaxRanks / grid->size()) return grid;
  return make_error(StatusCode::kCorruption,
                    "{}: args: expected at most {} ranks, found {} times {}", file.path(),
                    kMaxRanks, pipeline_size, grid->size());
}

Status find_sizes(const CheckpointFolder& folder, const TorchFile& first, RankFiles* found) {
  int64_t max_tensor = 0, max_pipeline = 0;
  for (const RankFolder& rank : folder.ranks) {
    // A second number is a pipeline rank, or with experts and one stage an expert rank: see
    // FORMAT.md.
    max_tensor = std::max<int64_t>(max_tensor, rank.numbers[0]);
    if (rank.numbers.size() > 1 && expert_size_of(first) == 1)
      max_pipeline = std::max<int64_t>(max_pipeline, rank.numbers[1]);
  }
  found->tensor_size = tensor_size_of(first).value_or(max_tensor + 1);
  found->pipeline_size = pipeline_size_of(first).value_or(max_pipeline + 1);
  // Check before anything is multiplied or listed by them.
  if (found->tensor_size < 1 || found->pipeline_size < 1 || found->tensor_size > kMaxRanks ||
      found->pipeline_size > kMaxRanks / found->tensor_size) {
    return make_error(StatusCode::kCorruption,
                      "{}: args: expected parallel sizes above 0, found tensor {} and pipeline {}",
                      first.path(), found->tensor_size, found->pipeline_size);
  }
  return Status();
}

/// The sizes of expert parallelism, for messages; empty if there is none.
std::string expert_sizes_text(const RankGrid& grid) {
  if (grid.expert_size() == 1) return "";
  return grid.divides_experts_apart() ? fmt::format(" x expert {} with expert tensor {}",
                                                    grid.expert_size(), grid.expert_tensor_size())
                                      : fmt::format(" x expert {}", grid.expert_size());
}

/// The rank folders in the order of the grid, stage by stage.
Result<std::vector<RankFolder>> expected_ranks(const CheckpointFolder& folder, const RankGrid& grid,
                                               int64_t pipeline_size) {
  std::vector<RankFolder> found;
  std::vector<std::string> missing;
  for (int64_t p = 0; p < pipeline_size; ++p) {
    for (int64_t i = 0; i < grid.size(); ++i) {
      const RankPlace place = grid.place(i);
      const std::string name = rank_folder_name(place.tensor_rank, p, pipeline_size,
                                                place.expert_rank, grid.expert_size());
      const auto rank =
          std::find_if(folder.ranks.begin(), folder.ranks.end(),
                       [&](const RankFolder& candidate) { return candidate.name == name; });
      if (rank != folder.ranks.end()) {
        found.push_back(*rank);
      } else {
        missing.push_back(name);
      }
    }
  }
  const std::string expected = fmt::format("{} rank files (tensor {} x pipeline {}{} in args)",
                                           found.size() + missing.size(), grid.tensor_size(),
                                           pipeline_size, expert_sizes_text(grid));
  if (!missing.empty()) {
    constexpr size_t kShown = 8;
    const char* more = missing.size() > kShown ? " ..." : "";
    missing.resize(std::min(missing.size(), kShown));
    return make_error(StatusCode::kNotFound, "{}: expected {}, found {}; missing: {}{}",
                      folder.folder, expected, found.size(), fmt::join(missing, " "), more);
  }
  // A folder more than args say is left over from another run: its parameters would belong to
  // another model.
  if (folder.ranks.size() != found.size()) {
    return make_error(
        StatusCode::kCorruption,
        "{}: expected {}, found {} rank folders; do some belong to another checkpoint?",
        folder.folder, expected, folder.ranks.size());
  }
  return found;
}

/// The fields that say how parameters are cut and laid out.
constexpr const char* kShapeFields[] = {"num_layers",
                                        "hidden_size",
                                        "num_attention_heads",
                                        "kv_channels",
                                        "num_query_groups",
                                        "ffn_hidden_size",
                                        "swiglu",
                                        "quick_geglu",
                                        "padded_vocab_size",
                                        "num_experts",
                                        "moe_ffn_hidden_size",
                                        "expert_model_parallel_size",
                                        "expert_tensor_parallel_size"};

/// A field of a file's args as people read it.
std::string arg_text(const TorchFile& file, const char* name) {
  const std::optional<PickleId> args = file.graph().find(file.root(), "args");
  const auto id = args.has_value() ? find_arg(file.graph(), *args, name) : std::nullopt;
  return id.has_value() ? file.graph().describe(*id) : "none";
}

// Fields as people read them are compared, whatever their type: they only have to be the same.
Status check_shape_fields(const TorchFile& file, const TorchFile& first) {
  for (const char* name : kShapeFields) {
    const std::string expected = arg_text(first, name);
    const std::string found = arg_text(file, name);
    if (found != expected) {
      return make_error(StatusCode::kCorruption, "{}: args: expected {} {} as in {}, found {}",
                        file.path(), name, expected, first.path(), found);
    }
  }
  return Status();
}

Status check_agreement(const TorchFile& file, const TorchFile& first) {
  if (iteration_of(file) != iteration_of(first)) {
    return make_error(StatusCode::kCorruption, "{}: iteration: expected {} as in {}, found {}",
                      file.path(), text(iteration_of(first)), first.path(),
                      text(iteration_of(file)));
  }
  if (version_of(file) != version_of(first)) {
    return make_error(StatusCode::kCorruption,
                      "{}: checkpoint_version: expected {} as in {}, found {}", file.path(),
                      version_of(first), first.path(), version_of(file));
  }
  if (tensor_size_of(file) != tensor_size_of(first) ||
      pipeline_size_of(file) != pipeline_size_of(first)) {
    return make_error(StatusCode::kCorruption,
                      "{}: args: expected tensor {} x pipeline {} as in {}, found {} x {}",
                      file.path(), text(tensor_size_of(first)), text(pipeline_size_of(first)),
                      first.path(), text(tensor_size_of(file)), text(pipeline_size_of(file)));
  }
  return check_shape_fields(file, first);
}

/// Finds files that were exchanged: tensor ranks of one model have the same names and shapes, and
/// the stages of core's models often do. Megatron numbers its processes so that their ranks grow
/// along each parallel dimension; converters leave one rank in all files. files: in the order of
/// the grid, stage by stage.
Status check_process_ranks(const std::vector<std::shared_ptr<const TorchFile>>& files,
                           const RankGrid& grid) {
  const auto experts = static_cast<size_t>(grid.files_of_tensor_rank());
  const auto stage = static_cast<size_t>(grid.size());
  for (size_t i = 0; i < files.size(); ++i) {
    // The files of a block differ in one dimension and those inside it, its neighbors by distance.
    for (const auto& [distance, block] : {std::pair(size_t{1}, experts), std::pair(experts, stage),
                                          std::pair(stage, files.size())}) {
      if (i % block < distance) continue;
      const TorchFile& before = *files[i - distance];
      const std::optional<int64_t> expected = first_arg(before, {"rank"});
      const std::optional<int64_t> found = first_arg(*files[i], {"rank"});
      if (!expected.has_value() || !found.has_value() || *found >= *expected) continue;
      return make_error(StatusCode::kCorruption,
                        "{}: args: expected rank {} or above, as {} has {}, found {}; were the "
                        "files of two ranks exchanged?",
                        files[i]->path(), *expected, before.path(), *expected, *found);
    }
  }
  return Status();
}

Result<TorchFile> open_in_thread(const std::string& path, PickleBudget* budget) {
  try {
    return TorchFile::open(path, budget);
  } catch (const std::bad_alloc&) {
    return make_error(StatusCode::kResourceExhausted, "{}: not enough memory to open it", path);
  }
}

/// The files of all ranks but the one at opened_path, several opened at once: reading their
/// metadata is work for the processor.
std::vector<std::optional<Result<TorchFile>>> open_others(const std::vector<RankFolder>& ranks,
                                                          const std::string& opened_path,
                                                          PickleBudget* budget) {
  std::vector<std::optional<Result<TorchFile>>> files(ranks.size());
  ThreadPool pool(std::min(available_processors(), static_cast<int>(ranks.size())));
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].file == opened_path) continue;
    pool.submit([&, i] { files[i].emplace(open_in_thread(ranks[i].file, budget)); });
  }
  pool.wait();
  return files;
}

/// Adds a note if ranks differ in weights that they should hold alike.
void note_drifted_weights(const std::vector<std::shared_ptr<const TorchFile>>& files,
                          const RankGrid& grid, RankFiles* found) {
  const std::ptrdiff_t group = grid.files_of_tensor_rank();
  std::vector<std::string> drifted;
  for (auto first = files.begin(); first != files.end(); first += group) {
    const std::vector<std::string> names = drifted_weights({first, first + group});
    drifted.insert(drifted.end(), names.begin(), names.end());
  }
  if (drifted.empty()) return;
  found->notes.push_back(
      fmt::format("weights that differ between expert-parallel ranks: {} ({} first); those of the "
                  "first rank are taken",
                  drifted.size(), text::printable_name(drifted[0], 200)));
}

/// Adds what the files that are not the first of their tensor-parallel rank have beside experts.
/// files: in the order of the grid, stage by stage.
Status add_copies(const std::vector<RankFolder>& ranks,
                  const std::vector<std::shared_ptr<const TorchFile>>& files, const RankGrid& grid,
                  bool with_optimizer, RankFiles* found) {
  for (size_t i = 0; i < files.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    const RankPlace place = grid.place(index % grid.size());
    if (grid.is_first_of_tensor_rank(place)) continue;
    MEG_ASSIGN_OR_RETURN(TorchFile copy, without_experts(files[i], with_optimizer));
    found->copies.push_back({.tensor_rank = place.tensor_rank,
                             .pipeline_rank = index / grid.size(),
                             .folder_name = ranks[i].name,
                             .file = std::make_shared<const TorchFile>(std::move(copy))});
  }
  return Status();
}

/// Adds the files to `found`, expert-parallel ranks merged. files: of every tensor-parallel rank
/// and every expert-parallel rank, the latter in a row. ranks: the folders, of which those of one
/// tensor-parallel rank are in a row.
Status place_files(const std::vector<RankFolder>& ranks,
                   const std::vector<std::shared_ptr<const TorchFile>>& files,
                   const model::ParameterTable* table, RankFiles* found) {
  const auto experts = static_cast<size_t>(found->expert_size);
  const int64_t num_experts = first_arg(*files[0], {"num_experts"}).value_or(0);
  const size_t folders = ranks.size() * experts / files.size();  // of a tensor-parallel rank
  for (size_t i = 0; i < files.size(); i += experts) {
    const auto place = static_cast<int64_t>(i / experts);
    RankFile rank{.tensor_rank = place % found->tensor_size,
                  .pipeline_rank = place / found->tensor_size,
                  .folder_name = ranks[i / experts * folders].name,
                  .file = files[i]};
    if (experts > 1) {
      const auto begin = files.begin() + static_cast<std::ptrdiff_t>(i);
      MEG_ASSIGN_OR_RETURN(TorchFile merged,
                           merge_expert_ranks({begin, begin + static_cast<std::ptrdiff_t>(experts)},
                                              num_experts, table));
      rank.file = std::make_shared<const TorchFile>(std::move(merged));
    }
    found->files.push_back(std::move(rank));
  }
  return Status();
}

}  // namespace

uint64_t rank_file_bytes(const CheckpointFolder& folder) {
  uint64_t bytes = 0;
  const auto add = [&bytes](const std::filesystem::path& path) {
    std::error_code error;
    const uint64_t size = std::filesystem::file_size(path, error);
    if (!error) bytes += size;
  };
  for (const RankFolder& rank : folder.ranks) {
    // Files that cannot be asked for their size are found out when they are opened.
    add(rank.file);
    const std::filesystem::path parent = std::filesystem::path(rank.file).parent_path();
    if (rank.has_distrib_optim) add(parent / kDistribOptimFile);
    if (rank.has_split_optim) add(parent / kSplitOptimFile);
    for (const auto& [number, shard] : rank.optimizer_shards) add(shard);
  }
  return bytes;
}

Status check_tensor_bytes(const std::string& where, uint64_t tensor_bytes, uint64_t file_bytes) {
  constexpr uint64_t kLeast = uint64_t{64} << 20;
  constexpr uint64_t kTimes = 16;
  if (tensor_bytes <= kLeast || tensor_bytes / kTimes <= file_bytes) return Status();
  return make_error(StatusCode::kResourceExhausted,
                    "{}: expected tensors of at most {} times the {} bytes of the files, found {} "
                    "bytes",
                    where, kTimes, file_bytes, tensor_bytes);
}

Result<RankFiles> open_rank_files(const CheckpointFolder& given,
                                  const megatron::FieldLookup& fallback,
                                  const model::ParameterTable* table, bool with_copies) {
  if (has_dist_items(given.format)) return open_torch_dist(given, table == nullptr);
  if (given.format == CheckpointFormat::kHuggingFace) return open_huggingface(given, fallback);
  CheckpointFolder folder = given;
  if (folder.format == CheckpointFormat::kSingleFile) {
    std::error_code ignored;
    folder.ranks = {{.numbers = {0},
                     .name = rank_folder_name(0, 0, 1),
                     .file = folder.folder,
                     .has_distrib_optim = std::filesystem::is_regular_file(
                         distrib_optim_path(folder.folder), ignored)}};
  }
  if (folder.ranks.empty()) {
    return make_error(StatusCode::kNotFound, "{}: expected mp_rank folders, found none",
                      folder.folder);
  }
  RankFiles found;
  // All pickles together have a budget by the files' bytes, so that a small checkpoint cannot fill
  // memory with values.
  PickleBudget budget(rank_file_bytes(folder));
  MEG_ASSIGN_OR_RETURN(TorchFile opened, TorchFile::open(folder.ranks.front().file, &budget));
  const auto first = std::make_shared<const TorchFile>(std::move(opened));
  MEG_RETURN_IF_ERROR(find_sizes(folder, *first, &found));
  MEG_ASSIGN_OR_RETURN(const RankGrid grid,
                       find_rank_grid(*first, found.tensor_size, found.pipeline_size));
  found.expert_size = grid.expert_size();
  MEG_ASSIGN_OR_RETURN(const std::vector<RankFolder> ranks,
                       expected_ranks(folder, grid, found.pipeline_size));
  // The first file has said what there has to be; the others are opened by several threads. Errors
  // are looked at in the order of ranks below, so that the same one is reported each time.
  std::vector<std::optional<Result<TorchFile>>> others = open_others(ranks, first->path(), &budget);
  std::vector<std::shared_ptr<const TorchFile>> files;
  for (size_t i = 0; i < ranks.size(); ++i) {
    files.push_back(first);
    if (ranks[i].file == first->path()) continue;
    MEG_ASSIGN_OR_RETURN(TorchFile other, std::move(*others[i]));
    files.back() = std::make_shared<const TorchFile>(std::move(other));
    MEG_RETURN_IF_ERROR(check_agreement(*files.back(), *first));
  }
  MEG_RETURN_IF_ERROR(check_process_ranks(files, grid));
  if (grid.expert_size() > 1) {
    found.sources = files;
    note_drifted_weights(files, grid, &found);
  }
  for (size_t i = 0; folder.format == CheckpointFormat::kSplitMpRank && i < files.size(); ++i) {
    if (table == nullptr) break;  // model_rng.pt alone has the rest
    MEG_ASSIGN_OR_RETURN(TorchFile joined, join_split_files(ranks[i], files[i], *table, &budget));
    files[i] = std::make_shared<const TorchFile>(std::move(joined));
  }
  // Experts in one matrix have one state in the optimizer, so both are split when it is plain.
  std::vector<size_t> grouped;
  for (size_t i = 0; i < files.size(); ++i) {
    MEG_ASSIGN_OR_RETURN(std::shared_ptr<const TorchFile> file, with_experts_as_one(files[i]));
    if (file != files[i]) grouped.push_back(i);
    files[i] = std::move(file);
  }
  if (table != nullptr) {
    MEG_ASSIGN_OR_RETURN(const std::vector<std::shared_ptr<const TorchFile>> states,
                         read_distributed_optimizers(ranks, *table, found.pipeline_size,
                                                     grid.files_of_tensor_rank(), &budget, &files));
    if (grid.expert_size() > 1) {
      found.sources.insert(found.sources.end(), states.begin(), states.end());
    }
    // Shards are a distributed optimizer's too.
    found.has_distributed_optimizer = !states.empty() || !ranks.front().optimizer_shards.empty();
  }
  const int64_t experts = first_arg(*first, {"num_experts"}).value_or(0) / found.expert_size;
  for (const size_t i : grouped) {
    MEG_ASSIGN_OR_RETURN(files[i], with_single_experts(files[i], experts, table));
  }
  if (with_copies) {
    const bool has_copies_of_state = table != nullptr && !found.has_distributed_optimizer;
    MEG_RETURN_IF_ERROR(add_copies(ranks, files, grid, has_copies_of_state, &found));
  }
  if (grid.divides_experts_apart()) {
    MEG_ASSIGN_OR_RETURN(const model::GptConfig config, read_checkpoint_config(*first, fallback));
    MEG_ASSIGN_OR_RETURN(files, with_experts_over_tensor_ranks(files, grid, config, table));
  }
  MEG_RETURN_IF_ERROR(place_files(ranks, files, table, &found));
  found.version = version_of(*first);
  found.iteration = iteration_of(*first);
  return found;
}

RankFiles rank_files_of(TorchFile file, int64_t tensor_rank, int64_t pipeline_rank) {
  RankFiles found;
  found.tensor_size = tensor_size_of(file).value_or(1);
  found.pipeline_size = pipeline_size_of(file).value_or(1);
  found.version = version_of(file);
  found.iteration = iteration_of(file);
  found.files.push_back(
      {.tensor_rank = tensor_rank,
       .pipeline_rank = pipeline_rank,
       .folder_name = rank_folder_name(tensor_rank, pipeline_rank, found.pipeline_size),
       .file = std::make_shared<const TorchFile>(std::move(file))});
  return found;
}

}  // namespace meg::checkpoint
