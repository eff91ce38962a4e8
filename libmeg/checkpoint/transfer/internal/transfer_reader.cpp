#include "libmeg/checkpoint/transfer/internal/transfer_reader.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace meg::checkpoint {
namespace {

bool has_fewer_blocks_than_bytes(const TorchFile& file) {
  struct stat info {};

  const auto descriptor = file.descriptor();
  if (!descriptor.has_value() || ::fstat((*descriptor)->get(), &info) != 0) return false;
  return info.st_blocks < info.st_size / 512;
}

Status read_exactly(const TorchFile& file, uint64_t offset, std::span<std::byte> into) {
  MEG_ASSIGN_OR_RETURN(const auto descriptor, file.descriptor());
  MEG_ASSIGN_OR_RETURN(const size_t got, descriptor->read_at(static_cast<int64_t>(offset), into));
  if (got == into.size()) return Status();
  return make_error(StatusCode::kCorruption,
                    "{}: byte {}: the file became shorter: expected {} bytes, found {}",
                    file.path(), offset, into.size(), got);
}

}  // namespace

int64_t TransferReader::Runs::memory_offset(int64_t run) const {
  int64_t offset = 0;
  for (size_t i = axes.size(); i-- > 0;) {
    offset += run % axes[i].size * axes[i].stride;
    run /= axes[i].size;
  }
  return offset;
}

TransferReader::Runs TransferReader::find_runs(const std::vector<int64_t>& axes,
                                               const std::vector<int>& memory_order) {
  Runs runs{{}, 1};
  size_t reordered = memory_order.size();
  while (reordered > 0 && memory_order[reordered - 1] == static_cast<int>(reordered) - 1) {
    --reordered;
    runs.length *= axes[reordered];
  }
  runs.axes.resize(reordered);
  int64_t stride = runs.length;
  for (size_t i = reordered; i-- > 0;) {
    const auto axis = static_cast<size_t>(memory_order[i]);
    runs.axes[axis] = {axes[axis], stride};
    stride *= axes[axis];
  }
  return runs;
}

TransferReader::TransferReader(const TorchFile& file, const TensorView& view,
                               const std::vector<int64_t>& axes,
                               const std::vector<int>& memory_order)
    : file_(&file),
      view_(view),
      element_size_(dtype_size(view.dtype)),
      runs_(find_runs(axes, memory_order)) {
  file_offset_ = file.storages()[static_cast<size_t>(view.storage)].file_offset +
                 static_cast<uint64_t>(view.offset * element_size_);
  if (!view.is_contiguous()) {
    way_ = Way::kStrided;
  } else if (file.is_byte_swapped()) {
    way_ = Way::kSwapped;
  }
  may_have_holes_ = is_direct() && has_fewer_blocks_than_bytes(file);
}

TransferReader TransferReader::of_storage(const TorchFile& file, int storage) {
  TransferReader reader;
  reader.file_ = &file;
  reader.file_offset_ = file.storages()[static_cast<size_t>(storage)].file_offset;
  reader.may_have_holes_ = has_fewer_blocks_than_bytes(file);
  return reader;
}

Status TransferReader::read(int64_t first, std::span<std::byte> into,
                            std::span<std::byte> scratch) const {
  if (!runs_.axes.empty()) return read_reordered(first, into, scratch);
  return read_in_memory_order(first, into);
}

Status TransferReader::read_in_memory_order(int64_t first, std::span<std::byte> into) const {
  if (way_ == Way::kStrided) return file_->read_elements(view_, first, into);
  if (way_ == Way::kSwapped) {
    const auto offset = static_cast<uint64_t>((view_.offset + first) * element_size_);
    return file_->read_storage(view_.storage, offset, into);
  }
  return read_exactly(*file_, file_offset_ + static_cast<uint64_t>(first * element_size_), into);
}

Status TransferReader::read_reordered(int64_t first, std::span<std::byte> into,
                                      std::span<std::byte> scratch) const {
  const auto size = static_cast<size_t>(element_size_);
  const int64_t end = first + static_cast<int64_t>(into.size() / size);
  // Calls visit(memory offset, elements, elements before) for the stretch of each run.
  const auto for_each_stretch = [&](const auto& visit) -> Status {
    for (int64_t at = first; at < end;) {
      const int64_t inside = at % runs_.length;
      const int64_t count = std::min(runs_.length - inside, end - at);
      MEG_RETURN_IF_ERROR(
          visit(runs_.memory_offset(at / runs_.length) + inside, count, at - first));
      at += count;
    }
    return Status();
  };
  int64_t low = INT64_MAX;
  int64_t high = 0;
  MEG_RETURN_IF_ERROR(for_each_stretch([&](int64_t offset, int64_t count, int64_t) {
    low = std::min(low, offset);
    high = std::max(high, offset + count);
    return Status();
  }));
  // One read for all of them where they lie close to each other, else one each.
  const bool together =
      high - low <= 2 * (end - first) && static_cast<size_t>(high - low) * size <= scratch.size();
  const auto block =
      together ? scratch.first(static_cast<size_t>(high - low) * size) : std::span<std::byte>();
  if (together) MEG_RETURN_IF_ERROR(read_in_memory_order(low, block));
  return for_each_stretch([&](int64_t offset, int64_t count, int64_t before) {
    const auto piece =
        into.subspan(static_cast<size_t>(before) * size, static_cast<size_t>(count) * size);
    if (!together) return read_in_memory_order(offset, piece);
    std::memcpy(piece.data(), block.data() + static_cast<size_t>(offset - low) * size,
                piece.size());
    return Status();
  });
}

bool TransferReader::is_hole(int64_t first, int64_t count) const {
  if (!may_have_holes_) return false;
  const auto descriptor = file_->descriptor();
  if (!descriptor.has_value()) return false;  // as reading will say
  const auto begin = static_cast<off_t>(file_offset_) + first * element_size_;
  const off_t end = begin + count * element_size_;
  const off_t data = ::lseek((*descriptor)->get(), begin, SEEK_DATA);
  if (data >= 0) return data >= end;
  // No data up to the file's end, wherever that is by now.
  if (errno != ENXIO) return false;
  const auto size = (*descriptor)->size();
  return size.has_value() && *size >= end;
}

}  // namespace meg::checkpoint
