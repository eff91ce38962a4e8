#include "libmeg/checkpoint/dialects/mp_rank/internal/checkpoint_contents.h"

#include <algorithm>
#include <string>
#include <utility>

#include "libmeg/checkpoint/dialects/torch_dist/internal/dist_ranks.h"

// Recognizes formats by the names in a folder, before any file is opened, except .metadata, whose
// items distinguish torch_dist from fsdp_dtensor: FORMAT.md has the table. A folder that could be
// of two formats is refused, because there is no way to tell which one is meant.

namespace meg::checkpoint {
namespace {

constexpr std::string_view kDeepSpeedFileEnd = "_model_states.pt";
constexpr std::string_view kDeepSpeedLayerStart = "layer_";
constexpr std::string_view kDeepSpeedLayerEnd = "-model_states.pt";
constexpr std::string_view kZeroStart = "zero_pp_rank_";
constexpr std::string_view kRankStart = "mp_rank_";
constexpr const char* kAdapterFile = "adapter_config.json";

/// "mp_rank_00_001" -> {0, 1}; empty where it is no such name.
std::vector<int> parse_rank_name(std::string_view name) {
  if (!name.starts_with(kRankStart)) return {};
  name.remove_prefix(kRankStart.size());
  std::vector<int> numbers;
  while (true) {
    const std::string_view digits = name.substr(0, name.find('_'));
    const auto number = parse_digits<int>(digits);
    // Megatron writes two digits for the tensor rank and three for the others; fewer digits are
    // another program's files.
    if (!number || digits.size() < (numbers.empty() ? 2 : 3) || numbers.size() == 3) return {};
    numbers.push_back(*number);
    if (digits.size() == name.size()) return numbers;
    name.remove_prefix(digits.size() + 1);
  }
}

/// "mp_rank_00_model_states.pt" -> "mp_rank_00"; empty where it is no such name.
std::string_view deep_speed_rank(std::string_view file) {
  if (!file.ends_with(kDeepSpeedFileEnd)) return {};
  file.remove_suffix(kDeepSpeedFileEnd.size());
  return parse_rank_name(file).empty() ? std::string_view() : file;
}

/// Sorts the ranks; error where they cannot be of one layout.
Status order_ranks(CheckpointFolder* found) {
  std::sort(
      found->ranks.begin(), found->ranks.end(),
      [](const RankFolder& left, const RankFolder& right) { return left.numbers < right.numbers; });
  for (size_t i = 1; i < found->ranks.size(); ++i) {
    const RankFolder& left = found->ranks[i - 1];
    const RankFolder& right = found->ranks[i];
    if (left.numbers == right.numbers || left.numbers.size() != right.numbers.size()) {
      return make_error(StatusCode::kCorruption,
                        "{}: expected ranks of one layout, found {} beside {}", found->folder,
                        left.name, right.name);
    }
  }
  return Status();
}

/// Gives each rank the shards of its data-parallel ranks, whose folders have a number more. shards:
/// folders with optim.pt alone.
Status add_shards(const std::vector<RankFolder>& shards, CheckpointFolder* found) {
  for (const RankFolder& shard : shards) {
    const auto owner =
        std::find_if(found->ranks.begin(), found->ranks.end(), [&shard](const RankFolder& rank) {
          return rank.numbers.size() + 1 == shard.numbers.size() &&
                 std::equal(rank.numbers.begin(), rank.numbers.end(), shard.numbers.begin());
        });
    if (owner == found->ranks.end()) {
      return make_error(StatusCode::kNotFound, "{}: expected {} beside {}, found no such file",
                        join_path(found->folder, shard.name), kSplitModelFile, kSplitOptimFile);
    }
    owner->optimizer_shards[shard.numbers.back()] = shard.file;
  }
  return Status();
}

/// Rank folders that hold their file; sets *missing to one that does not.
Status read_rank_folders(const FolderEntries& entries, CheckpointFolder* found,
                         std::string* missing) {
  found->format = CheckpointFormat::kMpRank;
  std::string unified;
  std::vector<RankFolder> halved;
  for (const auto& [name, is_folder] : entries) {
    RankFolder rank;
    rank.numbers = parse_rank_name(name);
    if (rank.numbers.empty() || !is_folder) continue;
    const std::string folder = join_path(found->folder, name);
    MEG_ASSIGN_OR_RETURN(const FolderEntries inside, FolderEntries::list(folder));
    const bool is_split = !inside.has_file(kModelFile) && inside.has_file(kSplitModelFile);
    if (!is_split && !inside.has_file(kModelFile)) {
      // A folder with optim.pt alone is a data-parallel rank's shard of the optimizer, as split
      // checkpoints had it.
      if (inside.has_file(kSplitOptimFile)) {
        rank.name = name;
        rank.file = join_path(folder, kSplitOptimFile);
        halved.push_back(std::move(rank));
      } else {
        *missing = folder;
      }
      continue;
    }
    if (is_split) found->format = CheckpointFormat::kSplitMpRank;
    if (!is_split) unified = folder;
    rank.has_split_optim = is_split && inside.has_file(kSplitOptimFile);
    rank.name = name;
    rank.file = join_path(folder, is_split ? kSplitModelFile : kModelFile);
    rank.has_distrib_optim = inside.has_file(kDistribOptimFile);
    found->ranks.push_back(std::move(rank));
  }
  if (found->format == CheckpointFormat::kSplitMpRank && !unified.empty()) {
    return make_error(StatusCode::kCorruption,
                      "{}: expected ranks of one layout, found {} in {} beside {} of others",
                      found->folder, kModelFile, unified, kSplitModelFile);
  }
  MEG_RETURN_IF_ERROR(order_ranks(found));
  // Revisions that know no shards do not look at such folders.
  if (!unified.empty()) return Status();
  return add_shards(halved, found);
}

Status read_deep_speed_files(const FolderEntries& entries, CheckpointFolder* found) {
  found->format = CheckpointFormat::kDeepSpeed;
  for (const auto& [name, is_folder] : entries) {
    if (is_folder) continue;
    if (name.starts_with(kDeepSpeedLayerStart) && name.ends_with(kDeepSpeedLayerEnd)) {
      return make_error(StatusCode::kUnsupported,
                        "{}: one file per layer ({}), as DeepSpeed's pipeline and GPT-NeoX save, "
                        "is not supported",
                        found->folder, name);
    }
    found->has_zero_optimizer |= name.starts_with(kZeroStart);
    if (deep_speed_rank(name).empty()) continue;
    RankFolder rank;
    rank.name = deep_speed_rank(name);
    rank.numbers = parse_rank_name(rank.name);
    rank.file = join_path(found->folder, name);
    found->ranks.push_back(std::move(rank));
  }
  return order_ranks(found);
}

/// Whether a file's name ends in one of these.
bool has_file_ending(const FolderEntries& entries, std::initializer_list<std::string_view> ends) {
  return std::any_of(entries.begin(), entries.end(), [&](const auto& entry) {
    return !entry.second && std::any_of(ends.begin(), ends.end(), [&](std::string_view end) {
      return entry.first.ends_with(end);
    });
  });
}

}  // namespace

Result<bool> read_contents(const FolderEntries& entries, CheckpointFolder* found) {
  std::string missing;
  MEG_RETURN_IF_ERROR(read_rank_folders(entries, found, &missing));
  // Either one may be left from a run that changed its format; there is no way to tell which is
  // meant.
  if (!found->ranks.empty() && entries.has_file(".metadata")) {
    return make_error(StatusCode::kCorruption,
                      "{}: expected a checkpoint of one format, found {} beside .metadata of "
                      "torch_dist",
                      found->folder, found->ranks[0].name);
  }
  if (!found->ranks.empty()) return true;
  if (!missing.empty()) {
    return make_error(StatusCode::kNotFound, "{}: expected {}, found no such file", missing,
                      kModelFile);
  }
  MEG_RETURN_IF_ERROR(read_deep_speed_files(entries, found));
  if (!found->ranks.empty()) return true;
  if (entries.has_file(".metadata") || entries.has_file("metadata.json") ||
      has_file_ending(entries, {".distcp"})) {
    found->format = dist_format(found->folder);
    return true;
  }
  // transformers would load its base model and apply the adapter to it, whatever weights are in the
  // folder.
  if (entries.has_file(kAdapterFile)) {
    return make_error(StatusCode::kUnsupported,
                      "{}: {}: adapters of PEFT are not supported; merge adapter and base model "
                      "with peft's merge_and_unload()",
                      found->folder, kAdapterFile);
  }
  // Look after the others: a converted model may have these files beside a training checkpoint.
  if (!entries.has_file("config.json") ||
      !has_file_ending(entries, {".safetensors", ".bin", ".safetensors.index.json"})) {
    return false;
  }
  found->format = CheckpointFormat::kHuggingFace;
  found->is_release = true;
  found->iteration = std::nullopt;
  return true;
}

}  // namespace meg::checkpoint
