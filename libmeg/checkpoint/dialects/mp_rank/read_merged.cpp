#include <algorithm>
#include <cstring>
#include <numeric>

#include "libmeg/checkpoint/dialects/mp_rank/megatron_checkpoint.h"

namespace meg::checkpoint {
namespace {

/// Stretches of at least this many bytes are read one by one; shorter ones in blocks of rows.
constexpr int64_t kLongRun = 64 << 10;

/// Reads a logical tensor's elements in the order of its merged axes.
class MergedReader {
 public:
  MergedReader(const MegatronCheckpoint& checkpoint, const LogicalParameter& parameter,
               const LogicalTensor& tensor)
      : checkpoint_(checkpoint),
        axes_(parameter.axes),
        tensor_(tensor),
        element_(dtype_size(tensor.dtype)) {
    const std::vector<int64_t>& sizes = axes_.sizes;
    const int cut = axes_.partition_axis;
    if (cut >= 0) {
      inner_ = product(static_cast<size_t>(cut) + 1, sizes.size());
      share_ = sizes[static_cast<size_t>(cut)] / static_cast<int64_t>(tensor.shards.size());
      run_ = share_ * inner_;
    }
  }

  Status read(int64_t first, std::span<std::byte> into) {
    if (axes_.partition_axis < 0) return read_shard(0, first, into);
    if (is_permuted()) return read_permuted(first, into);
    while (!into.empty()) {
      const int64_t left = static_cast<int64_t>(into.size()) / element_;
      const int64_t row = run_ * shards();
      int64_t taken = 0;
      if (run_ * element_ < kLongRun && first % row == 0 && left >= row) {
        taken = left / row * row;
        MEG_RETURN_IF_ERROR(read_rows(first / row, taken / row, into.first(bytes(taken))));
      } else {
        const int64_t shard = first % row / run_;
        const int64_t within = first % run_;
        taken = std::min(run_ - within, left);
        MEG_RETURN_IF_ERROR(
            read_shard(shard, first / row * run_ + within, into.first(bytes(taken))));
      }
      first += taken;
      into = into.subspan(bytes(taken));
    }
    return Status();
  }

 private:
  int64_t shards() const { return static_cast<int64_t>(tensor_.shards.size()); }

  size_t bytes(int64_t elements) const { return static_cast<size_t>(elements * element_); }

  int64_t product(size_t begin, size_t end) const {
    int64_t result = 1;
    for (size_t i = begin; i < end; ++i) result *= axes_.sizes[i];
    return result;
  }

  bool is_permuted() const {
    return !std::is_sorted(axes_.memory_order.begin(), axes_.memory_order.end());
  }

  Status read_shard(int64_t shard, int64_t first, std::span<std::byte> into) const {
    const SourceTensor& source = tensor_.shards[static_cast<size_t>(shard)];
    const TorchFile& file = *checkpoint_.files()[static_cast<size_t>(source.file)].file;
    return file.read_elements(source.view, first, into);
  }

  /// Whole rows of the axes before the cut: each shard's part is one stretch, dealt out row by row.
  Status read_rows(int64_t first_row, int64_t rows, std::span<std::byte> into) {
    const size_t run = bytes(run_);
    block_.resize(run * static_cast<size_t>(rows));
    for (int64_t shard = 0; shard < shards(); ++shard) {
      MEG_RETURN_IF_ERROR(read_shard(shard, first_row * run_, block_));
      for (int64_t r = 0; r < rows; ++r) {
        std::memcpy(into.data() + static_cast<size_t>(r * shards() + shard) * run,
                    block_.data() + static_cast<size_t>(r) * run, run);
      }
    }
    return Status();
  }

  /// Shards whose memory has the axes in another order: blocks of the axes that keep their place.
  Status read_permuted(int64_t first, std::span<std::byte> into) {
    size_t kept = axes_.sizes.size();
    while (kept > 0 && axes_.memory_order[kept - 1] == static_cast<int>(kept) - 1) --kept;
    const int64_t block = product(kept, axes_.sizes.size());
    while (!into.empty()) {
      const int64_t within = first % block;
      const int64_t taken = std::min(block - within, static_cast<int64_t>(into.size()) / element_);
      const auto [shard, position] = permuted_position(first / block, kept);
      MEG_RETURN_IF_ERROR(read_shard(shard, position * block + within, into.first(bytes(taken))));
      first += taken;
      into = into.subspan(bytes(taken));
    }
    return Status();
  }

  /// The shard that holds a block, and which of its blocks in memory it is.
  std::pair<int64_t, int64_t> permuted_position(int64_t block, size_t kept) const {
    std::vector<int64_t> index(kept);
    for (size_t i = kept; i-- > 0;) {
      index[i] = block % axes_.sizes[i];
      block /= axes_.sizes[i];
    }
    const auto cut = static_cast<size_t>(axes_.partition_axis);
    const int64_t shard = index[cut] / share_;
    index[cut] %= share_;
    int64_t position = 0;
    for (size_t i = 0; i < kept; ++i) {
      const auto axis = static_cast<size_t>(axes_.memory_order[i]);
      position = position * (axis == cut ? share_ : axes_.sizes[axis]) + index[axis];
    }
    return {shard, position};
  }

  const MegatronCheckpoint& checkpoint_;
  const model::ShardAxes& axes_;
  const LogicalTensor& tensor_;
  int64_t element_;
  int64_t inner_ = 1, share_ = 1, run_ = 1;
  std::vector<std::byte> block_;
};

}  // namespace

Status read_merged(const MegatronCheckpoint& checkpoint, const LogicalParameter& parameter,
                   const LogicalTensor& tensor, int64_t first, std::span<std::byte> into) {
  return MergedReader(checkpoint, parameter, tensor).read(first, into);
}

}  // namespace meg::checkpoint
