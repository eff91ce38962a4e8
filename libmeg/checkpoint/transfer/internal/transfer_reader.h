#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/tensor_view.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"

namespace meg::checkpoint {

/// Reads one source tensor of a transfer, its elements in the order of the transfer's axes. Several
/// threads may read at once.
class TransferReader {
 public:
  /// file: outlives this. axes: of this source, the cut axis as long as its stretch.
  /// memory_order: as TransferSource has it.
  TransferReader(const TorchFile& file, const TensorView& view, const std::vector<int64_t>& axes,
                 const std::vector<int>& memory_order);

  /// The bytes of a whole storage as they stand in the file, as elements of one byte.
  static TransferReader of_storage(const TorchFile& file, int storage);

  const TorchFile& file() const { return *file_; }

  /// Reads elements [first, first + into.size() / element size). scratch: for tensors whose axes
  /// stand in another order; any size, the larger the fewer reads.
  Status read(int64_t first, std::span<std::byte> into, std::span<std::byte> scratch) const;

  /// Whether the file holds no data for these elements, which are zero then.
  bool is_hole(int64_t first, int64_t count) const;

  /// Whether elements follow each other in the file as they do in the transfer.
  bool is_direct() const { return way_ == Way::kDirect && runs_.axes.empty(); }

  /// Where the first element lies in the file.
  uint64_t file_offset() const { return file_offset_; }

 private:
  enum class Way : uint8_t { kDirect, kSwapped, kStrided };

  /// Where axes stand in another order in memory: runs of elements that are together in both
  /// orders, and for each axis outside of them its size and its stride in memory.
  struct Runs {
    struct Axis {
      int64_t size = 0;
      int64_t stride = 0;
    };

    std::vector<Axis> axes;  // outermost first; empty: nothing is reordered
    int64_t length = 0;

    int64_t memory_offset(int64_t run) const;
  };

  TransferReader() = default;

  static Runs find_runs(const std::vector<int64_t>& axes, const std::vector<int>& memory_order);

  Status read_in_memory_order(int64_t first, std::span<std::byte> into) const;
  Status read_reordered(int64_t first, std::span<std::byte> into,
                        std::span<std::byte> scratch) const;

  const TorchFile* file_ = nullptr;
  TensorView view_;
  int64_t element_size_ = 1;
  uint64_t file_offset_ = 0;
  Way way_ = Way::kDirect;
  bool may_have_holes_ = false;
  Runs runs_;
};

}  // namespace meg::checkpoint
