#include "libmeg/checkpoint/container/torch_dist/internal/dist_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "libmeg/checkpoint/container/torch_dist/internal/dist_folder.h"
#include "libmeg/checkpoint/container/torch_file/internal/storage_sink.h"
#include "libmeg/checkpoint/state/piece.h"

// Items are written one after another into .distcp files, each as its own archive of torch.save, as
// torch's FileSystemWriter does. Their lengths are known first (lay_out), so that space is assigned
// at once and filled later by several threads.

namespace meg::checkpoint {
namespace {

/// What torch calls the archive of an item.
constexpr const char* kArchiveName = "archive";
/// Files that grow side by side, as many as Megatron's writer has, because the system lets one
/// thread at a time write to a file; when all are beyond kFileBytes as many others follow.
constexpr size_t kFilesAtOnce = 2;
constexpr uint64_t kFileBytes = uint64_t{4} << 30;

Result<io::PooledFile> create_file(const std::string& folder, std::string_view name) {
  return io::PooledFile::create((std::filesystem::path(folder) / name).string());
}

}  // namespace

Result<DistBlob> DistFolderWriter::begin_blob(uint64_t length) {
  // The shortest file takes the next item, so that all grow alike.
  auto shortest = std::min_element(ends_.begin(), ends_.end());
  // Files are made in sets of kFilesAtOnce: an incomplete set is completed before any item is
  // placed beside others.
  if (ends_.size() % kFilesAtOnce != 0 || shortest == ends_.end() || *shortest > kFileBytes) {
    metadata_.files.push_back(fmt::format("__{}_{}.distcp", rank_, metadata_.files.size()));
    MEG_ASSIGN_OR_RETURN(io::PooledFile file, create_file(folder_, metadata_.files.back()));
    files_.push_back(std::move(file));
    shortest = ends_.insert(ends_.end(), 0);
  }
  const DistBlob blob{static_cast<int>(shortest - ends_.begin()), *shortest, length};
  *shortest += length;
  bytes_ += length;
  return blob;
}

// The elements come later, through the sink; the archive around them is written when they are
// there.
Result<std::unique_ptr<TensorSink>> DistFolderWriter::add_chunk(const std::string& name,
                                                                DType dtype,
                                                                const std::vector<int64_t>& shape,
                                                                const std::vector<int64_t>& offsets,
                                                                const std::vector<int64_t>& sizes) {
  TorchFileContent content;
  const Box box{offsets, sizes};
  const auto bytes = static_cast<uint64_t>(box.elements() * dtype_size(dtype));
  content.root = content.add_tensor(content.add_storage(dtype, bytes), sizes);
  MEG_ASSIGN_OR_RETURN(TorchFileLayout layout, lay_out(content, kArchiveName));
  MEG_ASSIGN_OR_RETURN(const DistBlob blob, begin_blob(layout.file_size));
  MEG_ASSIGN_OR_RETURN(
      TorchArchiveWriter archive,
      TorchArchiveWriter::create(file_of(blob), blob.offset, content, std::move(layout)));
  const auto [place, is_new] = tensor_of_.emplace(name, metadata_.tensors.size());
  if (is_new) metadata_.tensors.push_back({name, dtype, shape, {}});
  metadata_.tensors[place->second].chunks.push_back({offsets, sizes, blob});
  chunks_.push_back(std::move(archive));
  return std::unique_ptr<TensorSink>(
      std::make_unique<StorageSink<TorchArchiveWriter>>(&chunks_.back(), 0, bytes));
}

Status DistFolderWriter::add_object(const std::string& name, const TorchFileContent& value) {
  MEG_ASSIGN_OR_RETURN(TorchFileLayout layout, lay_out(value, kArchiveName));
  MEG_ASSIGN_OR_RETURN(const DistBlob blob, begin_blob(layout.file_size));
  MEG_ASSIGN_OR_RETURN(
      TorchArchiveWriter archive,
      TorchArchiveWriter::create(file_of(blob), blob.offset, value, std::move(layout)));
  MEG_RETURN_IF_ERROR(archive.finish());
  metadata_.objects.push_back({name, blob});
  return {};
}

Result<DistMetadata> DistFolderWriter::finish() {
  for (TorchArchiveWriter& chunk : chunks_) MEG_RETURN_IF_ERROR(chunk.finish());
  for (io::PooledFile& file : files_) MEG_RETURN_IF_ERROR(file.close());
  return std::move(metadata_);
}

}  // namespace meg::checkpoint
