#include "libmeg/checkpoint/state/tensor_source.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace meg::checkpoint {
namespace {

/// Asked once, so that reads of a file without holes need no SEEK_DATA each.
bool may_have_holes(const io::PooledFile& file) {
  const auto open = file.pin();
  return open.has_value() && (*open)->may_have_holes();
}

class FileSource final : public TensorSource {
 public:
  FileSource(std::shared_ptr<const io::PooledFile> file, uint64_t offset, DType dtype,
             int64_t elements, std::optional<RecordedCrc> recorded_crc)
      : TensorSource(dtype, elements),
        file_(std::move(file)),
        offset_(offset),
        recorded_crc_(std::move(recorded_crc)),
        may_have_holes_(may_have_holes(*file_)) {}

  Status read(int64_t first, std::span<std::byte> into) const override {
    const uint64_t offset = offset_of(first);
    MEG_ASSIGN_OR_RETURN(const auto open, file_->pin());
    MEG_ASSIGN_OR_RETURN(const size_t got, open->read_at(static_cast<int64_t>(offset), into));
    if (got == into.size()) return Status();
    return make_error(StatusCode::kCorruption,
                      "{}: byte {}: the file was truncated: expected {} bytes, found {}",
                      file_->path(), offset, into.size(), got);
  }

  const io::PooledFile* file() const override { return file_.get(); }

  std::optional<FileExtent> file_extent() const override {
    return FileExtent{file_.get(), offset_, static_cast<uint64_t>(bytes())};
  }

  std::vector<RecordedCrc> recorded_crcs() const override {
    return recorded_crc_.has_value() ? std::vector{*recorded_crc_} : std::vector<RecordedCrc>();
  }

  bool is_hole(int64_t first, int64_t count) const override {
    if (!may_have_holes_) return false;
    const auto begin = static_cast<off_t>(offset_of(first));
    const off_t end = begin + count * dtype_size(dtype());
    const auto open = file_->pin();
    if (!open.has_value()) return false;  // as reading will say
    const off_t data = ::lseek((*open)->get(), begin, SEEK_DATA);
    if (data >= 0) return data >= end;
    // No data up to the file's end, wherever that is by now.
    if (errno != ENXIO) return false;
    // A file that was truncated meanwhile has "no data" there as well; taken for a hole, it would
    // give zeros without an error. read() then says that it was truncated.
    const auto size = (*open)->size();
    return size.has_value() && *size >= end;
  }

 private:
  uint64_t offset_of(int64_t element) const {
    return offset_ + static_cast<uint64_t>(element * dtype_size(dtype()));
  }

  std::shared_ptr<const io::PooledFile> file_;
  uint64_t offset_;
  std::optional<RecordedCrc> recorded_crc_;
  bool may_have_holes_;
};

class PartSource final : public TensorSource {
 public:
  PartSource(std::shared_ptr<const TensorSource> whole, int64_t first, int64_t count)
      : TensorSource(whole->dtype(), count), whole_(std::move(whole)), first_(first) {}

  Status read(int64_t first, std::span<std::byte> into) const override {
    return whole_->read(first_ + first, into);
  }

  const io::PooledFile* file() const override { return whole_->file(); }

  std::optional<FileExtent> file_extent() const override {
    std::optional<FileExtent> extent = whole_->file_extent();
    if (!extent.has_value()) return std::nullopt;
    extent->offset += static_cast<uint64_t>(first_ * dtype_size(dtype()));
    extent->bytes = static_cast<uint64_t>(bytes());
    return extent;
  }

  std::vector<RecordedCrc> recorded_crcs() const override { return whole_->recorded_crcs(); }

  bool is_hole(int64_t first, int64_t count) const override {
    return whole_->is_hole(first_ + first, count);
  }

 private:
  std::shared_ptr<const TensorSource> whole_;
  int64_t first_;
};

class MemorySource final : public TensorSource {
 public:
  MemorySource(DType dtype, std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
      : TensorSource(dtype, static_cast<int64_t>(bytes.size()) / dtype_size(dtype)),
        bytes_(bytes),
        owner_(std::move(owner)) {}

  Status read(int64_t first, std::span<std::byte> into) const override {
    const auto from = bytes_.subspan(static_cast<size_t>(first * dtype_size(dtype())), into.size());
    if (!into.empty()) std::memcpy(into.data(), from.data(), into.size());
    return Status();
  }

 private:
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

}  // namespace

std::vector<RecordedCrc> recorded_crcs_of(
    std::span<const std::shared_ptr<const TensorSource>> sources) {
  std::vector<RecordedCrc> all;
  for (const auto& source : sources) {
    for (RecordedCrc& one : source->recorded_crcs()) {
      // Pieces that lie in one storage name the same CRC, which is to be checked once.
      const bool is_known = std::any_of(
          all.begin(), all.end(), [&](const auto& other) { return other.extent == one.extent; });
      if (!is_known) all.push_back(std::move(one));
    }
  }
  return all;
}

std::shared_ptr<const TensorSource> file_source(std::shared_ptr<const io::PooledFile> file,
                                                uint64_t offset, DType dtype, int64_t elements,
                                                std::optional<RecordedCrc> recorded_crc) {
  return std::make_shared<FileSource>(std::move(file), offset, dtype, elements,
                                      std::move(recorded_crc));
}

std::shared_ptr<const TensorSource> part_of(std::shared_ptr<const TensorSource> source,
                                            int64_t first, int64_t count) {
  if (first == 0 && count == source->elements()) return source;
  return std::make_shared<PartSource>(std::move(source), first, count);
}

std::shared_ptr<const TensorSource> memory_source(DType dtype, std::span<const std::byte> bytes,
                                                  std::shared_ptr<const void> owner) {
  return std::make_shared<MemorySource>(dtype, bytes, std::move(owner));
}

}  // namespace meg::checkpoint
