#include "libmeg/checkpoint/container/torch_file/torch_source.h"

#include <optional>
#include <utility>

namespace meg::checkpoint {
namespace {

std::optional<RecordedCrc> storage_crc(const TorchFile& file, const TorchStorage& storage) {
  if (!storage.crc.has_value()) return std::nullopt;
  return RecordedCrc{.extent = {&file.file(), storage.file_offset, storage.bytes},
                     .crc = *storage.crc,
                     .name = "storage " + storage.key};
}

/// Elements that are stored in another order or form than they are read.
class ViewSource final : public TensorSource {
 public:
  ViewSource(std::shared_ptr<const TorchFile> file, TensorView view)
      : TensorSource(view.dtype, view.numel()), file_(std::move(file)), view_(std::move(view)) {}

  Status read(int64_t first, std::span<std::byte> into) const override {
    return file_->read_elements(view_, first, into);
  }

  const io::PooledFile* file() const override { return &file_->file(); }

  std::vector<RecordedCrc> recorded_crcs() const override {
    const TorchStorage& storage = file_->storages()[static_cast<size_t>(view_.storage)];
    if (storage.source != nullptr) return storage.source->recorded_crcs();
    std::optional<RecordedCrc> crc = storage_crc(*file_, storage);
    return crc.has_value() ? std::vector{*std::move(crc)} : std::vector<RecordedCrc>();
  }

 private:
  std::shared_ptr<const TorchFile> file_;
  TensorView view_;
};

}  // namespace

std::shared_ptr<const TensorSource> torch_source(std::shared_ptr<const TorchFile> file,
                                                 const TensorView& view) {
  const TorchStorage& storage = file->storages()[static_cast<size_t>(view.storage)];
  if (storage.source != nullptr && storage.source->dtype() == view.dtype) {
    return part_of(storage.source, view.offset, view.numel());
  }
  if (file->is_composed() || file->is_byte_swapped() || !view.is_contiguous()) {
    return std::make_shared<ViewSource>(std::move(file), view);
  }
  const auto offset = static_cast<uint64_t>(view.offset * dtype_size(view.dtype));
  // Shares the ownership of the TorchFile, to which the PooledFile belongs.
  std::shared_ptr<const io::PooledFile> whole(file, &file->file());
  return file_source(std::move(whole), storage.file_offset + offset, view.dtype, view.numel(),
                     storage_crc(*file, storage));
}

}  // namespace meg::checkpoint
