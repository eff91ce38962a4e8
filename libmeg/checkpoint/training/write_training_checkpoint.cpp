#include "libmeg/checkpoint/training/write_training_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <new>
#include <system_error>

#include "libmeg/checkpoint/convert/save_torch_dist.h"
#include "libmeg/checkpoint/dialects/mp_rank/checkpoint_folder.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/io/atomic_folder.h"
#include "libmeg/io/crc32.h"

// Writes rank files (torch) or a rank's share of .distcp files (torch_dist) into a staging folder.
// Sizes are known before the first byte, so that a torch file is laid out once and its storages are
// written to their places; there is no buffer of a file's size.

namespace meg::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kArchiveName = "model_optim_rng";

/// A block's CRC is taken while its bytes are in the cache for writing.
constexpr size_t kBlockBytes = size_t{1} << 20;

Status write_storage(const TorchFileWriter& writer, int storage, std::span<const std::byte> bytes,
                     uint32_t* crc) {
  uint64_t offset = 0;
  while (!bytes.empty()) {
    const std::span<const std::byte> block = bytes.first(std::min(bytes.size(), kBlockBytes));
    *crc = io::crc32(block, *crc);
    MEG_RETURN_IF_ERROR(writer.write(storage, offset, block));
    offset += block.size();
    bytes = bytes.subspan(block.size());
  }
  return Status();
}

Status write_tree(const std::string& path, const TrainingTree& tree, TorchFileLayout layout) {
  MEG_ASSIGN_OR_RETURN(TorchFileWriter writer,
                       TorchFileWriter::create(path, tree.content(), std::move(layout)));
  for (size_t i = 0; i < tree.sources().size(); ++i) {
    if (tree.sources()[i].empty()) continue;
    uint32_t crc = 0;
    MEG_RETURN_IF_ERROR(write_storage(writer, static_cast<int>(i), tree.sources()[i], &crc));
    writer.set_crc(static_cast<int>(i), crc);
  }
  return writer.finish();
}

// Adds to the error of a full disk what would have been needed. It is requested afterwards: space
// may vanish while writing, so a check beforehand would promise nothing.
Status with_space(const Status& status, const std::string& folder, uint64_t needed) {
  if (status.code() != StatusCode::kResourceExhausted) return status;
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error) return status;
  return make_error(status.code(), "{} (the file needs {} bytes, {} are free)", status.message(),
                    needed, space.available);
}

int64_t size_arg(const TrainingState& state, const char* name) {
  const std::optional<megatron::FieldValue> value = state.args.field(name);
  const int64_t* size = value.has_value() ? std::get_if<int64_t>(&*value) : nullptr;
  return size == nullptr ? 1 : *size;
}

Status write_rank_file(const std::string& folder, const TrainingState& state,
                       const TrainingFileOptions& options) {
  MEG_ASSIGN_OR_RETURN(const TrainingTree tree, build_training_file(state, options));
  MEG_ASSIGN_OR_RETURN(TorchFileLayout layout, lay_out(tree.content(), kArchiveName));
  const fs::path rank_folder =
      fs::path(folder) / rank_folder_name(state.tensor_rank, state.pipeline_rank,
                                          size_arg(state, "pipeline_model_parallel_size"),
                                          state.expert_rank,
                                          size_arg(state, "expert_model_parallel_size"));
  std::error_code error;
  fs::create_directory(rank_folder, error);
  if (error) return errno_error(error.value(), "cannot create " + rank_folder.string());
  const uint64_t needed = layout.file_size;
  const std::string path = (rank_folder / (std::string(kArchiveName) + ".pt")).string();
  return with_space(write_tree(path, tree, std::move(layout)), folder, needed);
}

// The torch_dist writer works on a checkpoint that was read. A rank's state becomes one in memory,
// so that saving and converting are one code.
Status write_dist_files(const std::string& folder, const TrainingState& state,
                        const TrainingFileOptions& options) {
  MEG_ASSIGN_OR_RETURN(const TrainingTree tree, build_training_file(state, options));
  MEG_ASSIGN_OR_RETURN(TorchFile file, tree.compose(folder));
  const uint64_t needed = file.size();
  MEG_ASSIGN_OR_RETURN(
      const MegatronCheckpoint part,
      MegatronCheckpoint::of_file(std::move(file), state.tensor_rank, state.pipeline_rank));
  const bool is_distributed =
      state.args.field("use_distributed_optimizer") == megatron::FieldValue(true);
  // One thread: training may continue in the others.
  const SaveTorchDistOptions saving{.distributed_optimizer = is_distributed,
                                    .transfer = {.workers = 1, .progress = {}}};
  const DataParallelPlace place{.rank = state.data_rank, .size = state.data_size};
  const DataParallelPlace of_experts{.rank = state.expert_data_rank,
                                     .size = state.expert_data_size};
  return with_space(write_torch_dist_part(part, place, of_experts, folder, saving), folder, needed);
}

Status write_part(const std::string& folder, const TrainingState& state,
                  const TrainingFileOptions& options) {
  if (options.format == CheckpointFormat::kTorchDist) {
    return write_dist_files(folder, state, options);
  }
  // Of ranks that hold the same parameters the first one writes the file for all, in Megatron of
  // those that hold the same experts.
  return state.expert_data_rank == 0 ? write_rank_file(folder, state, options) : Status();
}

Status complete_folder(const std::string& folder, const TrainingState& state,
                       const TrainingFileOptions& options) {
  if (options.format != CheckpointFormat::kTorchDist) return Status();
  return complete_torch_dist(folder, size_arg(state, "tensor_model_parallel_size") *
                                         size_arg(state, "pipeline_model_parallel_size") *
                                         state.data_size);
}

Status write_checkpoint(const std::string& save_dir, std::span<const TrainingState> ranks,
                        const TrainingFileOptions& options) {
  if (ranks.empty()) return make_error(StatusCode::kInvalidArgument, "no rank to save");
  const int64_t iteration = ranks[0].iteration;
  for (const TrainingState& rank : ranks) {
    if (rank.iteration == iteration) continue;
    return make_error(StatusCode::kInvalidArgument,
                      "ranks to save: expected one iteration, found {} and {}", iteration,
                      rank.iteration);
  }
  const fs::path path = fs::path(save_dir) / iteration_folder_name(iteration);
  MEG_ASSIGN_OR_RETURN(io::AtomicFolder folder, io::AtomicFolder::create(path.string()));
  for (const TrainingState& rank : ranks) {
    MEG_RETURN_IF_ERROR(write_part(folder.staging_path(), rank, options));
  }
  MEG_RETURN_IF_ERROR(complete_folder(folder.staging_path(), ranks[0], options));
  // The folder's content is on the disk and in place before the tracker names it: a tracker never
  // names half a checkpoint.
  MEG_RETURN_IF_ERROR(folder.commit());
  return write_tracker(save_dir, iteration);
}

template <class Body>
Status without_bad_alloc(Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return make_error(StatusCode::kResourceExhausted, "out of memory");
  }
}

}  // namespace

Status write_training_file(const std::string& folder, const TrainingState& state,
                           const TrainingFileOptions& options) {
  return without_bad_alloc([&] { return write_part(folder, state, options); });
}

Status complete_training_folder(const std::string& folder, const TrainingState& state,
                                const TrainingFileOptions& options) {
  return without_bad_alloc([&] { return complete_folder(folder, state, options); });
}

Status write_training_checkpoint(const std::string& save_dir, std::span<const TrainingState> ranks,
                                 const TrainingFileOptions& options) {
  return without_bad_alloc([&] { return write_checkpoint(save_dir, ranks, options); })
      .with_prefix(save_dir + ": cannot save");
}

}  // namespace meg::checkpoint
