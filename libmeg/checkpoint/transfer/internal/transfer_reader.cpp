#include "libmeg/checkpoint/transfer/internal/transfer_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace meg::checkpoint {

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
  // Innermost axes that are in their natural place in memory form the runs; only the axes outside
  // them have to be iterated.
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

TransferReader::TransferReader(std::shared_ptr<const TensorSource> source, const Box& box,
                               const std::vector<int>& memory_order)
    : source_(std::move(source)), runs_(find_runs(box.sizes, memory_order)) {}

Status TransferReader::read(int64_t first, std::span<std::byte> into,
                            std::span<std::byte> scratch) const {
  if (is_reordered()) return read_reordered(first, into, scratch);
  return source_->read(first, into);
}

Status TransferReader::read_reordered(int64_t first, std::span<std::byte> into,
                                      std::span<std::byte> scratch) const {
  const auto size = static_cast<size_t>(dtype_size(source_->dtype()));
  const int64_t end = first + static_cast<int64_t>(into.size() / size);
  // Calls visit(memory offset, elements, elements before) for the requested part of each run.
  const auto for_each_run = [&](const auto& visit) -> Status {
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
  MEG_RETURN_IF_ERROR(for_each_run([&](int64_t offset, int64_t count, int64_t) {
    low = std::min(low, offset);
    high = std::max(high, offset + count);
    return Status();
  }));
  // One read for all of them where they lie close to each other, else one each.
  // Reading up to twice what is needed is better than a system call a run; the copier's scratch
  // buffer holds just that much.
  const bool together =
      high - low <= 2 * (end - first) && static_cast<size_t>(high - low) * size <= scratch.size();
  const auto block =
      together ? scratch.first(static_cast<size_t>(high - low) * size) : std::span<std::byte>();
  if (together) MEG_RETURN_IF_ERROR(source_->read(low, block));
  return for_each_run([&](int64_t offset, int64_t count, int64_t before) {
    const auto piece =
        into.subspan(static_cast<size_t>(before) * size, static_cast<size_t>(count) * size);
    if (!together) return source_->read(offset, piece);
    std::memcpy(piece.data(), block.data() + static_cast<size_t>(offset - low) * size,
                piece.size());
    return Status();
  });
}

}  // namespace meg::checkpoint
