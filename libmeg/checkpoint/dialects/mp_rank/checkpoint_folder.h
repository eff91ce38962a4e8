#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::checkpoint {

/// The format of the checkpoint in a folder.
enum class CheckpointFormat : uint8_t {
  kMpRank,       ///< mp_rank_TT[_PPP[_EEE]]/model_optim_rng.pt
  kSplitMpRank,  ///< 2022-23: mp_rank_TT[_PPP]/model_rng.pt, mp_rank_TT[_PPP]_DDD/optim.pt
  kDeepSpeed,    ///< latest, <tag>/mp_rank_TT_model_states.pt; ZeRO's optimizer is not read
  kTorchDist,    ///< .metadata, *.distcp; see open_torch_dist()
  kFsdpDtensor,  ///< The same with the names of Megatron-FSDP.
  kHuggingFace,  ///< config.json beside weights; see open_huggingface()
  kSingleFile,   ///< One file of torch.save.
};

/// "torch" (Megatron's --ckpt-format name for mp_rank folders), "torch_dist", "DeepSpeed", ...
std::string_view checkpoint_format_text(CheckpointFormat format);

/// Whether `.metadata` describes where the items of checkpoints of this format are.
bool has_dist_items(CheckpointFormat format);

/// Whether checkpoints of this format contain no rank files and are read as if composed of them, as
/// a whole or not at all.
bool is_composed(CheckpointFormat format);

/// One rank's folder. If its name has two numbers, only the args inside tell whether the second is
/// a pipeline or an expert rank.
struct RankFolder {
  std::vector<int> numbers;        ///< As in its name: {TT}, {TT, PPP} or {TT, PPP, EEE}.
  std::string name;                ///< mp_rank_00_001
  std::string file;                ///< Path of model_optim_rng.pt (or the DeepSpeed file).
  bool has_distrib_optim = false;  ///< distrib_optim.pt lies beside it.
  bool has_split_optim = false;    ///< optim.pt lies beside it (kSplitMpRank).
  /// kSplitMpRank: paths of optim.pt in folders of their own, by data-parallel rank; possibly
  /// incomplete.
  std::map<int, std::string> optimizer_shards = {};
};

/// A checkpoint on the disk that was found but not opened.
struct CheckpointFolder {
  CheckpointFormat format = CheckpointFormat::kMpRank;
  std::string root;    ///< The folder with the tracker; empty where none is above.
  std::string folder;  ///< iter_0005000 or release (a path); the file for kSingleFile.
  std::optional<int64_t> iteration;  ///< From the folder's name or the tracker.
  bool is_release = false;           ///< Weights to start from; a Hugging Face folder too.
  /// DeepSpeed: zero_pp_rank_*_optim_states.pt lie beside the rank files.
  bool has_zero_optimizer = false;
  std::vector<RankFolder> ranks;  ///< Ascending by numbers; complete or not.
};

/// Name of the tracker file.
inline constexpr std::string_view kTrackerName = "latest_checkpointed_iteration.txt";

/// Finds the checkpoint that `path` names: a root with a tracker, an iter_* or release folder, or
/// one file. iteration: takes iter_<iteration> of a root instead of what the tracker says.
/// kNotFound: no such path, no tracker and no checkpoint in it, a tracker that names a folder which
/// is not there. kCorruption: a tracker that is not a number. The error for a folder that is not a
/// checkpoint says what was looked for. Mirrors Megatron-LM megatron/training/checkpointing.py:
/// read_metadata, get_checkpoint_name.
Result<CheckpointFolder> find_checkpoint(const std::string& path,
                                         std::optional<int64_t> iteration = std::nullopt);

/// "iter_0005000"
std::string iteration_folder_name(int64_t iteration);

/// "mp_rank_00" or, where pipeline_model_parallel_size > 1, "mp_rank_00_001"; where
/// expert_model_parallel_size > 1 the expert-parallel rank follows: "mp_rank_00_000" with one
/// stage, "mp_rank_00_001_000".
std::string rank_folder_name(int64_t tensor_rank, int64_t pipeline_rank,
                             int64_t pipeline_model_parallel_size, int64_t expert_rank = 0,
                             int64_t expert_model_parallel_size = 1);

/// Writes a root's tracker file by rename. Text: "5000" or "release", no newline.
Status write_tracker(const std::string& root, std::optional<int64_t> iteration);

}  // namespace meg::checkpoint
