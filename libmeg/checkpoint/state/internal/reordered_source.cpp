#include "libmeg/checkpoint/state/internal/reordered_source.h"

#include <algorithm>
#include <utility>

namespace meg::checkpoint {
namespace {

/// A box whose axes are in another order in the memory of `whole`. Runs of elements that are
/// contiguous in both orders are read at once.
class ReorderedSource final : public TensorSource {
 public:
  ReorderedSource(std::shared_ptr<const TensorSource> whole, const std::vector<int64_t>& sizes,
                  const std::vector<int>& memory_order)
      : TensorSource(whole->dtype(), whole->elements()), whole_(std::move(whole)) {
    size_t moved = sizes.size();
    // The innermost axes that are in their natural place form the runs.
    while (moved > 0 && memory_order[moved - 1] == static_cast<int>(moved) - 1) {
      run_ *= sizes[--moved];
    }
    sizes_.assign(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(moved));
    strides_.resize(moved);
    int64_t stride = run_;
    for (size_t i = moved; i > 0; --i) {
      const auto axis = static_cast<size_t>(memory_order[i - 1]);
      strides_[axis] = stride;
      stride *= sizes_[axis];
    }
  }

  Status read(int64_t first, std::span<std::byte> into) const override {
    const int64_t size = dtype_size(dtype());
    while (!into.empty()) {
      const int64_t within = first % run_;
      const int64_t count = std::min(run_ - within, static_cast<int64_t>(into.size()) / size);
      const auto part = into.first(static_cast<size_t>(count * size));
      MEG_RETURN_IF_ERROR(whole_->read(position(first / run_) + within, part));
      into = into.subspan(part.size());
      first += count;
    }
    return Status();
  }

  std::vector<RecordedCrc> recorded_crcs() const override { return whole_->recorded_crcs(); }

 private:
  /// The position of a run in memory.
  int64_t position(int64_t run) const {
    int64_t found = 0;
    for (size_t i = sizes_.size(); i > 0; --i) {
      found += run % sizes_[i - 1] * strides_[i - 1];
      run /= sizes_[i - 1];
    }
    return found;
  }

  std::shared_ptr<const TensorSource> whole_;
  std::vector<int64_t> sizes_, strides_;  // of the axes that are moved
  int64_t run_ = 1;
};

}  // namespace

std::shared_ptr<const TensorSource> natural_source(const Piece& piece) {
  if (std::is_sorted(piece.memory_order.begin(), piece.memory_order.end())) return piece.source;
  return std::make_shared<ReorderedSource>(piece.source, piece.box.sizes, piece.memory_order);
}

}  // namespace meg::checkpoint
