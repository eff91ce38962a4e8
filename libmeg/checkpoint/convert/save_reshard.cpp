#include <filesystem>

#include "libmeg/base/stopwatch.h"
#include "libmeg/checkpoint/convert/reshard.h"
#include "libmeg/checkpoint/dialects/huggingface/tokenizer_files.h"
#include "libmeg/checkpoint/dialects/mp_rank/internal/folder_entries.h"
#include "libmeg/io/atomic_folder.h"

namespace meg::checkpoint {
namespace {

namespace fs = std::filesystem;

/// The path without links, as far as it exists.
fs::path resolved(const std::string& path) {
  std::error_code error;
  // Follows links as far as the path exists, because a link may lead into the source.
  fs::path found = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) found = fs::absolute(path, error);
  return found.has_filename() ? found : found.parent_path();
}

/// Whether `inner` is `outer` or lies in it.
bool is_inside(const fs::path& inner, const fs::path& outer) {
  const fs::path relative = inner.lexically_relative(outer);
  return !relative.empty() && *relative.begin() != "..";
}

// equivalent() also finds mounts and hard links that paths do not show.
bool is_same_folder(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return resolved(a) == resolved(b) || fs::equivalent(a, b, ignored);
}

/// What the target's folder and tracker say; nullopt: release.
std::optional<int64_t> saved_iteration(const MegatronCheckpoint& checkpoint) {
  const CheckpointFolder& folder = checkpoint.folder();
  if (folder.is_release) return std::nullopt;
  return folder.iteration.has_value() ? folder.iteration : checkpoint.iteration();
}

}  // namespace

std::string reshard_folder_name(const MegatronCheckpoint& checkpoint) {
  const std::optional<int64_t> iteration = saved_iteration(checkpoint);
  return iteration.has_value() ? iteration_folder_name(*iteration) : "release";
}

/// Refuses a target in the source or in its root, and one around it: committing replaces the whole
/// folder.
Status check_apart(const CheckpointFolder& source, const std::string& target,
                   const std::string& save_dir) {
  const fs::path written = resolved(target), read = resolved(source.folder);
  const std::string& outer = source.root.empty() ? source.folder : source.root;
  if (!is_inside(written, resolved(outer)) && !is_inside(read, written)) return Status();
  return make_error(StatusCode::kInvalidArgument,
                    "{}: expected a save-dir outside the checkpoint that is read, found {}",
                    save_dir, outer);
}

Status check_save_dir(const MegatronCheckpoint& checkpoint, const std::string& save_dir) {
  const CheckpointFolder& source = checkpoint.folder();
  const bool same_root = !source.root.empty() && is_same_folder(source.root, save_dir);
  return check_apart(
      source, same_root ? source.folder : join_path(save_dir, reshard_folder_name(checkpoint)),
      save_dir);
}

Status save_reshard(const MegatronCheckpoint& checkpoint, const ReshardPlan& plan,
                    const std::string& save_dir, const TransferOptions& options, SaveTimes* times) {
  MEG_RETURN_IF_ERROR(check_save_dir(checkpoint, save_dir));
  const Stopwatch copy;
  MEG_ASSIGN_OR_RETURN(
      io::AtomicFolder folder,
      io::AtomicFolder::create((fs::path(save_dir) / reshard_folder_name(checkpoint)).string()));
  MEG_RETURN_IF_ERROR(execute_transfers(plan.transfers, folder.staging_path(), options));
  MEG_RETURN_IF_ERROR(copy_tokenizer_files(checkpoint.folder(),
                                           join_path(folder.staging_path(), kTokenizerFolder)));
  const double copy_seconds = copy.seconds();
  const Stopwatch flush;
  MEG_RETURN_IF_ERROR(folder.commit());
  // Written last: if the process is killed earlier, the tracker still names the previous
  // checkpoint, and the new folder is not referred to.
  MEG_RETURN_IF_ERROR(write_tracker(save_dir, saved_iteration(checkpoint)));
  if (times != nullptr) {
    times->copy_seconds = copy_seconds;
    times->flush_seconds = flush.seconds();
  }
  return Status();
}

}  // namespace meg::checkpoint
