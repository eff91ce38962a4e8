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
// in the same folder are detected by these.

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

/// The ranks of a stage, after the sizes of expert parallelism in a file's args.
Result<RankGrid> find_rank_grid(const TorchFile& file, int64_t tensor_size, int64_t pipeline_size) {
  const int64_t expert_size = RankFacts::of(file).expert_size;
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
  const RankFacts expected = RankFacts::of(first), found = RankFacts::of(file);
  if (found.iteration != expected.iteration) {
    return make_error(StatusCode::kCorruption, "{}: iteration: expected {} as in {}, found {}",
                      file.path(), number_text(expected.iteration), first.path(),
                      number_text(found.iteration));
  }
  if (found.version != expected.version) {
    return make_error(StatusCode::kCorruption,
                      "{}: checkpoint_version: expected {} as in {}, found {}", file.path(),
                      expected.version, first.path(), found.version);
  }
  if (found.tensor_size != expected.tensor_size || found.pipeline_size != expected.pipeline_size) {
    return make_error(StatusCode::kCorruption,
                      "{}: args: expected tensor {} x pipeline {} as in {}, found {} x {}",
                      file.path(), number_text(expected.tensor_size),
                      number_text(expected.pipeline_size), first.path(),
                      number_text(found.tensor_size), number_text(found.pipeline_size));
  }
  return check_shape_fields(file, first);
}

Result<TorchFile> open_in_thread(const std::string& path, const TorchFileOptions& options) {
  try {
    return TorchFile::open(path, options);
  } catch (const std::bad_alloc&) {
    return make_error(StatusCode::kResourceExhausted, "{}: not enough memory to open it", path);
  }
}

/// The files of all ranks but the one at opened_path, several opened at once: reading their
/// metadata is work for the processor.
std::vector<std::optional<Result<TorchFile>>> open_others(const std::vector<RankFolder>& ranks,
                                                          const std::string& opened_path,
                                                          const TorchFileOptions& options) {
  std::vector<std::optional<Result<TorchFile>>> files(ranks.size());
  ThreadPool pool(std::min(available_processors(), static_cast<int>(ranks.size())));
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].file == opened_path) continue;
    pool.submit([&, i] { files[i].emplace(open_in_thread(ranks[i].file, options)); });
  }
  pool.wait();
  return files;
}

/// Opens the rank files of a folder, step by step: `files_` are in the order of the grid, stage by
/// stage, and become simpler with each step, until one for each tensor-parallel rank is left.
class RankFilesReader {
 public:
  RankFilesReader(const CheckpointFolder& folder, const OpenCheckpointOptions& options,
                  const model::ParameterTable* table)
      : folder_(folder),
        fallback_(options.fallback),
        table_(table),
        budget_(rank_file_bytes(folder)),
        opening_{.budget = &budget_, .check_metadata_crcs = options.check_crcs} {}

  Result<RankFiles> read(bool with_copies) {
    MEG_RETURN_IF_ERROR(open_files());
    found_.sources = files_;
    if (grid_.expert_size() > 1) note_drifted_weights();
    MEG_RETURN_IF_ERROR(read_optimizers());
    if (with_copies) MEG_RETURN_IF_ERROR(add_copies());
    if (grid_.divides_experts_apart()) {
      MEG_ASSIGN_OR_RETURN(const model::GptConfig config,
                           read_checkpoint_config(*first_, fallback_));
      MEG_ASSIGN_OR_RETURN(files_, with_experts_over_tensor_ranks(files_, grid_, config, table_));
    }
    MEG_RETURN_IF_ERROR(merge_experts());
    const RankFacts facts = RankFacts::of(*first_);
    found_.version = facts.version;
    found_.iteration = facts.iteration;
    return std::move(found_);
  }

 private:
  using File = std::shared_ptr<const TorchFile>;

  /// Opens all files that there have to be, as the first one says.
  Status open_files() {
    MEG_ASSIGN_OR_RETURN(TorchFile opened, TorchFile::open(folder_.ranks.front().file, opening_));
    first_ = std::make_shared<const TorchFile>(std::move(opened));
    MEG_ASSIGN_OR_RETURN(const RankSizes sizes, rank_sizes(folder_, *first_));
    found_.tensor_size = sizes.tensor;
    found_.pipeline_size = sizes.pipeline;
    MEG_ASSIGN_OR_RETURN(grid_, find_rank_grid(*first_, found_.tensor_size, found_.pipeline_size));
    found_.expert_size = grid_.expert_size();
    MEG_ASSIGN_OR_RETURN(ranks_, expected_ranks(folder_, grid_, found_.pipeline_size));
    // The others are opened by several threads. Errors are handled in the order of ranks below,
    // so that the same one is reported each time.
    std::vector<std::optional<Result<TorchFile>>> others =
        open_others(ranks_, first_->path(), opening_);
    for (size_t i = 0; i < ranks_.size(); ++i) {
      files_.push_back(first_);
      if (ranks_[i].file == first_->path()) continue;
      MEG_ASSIGN_OR_RETURN(TorchFile other, std::move(*others[i]));
      files_.back() = std::make_shared<const TorchFile>(std::move(other));
      MEG_RETURN_IF_ERROR(check_agreement(*files_.back(), *first_));
    }
    return check_process_ranks(files_, grid_);
  }

  /// Adds a note if expert-parallel ranks differ in weights that they should hold alike.
  void note_drifted_weights() {
    const std::ptrdiff_t group = grid_.files_of_tensor_rank();
    std::vector<std::string> drifted;
    for (auto first = files_.begin(); first != files_.end(); first += group) {
      const std::vector<std::string> names = drifted_weights({first, first + group});
      drifted.insert(drifted.end(), names.begin(), names.end());
    }
    if (drifted.empty()) return;
    found_.notes.push_back(
        fmt::format("weights that differ between expert-parallel ranks: {} ({} first); those of "
                    "the first rank are taken",
                    drifted.size(), text::printable_name(drifted[0], 200)));
  }

  /// Gives files plain optimizers, and each expert tensors of its own.
  Status read_optimizers() {
    for (size_t i = 0; folder_.format == CheckpointFormat::kSplitMpRank && i < files_.size(); ++i) {
      if (table_ == nullptr) break;  // model_rng.pt alone has the rest
      MEG_ASSIGN_OR_RETURN(TorchFile joined, join_split_files(ranks_[i], files_[i], *table_,
                                                              opening_, &found_.sources));
      files_[i] = std::make_shared<const TorchFile>(std::move(joined));
    }
    // Experts in one matrix have one state in the optimizer, so both are split when it is plain.
    std::vector<size_t> grouped;
    for (size_t i = 0; i < files_.size(); ++i) {
      MEG_ASSIGN_OR_RETURN(File file, with_experts_as_one(files_[i]));
      if (file != files_[i]) grouped.push_back(i);
      files_[i] = std::move(file);
    }
    if (table_ != nullptr) {
      MEG_ASSIGN_OR_RETURN(
          const DistributedOptimizers states,
          read_distributed_optimizers(ranks_, *table_, found_.pipeline_size,
                                      grid_.files_of_tensor_rank(), opening_, &files_));
      found_.sources.insert(found_.sources.end(), states.files.begin(), states.files.end());
      found_.buffer_alignment = states.alignment;
      // Shards are a distributed optimizer's too.
      found_.has_distributed_optimizer =
          !states.files.empty() || !ranks_.front().optimizer_shards.empty();
    }
    const int64_t experts = num_experts() / found_.expert_size;
    for (const size_t i : grouped) {
      MEG_ASSIGN_OR_RETURN(files_[i], with_single_experts(files_[i], experts, table_));
    }
    return Status();
  }

  /// Adds what the files that are not the first of their tensor-parallel rank have beside experts.
  Status add_copies() {
    const bool has_copies_of_state = table_ != nullptr && !found_.has_distributed_optimizer;
    for (size_t i = 0; i < files_.size(); ++i) {
      const auto index = static_cast<int64_t>(i);
      const RankPlace place = grid_.place(index % grid_.size());
      if (grid_.is_first_of_tensor_rank(place)) continue;
      MEG_ASSIGN_OR_RETURN(TorchFile copy, without_experts(files_[i], has_copies_of_state));
      found_.copies.push_back({.tensor_rank = place.tensor_rank,
                               .pipeline_rank = index / grid_.size(),
                               .folder_name = ranks_[i].name,
                               .file = std::make_shared<const TorchFile>(std::move(copy))});
    }
    return Status();
  }

  /// Adds the files to those found, those of all expert-parallel ranks merged into one. By now
  /// there is a file for every tensor-parallel and every expert-parallel rank.
  Status merge_experts() {
    const auto experts = static_cast<size_t>(grid_.expert_size());
    const auto folders = static_cast<size_t>(grid_.files_of_tensor_rank());
    for (size_t i = 0; i < files_.size(); i += experts) {
      const auto place = static_cast<int64_t>(i / experts);
      RankFile rank{.tensor_rank = place % found_.tensor_size,
                    .pipeline_rank = place / found_.tensor_size,
                    .folder_name = ranks_[i / experts * folders].name,
                    .file = files_[i]};
      if (experts > 1) {
        const auto begin = files_.begin() + static_cast<std::ptrdiff_t>(i);
        MEG_ASSIGN_OR_RETURN(
            TorchFile merged,
            merge_expert_ranks({begin, begin + static_cast<std::ptrdiff_t>(experts)}, num_experts(),
                               table_));
        rank.file = std::make_shared<const TorchFile>(std::move(merged));
      }
      found_.files.push_back(std::move(rank));
    }
    return Status();
  }

  int64_t num_experts() const { return first_arg(*first_, {"num_experts"}).value_or(0); }

  const CheckpointFolder& folder_;
  const megatron::FieldLookup& fallback_;
  const model::ParameterTable* table_;
  /// All pickles together have a budget by the files' bytes, so that a small checkpoint cannot fill
  /// memory with values.
  PickleBudget budget_;
  TorchFileOptions opening_;
  File first_;
  RankGrid grid_;
  std::vector<RankFolder> ranks_;  // of files_, as they were opened
  std::vector<File> files_;
  RankFiles found_;
};

}  // namespace

RankFacts RankFacts::of(const TorchFile& file) {
  RankFacts facts;
  // The second name is that of 2019 and 2020; DeepSpeed stores the size beside the model.
  facts.tensor_size = first_arg(file, {"tensor_model_parallel_size", "model_parallel_size"});
  if (!facts.tensor_size.has_value()) facts.tensor_size = first_top(file, {"mp_world_size"});
  facts.pipeline_size = first_arg(file, {"pipeline_model_parallel_size"});
  facts.expert_size = first_arg(file, {"expert_model_parallel_size"}).value_or(1);
  // Today's name, that of 2019, and DeepSpeed's.
  facts.iteration = first_top(file, {"iteration", "total_iters", "global_steps"});
  const std::optional<PickleId> version = file.graph().find(file.root(), "checkpoint_version");
  if (version.has_value()) facts.version = file.graph().as_number(*version).value_or(0);
  return facts;
}

std::string number_text(const std::optional<int64_t>& number) {
  return number.has_value() ? fmt::format("{}", *number) : "none";
}

RankSizes sizes_by_names(const CheckpointFolder& folder, int64_t expert_size) {
  RankSizes sizes;
  for (const RankFolder& rank : folder.ranks) {
    sizes.tensor = std::max<int64_t>(sizes.tensor, rank.numbers[0] + 1);
    // A second number is a pipeline rank, or with experts and one stage an expert rank: see
    // FORMAT.md.
    if (rank.numbers.size() > 1 && expert_size == 1) {
      sizes.pipeline = std::max<int64_t>(sizes.pipeline, rank.numbers[1] + 1);
    }
  }
  return sizes;
}

Result<RankSizes> rank_sizes(const CheckpointFolder& folder, const TorchFile& first) {
  const RankFacts facts = RankFacts::of(first);
  RankSizes sizes = sizes_by_names(folder, facts.expert_size);
  sizes.tensor = facts.tensor_size.value_or(sizes.tensor);
  sizes.pipeline = facts.pipeline_size.value_or(sizes.pipeline);
  // Check before anything is multiplied or listed by them.
  if (sizes.tensor < 1 || sizes.pipeline < 1 || sizes.tensor > kMaxRanks ||
      sizes.pipeline > kMaxRanks / sizes.tensor) {
    return make_error(StatusCode::kCorruption,
                      "{}: args: expected parallel sizes above 0, found tensor {} and pipeline {}",
                      first.path(), sizes.tensor, sizes.pipeline);
  }
  return sizes;
}

uint64_t rank_file_bytes(const CheckpointFolder& folder) {
  uint64_t bytes = 0;
  const auto add = [&bytes](const std::filesystem::path& path) {
    std::error_code error;
    const uint64_t size = std::filesystem::file_size(path, error);
    if (!error) bytes += size;
  };
  for (const RankFolder& rank : folder.ranks) {
    // Files whose size cannot be read are reported when they are opened.
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
                                  const OpenCheckpointOptions& options,
                                  const model::ParameterTable* table, bool with_copies) {
  if (has_dist_items(given.format)) return open_torch_dist(given, table == nullptr);
  if (given.format == CheckpointFormat::kHuggingFace)
    return open_huggingface(given, options.fallback);
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
  return RankFilesReader(folder, options, table).read(with_copies);
}

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

RankFiles rank_files_of(TorchFile file, int64_t tensor_rank, int64_t pipeline_rank) {
  const RankFacts facts = RankFacts::of(file);
  RankFiles found;
  found.tensor_size = facts.tensor_size.value_or(1);
  found.pipeline_size = facts.pipeline_size.value_or(1);
  found.expert_size = facts.expert_size;
  found.is_part = found.tensor_size * found.pipeline_size * found.expert_size > 1;
  found.expert_tensor_size =
      first_arg(file, {"expert_tensor_parallel_size"}).value_or(found.tensor_size);
  found.version = facts.version;
  found.iteration = facts.iteration;
  found.files.push_back(
      {.tensor_rank = tensor_rank,
       .pipeline_rank = pipeline_rank,
       .folder_name = rank_folder_name(tensor_rank, pipeline_rank, found.pipeline_size),
       .file = std::make_shared<const TorchFile>(std::move(file))});
  return found;
}

}  // namespace meg::checkpoint
