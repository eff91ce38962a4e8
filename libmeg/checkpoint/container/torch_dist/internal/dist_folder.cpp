#include "libmeg/checkpoint/container/torch_dist/internal/dist_folder.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "libmeg/checkpoint/container/torch_file/internal/torch_elements.h"
#include "libmeg/checkpoint/state/assembled_source.h"
#include "libmeg/io/mapped_file.h"
#include "libmeg/text/printable.h"

namespace meg::checkpoint {
namespace {

// metadata.json is a line of text. The parser takes no memory for more.
constexpr uint64_t kMaxFormBytes = uint64_t{1} << 20;

Result<std::vector<std::byte>> read_small_file(const std::string& path, uint64_t max_bytes) {
  MEG_ASSIGN_OR_RETURN(const io::FileDescriptor file, io::FileDescriptor::open_regular(path));
  MEG_ASSIGN_OR_RETURN(const int64_t size, file.size());
  if (static_cast<uint64_t>(size) > max_bytes) {
    return make_error(StatusCode::kResourceExhausted, "{}: expected at most {} bytes, found {}",
                      path, max_bytes, size);
  }
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  MEG_RETURN_IF_ERROR(file.read_exactly_at(0, bytes));
  return bytes;
}

/// The elements of a chunk that are stored in another order or form than they are read.
class ViewSource final : public TensorSource {
 public:
  ViewSource(std::shared_ptr<const io::PooledFile> file, TorchStorage storage, TensorView view,
             bool is_byte_swapped, std::optional<RecordedCrc> crc)
      : TensorSource(view.dtype, view.numel()),
        file_(std::move(file)),
        storage_(std::move(storage)),
        view_(std::move(view)),
        is_byte_swapped_(is_byte_swapped),
        crc_(std::move(crc)) {}

  Status read(int64_t first, std::span<std::byte> into) const override {
    MEG_ASSIGN_OR_RETURN(const auto open, file_->pin());
    MEG_RETURN_IF_ERROR(gather_elements(*open, storage_, view_, first, into));
    if (is_byte_swapped_) swap_bytes(dtype(), into);
    return {};
  }

  std::vector<RecordedCrc> recorded_crcs() const override {
    return crc_.has_value() ? std::vector{*crc_} : std::vector<RecordedCrc>();
  }

 private:
  std::shared_ptr<const io::PooledFile> file_;
  TorchStorage storage_;
  TensorView view_;
  bool is_byte_swapped_;
  std::optional<RecordedCrc> crc_;
};

/// Folders of torch alone have no such file.
Status check_form(const std::string& folder) {
  const std::string path = in_folder(folder, kDistFormFile);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  MEG_ASSIGN_OR_RETURN(const io::MappedFile file, io::MappedFile::open(path));
  const std::string_view text = file.text();
  simdjson::dom::parser parser(kMaxFormBytes);
  simdjson::dom::element document;
  std::string_view backend;
  if (parser.parse(text.data(), text.size()).get(document) != simdjson::SUCCESS ||
      document["sharded_backend"].get(backend) != simdjson::SUCCESS) {
    return make_error(StatusCode::kCorruption,
                      "{}: expected a JSON object with a text sharded_backend", path);
  }
  if (backend == "torch_dist") return {};
  return make_error(StatusCode::kUnsupported, "{}: sharded_backend: expected torch_dist, found {}",
                    path, text::printable(backend, 200));
}

}  // namespace

std::string in_folder(const std::string& folder, std::string_view name) {
  return (std::filesystem::path(folder) / name).string();
}

bool metadata_mentions(const std::string& folder, std::string_view text) {
  const auto bytes = read_small_file(in_folder(folder, kDistMetadataFile), kMaxPickleBytes);
  if (!bytes.has_value()) return false;
  const std::string_view content(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  return content.find(text) != content.npos;
}

Result<DistMetadata> read_folder_metadata(const std::string& folder) {
  const std::string name = in_folder(folder, kDistMetadataFile);
  MEG_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_small_file(name, kMaxPickleBytes));
  // A budget by the file's own size: values of .metadata are in proportion to what it lists.
  PickleBudget own(bytes.size());
  return read_dist_metadata(bytes, name, &own);
}

Result<DistFolder> DistFolder::open(const std::string& path, const Rename& rename) {
  MEG_RETURN_IF_ERROR(check_form(path));
  DistFolder folder;
  folder.path_ = path;
  MEG_ASSIGN_OR_RETURN(folder.metadata_, read_folder_metadata(path));
  if (rename) {
    // Rename before anything is looked up by name: other writers of such folders use their own
    // names.
    MEG_ASSIGN_OR_RETURN(folder.metadata_, rename(std::move(folder.metadata_)));
  }
  MEG_RETURN_IF_ERROR(folder.open_files());
  const std::string common = in_folder(path, kDistCommonFile);
  std::error_code ignored;
  if (std::filesystem::exists(common, ignored)) {
    MEG_ASSIGN_OR_RETURN(TorchFile opened, TorchFile::open(common));
    folder.common_ = std::make_shared<const TorchFile>(std::move(opened));
  }
  return folder;
}

Status DistFolder::open_files() {
  std::vector<uint64_t> sizes;
  for (const std::string& name : metadata_.files) {
    Result<io::PooledFile> file = io::PooledFile::open(in_folder(path_, name));
    // .distcp files are pooled: a checkpoint may have more of them than a process may open.
    if (!file.has_value()) {
      return file.error().with_prefix(in_folder(path_, kDistMetadataFile) + ": a file it names");
    }
    sizes.push_back(static_cast<uint64_t>(file->size()));
    bytes_ += sizes.back();
    files_.push_back(std::make_shared<const io::PooledFile>(*std::move(file)));
  }
  for (const DistTensor& tensor : metadata_.tensors) {
    for (const DistChunk& chunk : tensor.chunks) {
      MEG_RETURN_IF_ERROR(check_blob(chunk.blob, tensor.name, sizes));
    }
  }
  for (const DistObject& object : metadata_.objects) {
    MEG_RETURN_IF_ERROR(check_blob(object.blob, object.name, sizes));
  }
  // The budget covers the values in all items together and is set by the bytes of all files.
  budget_ = std::make_unique<PickleBudget>(bytes_);
  return {};
}

Status DistFolder::check_blob(const DistBlob& blob, const std::string& name,
                              const std::vector<uint64_t>& sizes) const {
  const auto file = static_cast<size_t>(blob.file);
  // No overflow: both were read as positive numbers whose sum fits (read_place).
  if (blob.offset + blob.length <= sizes[file]) return {};
  return make_error(StatusCode::kCorruption, "{}: {}: expected bytes {} to {}, found {} in all",
                    files_[file]->path(), text::printable(name, 200), blob.offset,
                    blob.offset + blob.length, sizes[file]);
}

Result<TorchFileParts> DistFolder::read_value(const DistBlob& blob, const std::string& name) const {
  const io::PooledFile& file = *files_[static_cast<size_t>(blob.file)];
  const std::string where =
      fmt::format("{}: byte {}: {}", file.path(), blob.offset, text::printable(name, 200));
  MEG_ASSIGN_OR_RETURN(const auto open, file.pin());
  MEG_ASSIGN_OR_RETURN(
      TorchFileParts parts,
      read_torch_archive(io::FileSlice(*open, blob.offset, blob.length, where), budget_.get()));
  return parts;
}

std::shared_ptr<const TensorSource> DistFolder::source_of(const TorchFileParts& parts,
                                                          const TensorView& view,
                                                          const DistBlob& blob,
                                                          const std::string& name) const {
  const std::shared_ptr<const io::PooledFile>& file = files_[static_cast<size_t>(blob.file)];
  const TorchStorage& storage = parts.tensors.storages[static_cast<size_t>(view.storage)];
  std::optional<RecordedCrc> crc;
  if (storage.crc.has_value()) {
    crc = {{file.get(), storage.file_offset, storage.bytes}, *storage.crc, name};
  }
  // Elements that are stored as they are read need no gathering and are read directly into their
  // destination.
  if (parts.is_byte_swapped || !view.is_contiguous()) {
    return std::make_shared<ViewSource>(file, storage, view, parts.is_byte_swapped, std::move(crc));
  }
  const auto first = static_cast<uint64_t>(view.offset * dtype_size(view.dtype));
  return file_source(file, storage.file_offset + first, view.dtype, view.numel(), std::move(crc));
}

Result<std::shared_ptr<const TensorSource>> DistFolder::chunk_source(const DistTensor& tensor,
                                                                     const DistChunk& chunk) const {
  MEG_ASSIGN_OR_RETURN(const TorchFileParts parts, read_value(chunk.blob, tensor.name));
  const auto found = parts.tensors.views.find(parts.root);
  const TensorView* view = found == parts.tensors.views.end() ? nullptr : &found->second;
  const std::shared_ptr<const io::PooledFile>& file = files_[static_cast<size_t>(chunk.blob.file)];
  // The same thing is said twice, by .metadata and by the chunk's own archive.
  if (view == nullptr || view->dtype != tensor.dtype || view->shape != chunk.sizes) {
    return make_error(
        StatusCode::kCorruption, "{}: byte {}: {}: expected a tensor of {} {}, found {}",
        file->path(), chunk.blob.offset, text::printable(tensor.name, 200),
        dtype_name(tensor.dtype), shape_text(chunk.sizes),
        view == nullptr ? parts.graph.describe(parts.root, 60)
                        : fmt::format("{} {}", dtype_name(view->dtype), shape_text(view->shape)));
  }
  return source_of(parts, *view, chunk.blob, tensor.name);
}

Result<std::vector<Piece>> DistFolder::pieces(const DistTensor& tensor, const Box& box) const {
  std::vector<Piece> pieces;
  for (const DistChunk& chunk : tensor.chunks) {
    const Box place{chunk.offsets, chunk.sizes};
    // Chunks that have nothing of the box are not opened: their archives need not be read.
    if (!intersection(place, box).has_value()) continue;
    MEG_ASSIGN_OR_RETURN(std::shared_ptr<const TensorSource> source, chunk_source(tensor, chunk));
    pieces.push_back({std::move(source), place, 0, {}});
  }
  return pieces;
}

Result<std::shared_ptr<const TensorSource>> DistFolder::box_source(const DistTensor& tensor,
                                                                   const Box& box) const {
  MEG_ASSIGN_OR_RETURN(const std::vector<Piece> found, pieces(tensor, box));
  return assemble_box(tensor.dtype, found, box);
}

}  // namespace meg::checkpoint
