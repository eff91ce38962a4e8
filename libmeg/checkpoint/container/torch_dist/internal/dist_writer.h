#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/container/torch_dist/internal/dist_metadata.h"
#include "libmeg/checkpoint/container/torch_file/torch_archive_writer.h"
#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"
#include "libmeg/checkpoint/state/tensor_sink.h"
#include "libmeg/io/pooled_file.h"

namespace meg::checkpoint {

/// Writes the items of a folder of torch.distributed.checkpoint, or of one of the ranks that fill
/// it together; chunks may be filled by several threads. The caller moves the folder to its final
/// name.
class DistFolderWriter {
 public:
  /// folder: must exist. rank: the R in the names of its files, `__R_S.distcp`.
  explicit DistFolderWriter(std::string folder, int64_t rank = 0)
      : folder_(std::move(folder)), rank_(rank) {}

  /// Makes room for a box of the tensor of this name; its elements go in row-major order to the
  /// sink, which is filled before finish(). shape: of the tensor, the same for all of its boxes.
  Result<std::unique_ptr<TensorSink>> add_chunk(const std::string& name, DType dtype,
                                                const std::vector<int64_t>& shape,
                                                const std::vector<int64_t>& offsets,
                                                const std::vector<int64_t>& sizes);

  /// Adds any value; its storages must be literal.
  Status add_object(const std::string& name, const TorchFileContent& value);

  /// Completes the chunks and returns what was written; kInternal if a chunk was not filled.
  Result<DistMetadata> finish();

  /// Bytes of all items.
  uint64_t bytes() const { return bytes_; }

 private:
  /// The place of the next blob: the end of the shortest file.
  Result<DistBlob> begin_blob(uint64_t length);

  const io::PooledFile& file_of(const DistBlob& blob) const {
    return files_[static_cast<size_t>(blob.file)];
  }

  std::string folder_;
  int64_t rank_;
  DistMetadata metadata_;
  std::map<std::string, size_t> tensor_of_;
  // Deques, because sinks and archives hold pointers to their elements.
  std::deque<io::PooledFile> files_;
  std::deque<TorchArchiveWriter> chunks_;
  std::vector<uint64_t> ends_;  // of the files
  uint64_t bytes_ = 0;
};

/// Writes common.pt: the state that all ranks have in common.
Status write_dist_common(const std::string& folder, const TorchFileContent& common);

/// Writes metadata.json and, last, `.metadata` of all items. kInternal if the chunks of a tensor do
/// not cover it, or if two items have the same name.
Status complete_dist_folder(const std::string& folder, const DistMetadata& items);

/// Writes `__R_.metadata`: what one of several ranks wrote, for complete_dist_folder() to read.
Status write_dist_part(const std::string& folder, int64_t rank, const DistMetadata& items);

/// The same for the items that ranks 0 to `ranks` - 1 described; removes their descriptions.
Status complete_dist_folder(const std::string& folder, int64_t ranks);

}  // namespace meg::checkpoint
