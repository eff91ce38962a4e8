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

/// Writes a folder of torch.distributed.checkpoint whose chunks may be filled by several threads.
/// The caller cares for its final name.
class DistFolderWriter {
 public:
  /// folder: exists and is empty.
  explicit DistFolderWriter(std::string folder) : folder_(std::move(folder)) {}

  /// Makes room for a box of the tensor of this name; its elements go in row-major order to the
  /// sink, which is filled before finish(). shape: of the tensor, the same for all of its boxes.
  Result<std::unique_ptr<TensorSink>> add_chunk(const std::string& name, DType dtype,
                                                const std::vector<int64_t>& shape,
                                                const std::vector<int64_t>& offsets,
                                                const std::vector<int64_t>& sizes);

  /// Any value; its storages are literal.
  Status add_object(const std::string& name, const TorchFileContent& value);

  /// Completes the chunks; common.pt, metadata.json and, last, .metadata. kInternal where the
  /// chunks of a tensor are not all of it or one was not filled.
  Status finish(const TorchFileContent& common);

  /// Bytes of all items.
  uint64_t bytes() const { return bytes_; }

 private:
  /// Where the next blob goes: a new file once the last has grown large.
  Result<DistBlob> begin_blob(uint64_t length);

  std::string folder_;
  DistMetadata metadata_;
  std::map<std::string, size_t> tensor_of_;
  // Both stay where they are: sinks and archives point to them.
  std::deque<io::PooledFile> files_;
  std::deque<TorchArchiveWriter> chunks_;
  uint64_t end_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace meg::checkpoint
