#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "libmeg/checkpoint/convert/export_huggingface.h"
#include "libmeg/checkpoint/convert/virtual_file.h"
#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"
#include "libmeg/hub/folder_state.h"

namespace meg::hub {

/// How checkpoints are opened.
struct ServingRules {
  /// The folder that nothing may leave, without links.
  std::string root;
  /// What a model has of its checkpoint's tokenizer, with files of the checkpoint's folder alone;
  /// may be empty: then these are as they are.
  std::function<checkpoint::ExportTokenizer(const checkpoint::MegatronCheckpoint&)> tokenizer;
  /// Whether storages must have the CRC-32 that their files record, before the first byte of them
  /// is sent.
  bool check_crcs = true;
  uint64_t max_shard_bytes = checkpoint::ExportOptions().max_shard_bytes;
};

/// A file that is served.
struct ServedFile {
  checkpoint::VirtualFile file;
  std::string etag;  ///< Another one whenever the bytes could be others.
  bool is_weights = false;
};

/// A checkpoint that is open, as the Hugging Face folder that an export would make of it. const
/// functions may be called by several threads at once.
class ServedCheckpoint {
 public:
  /// folder: the path of a checkpoint; state: that of it. Errors: those of opening and exporting
  /// it; kIoError where the folder's state is another one by now.
  static Result<std::shared_ptr<const ServedCheckpoint>> open(const ServingRules& rules,
                                                              const std::string& folder,
                                                              const FolderState& state);

  const FolderState& state() const { return state_; }

  /// By ascending name.
  std::span<const ServedFile> files() const { return files_; }

  /// nullptr without one.
  const ServedFile* find(std::string_view name) const;

  const std::vector<std::string>& notes() const { return notes_; }

  const std::string& class_name() const { return class_name_; }

  /// Reads bytes of one of files(). kCorruption if a storage that has some of them has another CRC
  /// than its file records; each is read once for that.
  Status read(const ServedFile& file, uint64_t offset, std::span<std::byte> into) const;

 private:
  explicit ServedCheckpoint(FolderState state) : state_(std::move(state)) {}

  Status check_crcs(const checkpoint::TensorSource& source) const;

  FolderState state_;
  std::vector<ServedFile> files_;
  std::vector<std::string> notes_;
  std::string class_name_;
  bool checks_crcs_ = true;
  mutable std::mutex mutex_;
  /// Those whose CRCs are known to be right; guarded by mutex_.
  mutable std::unordered_set<const checkpoint::TensorSource*> checked_;
  mutable std::mutex checking_;  ///< Held by the thread that checks CRCs.
  /// Guarded by checking_: files and offsets of storages, as several tensors may be in one.
  mutable std::vector<checkpoint::FileExtent> right_;
  mutable Status wrong_;
};

}  // namespace meg::hub
