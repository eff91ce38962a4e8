#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "libmeg/checkpoint/state/piece.h"

namespace meg::checkpoint {

/// Reads a box of a piece, its elements in the order of the axes. Several threads may read at once.
class TransferReader {
 public:
  /// All of a source's elements.
  explicit TransferReader(std::shared_ptr<const TensorSource> source)
      : source_(std::move(source)) {}

  /// A box that the source contains as a whole, with its axes in memory_order (see Piece).
  TransferReader(std::shared_ptr<const TensorSource> source, const Box& box,
                 const std::vector<int>& memory_order);

  const TensorSource& source() const { return *source_; }

  /// Reads elements [first, first + into.size() / element size). scratch: used if the axes are in
  /// another order; of any size, and the larger it is, the fewer reads.
  Status read(int64_t first, std::span<std::byte> into, std::span<std::byte> scratch) const;

  /// Whether the file holds no data for these elements, which are zero then.
  bool is_hole(int64_t first, int64_t count) const {
    return !is_reordered() && source_->is_hole(first, count);
  }

  /// Whether the elements are in another order than in the source.
  bool is_reordered() const { return !runs_.axes.empty(); }

  /// The bytes of a file that are the elements in the order of the axes; nullopt if there are none.
  std::optional<FileExtent> file_extent() const {
    return is_reordered() ? std::nullopt : source_->file_extent();
  }

 private:
  /// Used if the axes are in another order in memory: runs of elements that are contiguous in both
  /// orders, and the size and memory stride of each axis outside them.
  struct Runs {
    struct Axis {
      int64_t size = 0;
      int64_t stride = 0;
    };

    std::vector<Axis> axes;  // outermost first; empty: nothing is reordered
    int64_t length = 0;

    int64_t memory_offset(int64_t run) const;
  };

  static Runs find_runs(const std::vector<int64_t>& axes, const std::vector<int>& memory_order);

  Status read_reordered(int64_t first, std::span<std::byte> into,
                        std::span<std::byte> scratch) const;

  std::shared_ptr<const TensorSource> source_;
  Runs runs_;
};

}  // namespace meg::checkpoint
