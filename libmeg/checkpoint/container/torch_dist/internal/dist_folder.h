#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/checkpoint/container/torch_dist/internal/dist_metadata.h"
#include "libmeg/checkpoint/container/torch_file/internal/torch_file_parts.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/state/piece.h"

namespace meg::checkpoint {

/// Files beside `.metadata`: the form of the folder, and the state that all ranks have in common.
inline constexpr std::string_view kDistFormFile = "metadata.json";
inline constexpr std::string_view kDistCommonFile = "common.pt";

/// The path of a file in a folder.
std::string in_folder(const std::string& folder, std::string_view name);

/// Whether the bytes of `.metadata` contain a text, as they do if a name contains it. A hundred
/// times as fast as parsing them.
bool metadata_mentions(const std::string& folder, std::string_view text);

/// Reads `.metadata` of a folder; errors as for read_dist_metadata().
Result<DistMetadata> read_folder_metadata(const std::string& folder);

/// A folder of torch.distributed.checkpoint as its FileSystemWriter and Megatron-LM's torch_dist
/// write it, opened by `.metadata` alone. It knows bytes and values, but not what they mean to a
/// model. Const functions may be called by several threads at once.
class DistFolder {
 public:
  /// Changes that a dialect makes to the items before their places are checked: other names,
  /// tensors that are put together.
  using Rename = std::function<Result<DistMetadata>(DistMetadata)>;

  /// rename: empty to take the items as they are named.
  /// kNotFound: a file is missing (the error names an item in it); kCorruption: one is truncated,
  /// or `.metadata` contradicts itself; kUnsupported: metadata.json names another form (zarr).
  static Result<DistFolder> open(const std::string& path, const Rename& rename = {});

  const std::string& path() const { return path_; }

  const DistMetadata& metadata() const { return metadata_; }

  /// The item files, in the order of DistMetadata::files.
  const std::vector<std::shared_ptr<const io::PooledFile>>& files() const { return files_; }

  /// Bytes of all files.
  uint64_t bytes() const { return bytes_; }

  /// common.pt; nullptr where the folder has none.
  const std::shared_ptr<const TorchFile>& common() const { return common_; }

  /// The value that torch.save wrote to a blob. name: the item's, for errors. Offsets of storages
  /// count from the first byte of the blob's file.
  Result<TorchFileParts> read_value(const DistBlob& blob, const std::string& name) const;

  /// A tensor among what read_value() gave for an object.
  std::shared_ptr<const TensorSource> view_source(const TorchFileParts& parts,
                                                  const TensorView& view,
                                                  const DistObject& object) const {
    return source_of(parts, view, object.blob, object.name);
  }

  /// The elements of a chunk in row-major order. kCorruption unless its blob holds a tensor of the
  /// chunk's sizes and the tensor's dtype.
  Result<std::shared_ptr<const TensorSource>> chunk_source(const DistTensor& tensor,
                                                           const DistChunk& chunk) const;

  /// The chunks that overlap a box of a tensor, placed in the tensor's dimensions.
  Result<std::vector<Piece>> pieces(const DistTensor& tensor, const Box& box) const;

  /// The elements of a box of a tensor in row-major order, put together from the chunks that
  /// overlap it. box: must lie inside the tensor.
  Result<std::shared_ptr<const TensorSource>> box_source(const DistTensor& tensor,
                                                         const Box& box) const;

 private:
  std::shared_ptr<const TensorSource> source_of(const TorchFileParts& parts, const TensorView& view,
                                                const DistBlob& blob,
                                                const std::string& name) const;
  Status open_files();
  Status check_blob(const DistBlob& blob, const std::string& name,
                    const std::vector<uint64_t>& sizes) const;

  std::string path_;
  DistMetadata metadata_;
  std::vector<std::shared_ptr<const io::PooledFile>> files_;
  std::shared_ptr<const TorchFile> common_;
  uint64_t bytes_ = 0;
  std::unique_ptr<PickleBudget> budget_;
};

}  // namespace meg::checkpoint
