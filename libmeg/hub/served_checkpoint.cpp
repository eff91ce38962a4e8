#include "libmeg/hub/served_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "libmeg/checkpoint/dialects/huggingface/tokenizer_files.h"
#include "libmeg/checkpoint/state/assembled_source.h"
#include "libmeg/hub/repositories.h"
#include "libmeg/io/digest.h"

namespace meg::hub {
namespace {

std::string digest_of(std::string_view text) {
  io::Digest digest;
  digest.add(std::as_bytes(std::span(text)));
  return digest.hex();
}

/// Small files are known by their bytes.
Result<std::string> digest_of(const checkpoint::VirtualFile& file) {
  io::Digest digest;
  std::vector<std::byte> piece;
  for (uint64_t at = 0; at < file.size(); at += piece.size()) {
    piece.resize(std::min<uint64_t>(uint64_t{1} << 20, file.size() - at));
    MEG_RETURN_IF_ERROR(file.read(at, piece));
    digest.add(piece);
  }
  return digest.hex();
}

/// A file that is copied could be any of the machine's if it were replaced by a link since the
/// folder was looked at: the descriptor that is read tells where it is.
Status check_place(const ServingRules& rules, const checkpoint::VirtualFile& file) {
  for (const checkpoint::VirtualFile::Part& part : file.parts()) {
    if (part.source->file() == nullptr) continue;
    MEG_ASSIGN_OR_RETURN(const auto open, part.source->file()->pin());
    if (is_in_root(rules.root, fmt::format("/proc/self/fd/{}", open->get()))) continue;
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected a file in the served folder, found one outside of it",
                      open->path());
  }
  return Status();
}

}  // namespace

Result<std::shared_ptr<const ServedCheckpoint>> ServedCheckpoint::open(const ServingRules& rules,
                                                                       const std::string& folder,
                                                                       const FolderState& state) {
  MEG_ASSIGN_OR_RETURN(const checkpoint::CheckpointFolder found,
                       checkpoint::find_checkpoint(folder));
  checkpoint::OpenCheckpointOptions reading;
  reading.ignore_optimizer = true;
  MEG_ASSIGN_OR_RETURN(const auto model, checkpoint::MegatronCheckpoint::open(found, reading));
  checkpoint::ExportOptions options;
  options.max_shard_bytes = rules.max_shard_bytes;
  // Tables of Hugging Face have no padding rows.
  if (found.format == checkpoint::CheckpointFormat::kHuggingFace) {
    options.true_vocab_size = model.config().padded_vocab_size;
  }
  if (rules.tokenizer) options.tokenizer = rules.tokenizer(model);
  MEG_ASSIGN_OR_RETURN(const checkpoint::ExportPlan plan, checkpoint::plan_export(model, options));
  MEG_ASSIGN_OR_RETURN(std::vector<checkpoint::VirtualFile> files, checkpoint::virtual_files(plan));
  std::shared_ptr<ServedCheckpoint> served(new ServedCheckpoint(state));
  served->notes_ = plan.notes;
  served->class_name_ = plan.class_name;
  served->checks_crcs_ = rules.check_crcs;
  for (size_t i = 0; i < files.size(); ++i) {
    ServedFile file{std::move(files[i]), "", i < plan.files.size()};
    if (file.is_weights) {
      // To read all of them only for a name would take as long as sending them.
      file.etag = digest_of(
          fmt::format("{}\n{}\n{}", state.digest, file.file.name(), plan.files[i].layout.head));
    } else {
      MEG_RETURN_IF_ERROR(check_place(rules, file.file));
      MEG_ASSIGN_OR_RETURN(file.etag, digest_of(file.file));
    }
    served->files_.push_back(std::move(file));
  }
  std::ranges::sort(served->files_, {}, [](const ServedFile& one) { return one.file.name(); });
  MEG_ASSIGN_OR_RETURN(const FolderState now, folder_state(rules.root, folder));
  if (now.digest != state.digest) {
    return make_error(StatusCode::kIoError, "{}: changed while it was opened", folder);
  }
  return std::shared_ptr<const ServedCheckpoint>(std::move(served));
}

const ServedFile* ServedCheckpoint::find(std::string_view name) const {
  const auto found =
      std::ranges::find_if(files_, [&](const ServedFile& one) { return one.file.name() == name; });
  return found == files_.end() ? nullptr : &*found;
}

Status ServedCheckpoint::read(const ServedFile& file, uint64_t offset,
                              std::span<std::byte> into) const {
  if (file.is_weights && checks_crcs_) {
    for (const auto& part : file.file.parts_of(offset, into.size())) {
      MEG_RETURN_IF_ERROR(check_crcs(*part.source));
    }
  }
  return file.file.read(offset, into);
}

/// One thread checks, and the others that want the same wait for it.
Status ServedCheckpoint::check_crcs(const checkpoint::TensorSource& source) const {
  const auto is_checked = [&] {
    const std::lock_guard lock(mutex_);
    return checked_.contains(&source);
  };
  if (is_checked()) return Status();
  const std::lock_guard checking(checking_);
  MEG_RETURN_IF_ERROR(wrong_);
  if (is_checked()) return Status();
  for (const checkpoint::RecordedCrc& recorded : source.recorded_crcs()) {
    if (std::ranges::find(right_, recorded.extent) != right_.end()) continue;
    const Status status = checkpoint::check_recorded_crc(recorded);
    // A file that cannot be read is no proof of damage: the next client may have more luck.
    if (status.code() == StatusCode::kCorruption) wrong_ = status;
    MEG_RETURN_IF_ERROR(status);
    right_.push_back(recorded.extent);
  }
  const std::lock_guard lock(mutex_);
  checked_.insert(&source);
  return Status();
}

}  // namespace meg::hub
