#include "libmeg/checkpoint/container/torch_dist/internal/dist_writer.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "libmeg/checkpoint/container/torch_dist/internal/dist_folder.h"
#include "libmeg/checkpoint/container/torch_file/torch_archive_writer.h"
#include "libmeg/checkpoint/state/assembled_source.h"
#include "libmeg/io/crc32.h"

namespace meg::checkpoint {
namespace {

/// What torch calls the archive of an item.
constexpr const char* kArchiveName = "archive";
/// A file that has grown beyond this is followed by another one.
constexpr uint64_t kFileBytes = uint64_t{4} << 30;
constexpr int64_t kCopyBytes = int64_t{4} << 20;
constexpr std::string_view kForm =
    R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, )"
    R"("common_backend": "torch", "common_backend_version": 1})";

Result<io::PooledFile> create_file(const std::string& folder, std::string_view name) {
  return io::PooledFile::create((std::filesystem::path(folder) / name).string());
}

Status write_file(const std::string& folder, std::string_view name,
                  std::span<const std::byte> bytes) {
  MEG_ASSIGN_OR_RETURN(io::PooledFile file, create_file(folder, name));
  MEG_RETURN_IF_ERROR(file.write_at(0, bytes));
  return file.close();
}

/// Whether a record is of just the bytes that a source reads from first to last.
bool is_of_all(const std::vector<RecordedCrc>& recorded, const TensorSource& source) {
  return recorded.size() == 1 && source.file_extent() == recorded[0].extent;
}

}  // namespace

Result<DistBlob> DistFolderWriter::begin_blob(uint64_t length) {
  if (!file_.has_value() || end_ > kFileBytes) {
    if (file_.has_value()) MEG_RETURN_IF_ERROR(file_->close());
    metadata_.files.push_back(fmt::format("__0_{}.distcp", metadata_.files.size()));
    MEG_ASSIGN_OR_RETURN(io::PooledFile file, create_file(folder_, metadata_.files.back()));
    file_ = std::move(file);
    end_ = 0;
  }
  const DistBlob blob{static_cast<int>(metadata_.files.size()) - 1, end_, length};
  end_ += length;
  bytes_ += length;
  return blob;
}

/// Copies all elements to byte `offset` of the file; holes stay holes. Returns their CRC-32.
Result<uint32_t> DistFolderWriter::copy(const TensorSource& source, uint64_t offset) {
  const std::vector<RecordedCrc> recorded = source.recorded_crcs();
  const bool in_passing = is_of_all(recorded, source);
  if (check_crcs_ && !in_passing) MEG_RETURN_IF_ERROR(check_recorded_crcs(source));
  const int64_t item = dtype_size(source.dtype());
  std::vector<std::byte> chunk;
  uint32_t crc = 0;
  for (int64_t first = 0; first < source.elements();) {
    const int64_t count = std::min(kCopyBytes / item, source.elements() - first);
    chunk.resize(static_cast<size_t>(count * item));
    if (source.is_hole(first, count)) {
      crc = io::crc32_combine(crc, io::crc32_of_zeros(chunk.size()), chunk.size());
    } else {
      MEG_RETURN_IF_ERROR(source.read(first, chunk));
      MEG_RETURN_IF_ERROR(file_->write_at(static_cast<int64_t>(offset) + first * item, chunk));
      crc = io::crc32(chunk, crc);
    }
    first += count;
  }
  if (!check_crcs_ || !in_passing || crc == recorded[0].crc) return crc;
  return make_error(StatusCode::kCorruption, "{}: {}: CRC-32: expected {:08x}, found {:08x}",
                    recorded[0].extent.file->path(), recorded[0].name, recorded[0].crc, crc);
}

Status DistFolderWriter::add_chunk(const std::string& name, const std::vector<int64_t>& shape,
                                   const std::vector<int64_t>& offsets,
                                   const std::vector<int64_t>& sizes, const TensorSource& source) {
  TorchFileContent content;
  const int storage = content.add_storage(source.dtype(), static_cast<uint64_t>(source.bytes()));
  content.root = content.add_tensor(storage, sizes);
  MEG_ASSIGN_OR_RETURN(TorchFileLayout layout, lay_out(content, kArchiveName));
  MEG_ASSIGN_OR_RETURN(const DistBlob blob, begin_blob(layout.file_size));
  const uint64_t data = blob.offset + layout.storage_offsets[0];
  MEG_ASSIGN_OR_RETURN(TorchArchiveWriter archive,
                       TorchArchiveWriter::create(*file_, blob.offset, content, std::move(layout)));
  MEG_ASSIGN_OR_RETURN(const uint32_t crc, copy(source, data));
  archive.set_crc(0, crc);
  MEG_RETURN_IF_ERROR(archive.finish());
  const auto [place, is_new] = tensor_of_.emplace(name, metadata_.tensors.size());
  if (is_new) metadata_.tensors.push_back({name, source.dtype(), shape, {}});
  metadata_.tensors[place->second].chunks.push_back({offsets, sizes, blob});
  return {};
}

Status DistFolderWriter::add_object(const std::string& name, const TorchFileContent& value) {
  MEG_ASSIGN_OR_RETURN(TorchFileLayout layout, lay_out(value, kArchiveName));
  MEG_ASSIGN_OR_RETURN(const DistBlob blob, begin_blob(layout.file_size));
  MEG_ASSIGN_OR_RETURN(TorchArchiveWriter archive,
                       TorchArchiveWriter::create(*file_, blob.offset, value, std::move(layout)));
  MEG_RETURN_IF_ERROR(archive.finish());
  metadata_.objects.push_back({name, blob});
  return {};
}

Status DistFolderWriter::finish(const TorchFileContent& common) {
  if (file_.has_value()) MEG_RETURN_IF_ERROR(file_->close());
  for (const DistTensor& tensor : metadata_.tensors) {
    const Status checked = check_chunks(tensor);
    if (checked.ok()) continue;
    return make_error(StatusCode::kInternal, "{}: {}: {}", folder_, tensor.name, checked.message());
  }
  MEG_ASSIGN_OR_RETURN(TorchFileLayout layout, lay_out(common, "common"));
  MEG_ASSIGN_OR_RETURN(
      TorchFileWriter file,
      TorchFileWriter::create((std::filesystem::path(folder_) / kDistCommonFile).string(), common,
                              std::move(layout)));
  MEG_RETURN_IF_ERROR(file.finish());
  MEG_RETURN_IF_ERROR(write_file(folder_, kDistFormFile, std::as_bytes(std::span(kForm))));
  MEG_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, write_dist_metadata(metadata_));
  return write_file(folder_, kDistMetadataFile, bytes);
}

}  // namespace meg::checkpoint
