#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_grid.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {

/// The open files of all ranks of a checkpoint, and what they agree on.
struct RankFiles {
  int64_t tensor_size = 1;
  int64_t pipeline_size = 1;
  /// Expert-parallel ranks, whose files are merged into one; see merge_expert_ranks().
  int64_t expert_size = 1;
  /// Whether `files` is that of one rank of several, with its own experts.
  bool is_part = false;
  /// Ranks that split the experts of such a file, 1 or tensor_size.
  int64_t expert_tensor_size = 1;
  bool has_distributed_optimizer = false;  ///< It was read from distrib_optim.pt beside the files.
  std::optional<int64_t> buffer_alignment = {};  ///< See OptimizerLayout.
  double version = 0;                            ///< checkpoint_version; 0 if the files have none.
  std::optional<int64_t> iteration;
  std::vector<RankFile> files;  ///< File (t, p) at p * tensor_size + t.
  /// Every torch file of the folder that `files` are or are made of, distrib_optim.pt and optim.pt
  /// included; in the formats that is_composed() names, of kSplitMpRank alone.
  std::vector<std::shared_ptr<const TorchFile>> sources = {};
  /// With expert-parallel ranks: the copies of what these hold alike, all but the first ones, as
  /// files without experts. A distributed optimizer, of which there is one copy, is left out.
  std::vector<RankFile> copies = {};
  std::vector<std::string> notes;  ///< See MegatronCheckpoint::notes().
};

/// What a rank's file says of the whole checkpoint, under the names of any revision.
struct RankFacts {
  std::optional<int64_t> tensor_size, pipeline_size;
  int64_t expert_size = 1;
  std::optional<int64_t> iteration;
  double version = 0;  ///< checkpoint_version; 0 if the file has none.

  static RankFacts of(const TorchFile& file);
};

/// One of these numbers for messages, "none" if the file has no such number.
std::string number_text(const std::optional<int64_t>& number);

struct RankSizes {
  int64_t tensor = 1, pipeline = 1;
};

/// The sizes that the names of the rank folders imply. expert_size: as args state it, because then
/// a second number may be an expert-parallel rank.
RankSizes sizes_by_names(const CheckpointFolder& folder, int64_t expert_size);

/// The sizes that the first file states, otherwise sizes_by_names(). kCorruption for sizes that no
/// run has.
Result<RankSizes> rank_sizes(const CheckpointFolder& folder, const TorchFile& first);

/// Size of the files of these ranks, distrib_optim.pt included.
uint64_t rank_file_bytes(const CheckpointFolder& folder);

/// Tensors may be views that repeat the contents of files: kResourceExhausted if `tensor_bytes` of
/// them are out of proportion to `file_bytes`.
Status check_tensor_bytes(const std::string& where, uint64_t tensor_bytes, uint64_t file_bytes);

/// Opens the rank files of a folder in the mp_rank format (or the one file of a single rank), and
/// checks their number against the parallel sizes in the first file's args, or against the folders'
/// names if it has none. Other formats are opened by their readers.
/// kNotFound: ranks missing, all named. kCorruption: folders of more ranks, or files that disagree
/// about iteration, version or sizes. kUnsupported: other formats,
/// sizes of expert parallelism that rank files cannot have (see RankGrid).
/// with_copies: whether to return RankFiles::copies.
/// table: of the parameters of their optimizers, distributed ones of distrib_optim.pt and those of
/// expert-parallel ranks (see merge_expert_ranks()); nullptr: without optimizers.
/// Of `options` only fallback and check_crcs are used.
Result<RankFiles> open_rank_files(const CheckpointFolder& folder,
                                  const OpenCheckpointOptions& options,
                                  const model::ParameterTable* table, bool with_copies = false);

/// Finds files that were exchanged: tensor ranks of one model have the same names and shapes, and
/// the stages of core's models often do. Megatron numbers its processes so that their ranks grow
/// along each parallel dimension; converters leave one rank in all files. files: in the order of
/// the grid, stage by stage. kCorruption names the first file whose rank is below another's.
Status check_process_ranks(const std::vector<std::shared_ptr<const TorchFile>>& files,
                           const RankGrid& grid);

/// Wraps the one file of a single-rank checkpoint, or of this rank among several, whose numbers its
/// args state.
RankFiles rank_files_of(TorchFile file, int64_t tensor_rank, int64_t pipeline_rank);

}  // namespace meg::checkpoint
