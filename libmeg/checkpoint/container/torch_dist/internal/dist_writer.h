#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libmeg/checkpoint/container/torch_dist/internal/dist_metadata.h"
#include "libmeg/checkpoint/container/torch_file/torch_file_writer.h"
#include "libmeg/checkpoint/state/tensor_source.h"
#include "libmeg/io/pooled_file.h"

namespace meg::checkpoint {

/// Writes a folder of torch.distributed.checkpoint item after item, in bounded memory. The caller
/// cares for its final name.
class DistFolderWriter {
 public:
  /// folder: exists and is empty. check_crcs: compares what is read with the CRC-32s recorded of
  /// it.
  DistFolderWriter(std::string folder, bool check_crcs)
      : folder_(std::move(folder)), check_crcs_(check_crcs) {}

  /// A box of the tensor of this name: the elements of `source` in row-major order. shape: of the
  /// tensor, the same for all of its boxes.
  Status add_chunk(const std::string& name, const std::vector<int64_t>& shape,
                   const std::vector<int64_t>& offsets, const std::vector<int64_t>& sizes,
                   const TensorSource& source);

  /// Any value; its storages are literal.
  Status add_object(const std::string& name, const TorchFileContent& value);

  /// common.pt, metadata.json and, last, .metadata. kInternal where the chunks of a tensor are not
  /// all of it.
  Status finish(const TorchFileContent& common);

  /// Bytes written so far.
  uint64_t bytes() const { return bytes_; }

 private:
  /// Where the next blob goes: a new file once the last has grown large.
  Result<DistBlob> begin_blob(uint64_t length);
  Result<uint32_t> copy(const TensorSource& source, uint64_t offset);

  std::string folder_;
  bool check_crcs_;
  DistMetadata metadata_;
  std::map<std::string, size_t> tensor_of_;
  std::optional<io::PooledFile> file_;
  uint64_t end_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace meg::checkpoint
