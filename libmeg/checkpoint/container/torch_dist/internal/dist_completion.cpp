#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "libmeg/checkpoint/container/torch_dist/internal/dist_folder.h"
#include "libmeg/checkpoint/container/torch_dist/internal/dist_writer.h"
#include "libmeg/io/file_descriptor.h"

// A folder counts as a checkpoint once .metadata is there: torch looks for that file. Hence it is
// written last, and ranks that write side by side describe their items in __R_.metadata of their
// own, which the first rank merges.

namespace meg::checkpoint {
namespace {

constexpr std::string_view kForm =
    R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, )"
    R"("common_backend": "torch", "common_backend_version": 1})";

/// The name that torch uses for the metadata of one rank.
std::string part_path(const std::string& folder, int64_t rank) {
  return in_folder(folder, fmt::format("__{}_{}", rank, kDistMetadataFile));
}

Status write_file(const std::string& path, std::span<const std::byte> bytes) {
  MEG_ASSIGN_OR_RETURN(io::PooledFile file, io::PooledFile::create(path));
  MEG_RETURN_IF_ERROR(file.write_at(0, bytes));
  return file.close();
}

Result<DistMetadata> read_part(const std::string& path) {
  MEG_ASSIGN_OR_RETURN(const io::FileDescriptor file, io::FileDescriptor::open_regular(path));
  MEG_ASSIGN_OR_RETURN(const int64_t size, file.size());
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  MEG_RETURN_IF_ERROR(file.read_exactly_at(0, bytes));
  PickleBudget budget(bytes.size());
  return read_dist_metadata(bytes, path, &budget, DistCoverage::kPart);
}

/// Puts together what several ranks wrote.
class PartMerger {
 public:
  explicit PartMerger(const std::string& folder) : folder_(folder) {}

  Status add(DistMetadata part) {
    const auto first_file = static_cast<int>(items_.files.size());
    for (std::string& file : part.files) items_.files.push_back(std::move(file));
    for (DistObject& object : part.objects) {
      object.blob.file += first_file;
      items_.objects.push_back(std::move(object));
    }
    for (DistTensor& tensor : part.tensors) {
      // Files are numbered for each rank from 0; in the merged list they follow rank by rank.
      for (DistChunk& chunk : tensor.chunks) chunk.blob.file += first_file;
      MEG_RETURN_IF_ERROR(add_tensor(std::move(tensor)));
    }
    return {};
  }

  const DistMetadata& items() const { return items_; }

 private:
  Status add_tensor(DistTensor tensor) {
    const auto [known, is_new] = tensor_of_.emplace(tensor.name, items_.tensors.size());
    if (is_new) {
      items_.tensors.push_back(std::move(tensor));
      return {};
    }
    DistTensor& whole = items_.tensors[known->second];
    if (whole.dtype != tensor.dtype || whole.shape != tensor.shape) {
      return make_error(StatusCode::kInternal, "{}: {}: ranks differ in its type or shape", folder_,
                        tensor.name);
    }
    for (DistChunk& chunk : tensor.chunks) whole.chunks.push_back(std::move(chunk));
    return {};
  }

  const std::string& folder_;
  DistMetadata items_;
  std::map<std::string, size_t> tensor_of_;
};

Status check_items(const std::string& folder, const DistMetadata& items) {
  // Our own ranks made these: what does not fit is a mistake of ours and not damage, hence
  // kInternal.
  std::set<std::string_view> names;
  for (const DistTensor& tensor : items.tensors) {
    const Status checked = check_chunks(tensor);
    if (!checked.ok()) {
      return make_error(StatusCode::kInternal, "{}: {}: {}", folder, tensor.name,
                        checked.message());
    }
    names.insert(tensor.name);
  }
  for (const DistObject& object : items.objects) {
    if (names.insert(object.name).second) continue;
    return make_error(StatusCode::kInternal, "{}: {}: expected once, found twice", folder,
                      object.name);
  }
  return {};
}

}  // namespace

Status write_dist_common(const std::string& folder, const TorchFileContent& common) {
  MEG_ASSIGN_OR_RETURN(TorchFileLayout layout, lay_out(common, "common"));
  MEG_ASSIGN_OR_RETURN(
      TorchFileWriter file,
      TorchFileWriter::create(in_folder(folder, kDistCommonFile), common, std::move(layout)));
  return file.finish();
}

Status complete_dist_folder(const std::string& folder, const DistMetadata& items) {
  MEG_RETURN_IF_ERROR(check_items(folder, items));
  MEG_RETURN_IF_ERROR(
      write_file(in_folder(folder, kDistFormFile), std::as_bytes(std::span(kForm))));
  MEG_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, write_dist_metadata(items));
  return write_file(in_folder(folder, kDistMetadataFile), bytes);
}

Status write_dist_part(const std::string& folder, int64_t rank, const DistMetadata& items) {
  MEG_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, write_dist_metadata(items));
  return write_file(part_path(folder, rank), bytes);
}

Status complete_dist_folder(const std::string& folder, int64_t ranks) {
  PartMerger merger(folder);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    MEG_ASSIGN_OR_RETURN(DistMetadata part, read_part(part_path(folder, rank)));
    MEG_RETURN_IF_ERROR(merger.add(std::move(part)));
  }
  MEG_RETURN_IF_ERROR(complete_dist_folder(folder, merger.items()));
  // Remove them after .metadata is there: until then they are all that describes the items.
  for (int64_t rank = 0; rank < ranks; ++rank) {
    std::error_code error;
    std::filesystem::remove(part_path(folder, rank), error);
    if (error) return errno_error(error.value(), "cannot remove " + part_path(folder, rank));
  }
  return {};
}

}  // namespace meg::checkpoint
