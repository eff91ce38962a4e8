#include "libmeg/checkpoint/dialects/huggingface/internal/transposed_source.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace meg::checkpoint {
namespace {

/// Of the source, read at once where its rows are wanted nearly whole.
constexpr int64_t kBlockBytes = int64_t{256} << 10;

class TransposedSource final : public TensorSource {
 public:
  TransposedSource(std::shared_ptr<const TensorSource> source, int64_t rows, int64_t columns)
      : TensorSource(source->dtype(), rows * columns),
        source_(std::move(source)),
        rows_(rows),
        columns_(columns),
        size_(static_cast<size_t>(dtype_size(dtype()))) {}

  Status read(int64_t first, std::span<std::byte> into) const override {
    const int64_t end = first + static_cast<int64_t>(into.size() / size_);
    if (first == end) return Status();
    const int64_t row = first / columns_;
    const int64_t rows = (end - 1) / columns_ - row + 1;
    // The source has these rows as columns [row, row + rows) of each of its rows.
    // Where half or more of each source row is wanted, rows are read whole, many at once; otherwise
    // one short read a row. Chunks of a transfer are long, so the first is the usual case for all
    // but tall matrices.
    const int64_t stride = 2 * rows >= rows_ ? rows_ : rows;
    const int64_t at_once =
        stride == rows_ ? std::clamp<int64_t>(kBlockBytes / (stride * size()), 1, columns_) : 1;
    std::vector<std::byte> block(static_cast<size_t>(at_once * stride) * size_);
    for (int64_t column = 0; column < columns_; column += at_once) {
      const int64_t count = std::min(at_once, columns_ - column);
      const int64_t begin = column * rows_ + (stride == rows_ ? 0 : row);
      const auto bytes = std::span(block).first(static_cast<size_t>(count * stride) * size_);
      MEG_RETURN_IF_ERROR(source_->read(begin, bytes));
      for (int64_t i = 0; i < count; ++i) {
        const int64_t skipped = stride == rows_ ? row : 0;
        scatter(block.data() + static_cast<size_t>(i * stride + skipped) * size_, column + i, first,
                end, into.data());
      }
    }
    return Status();
  }

  std::vector<RecordedCrc> recorded_crcs() const override { return source_->recorded_crcs(); }

 private:
  int64_t size() const { return static_cast<int64_t>(size_); }

  /// Puts one of this matrix's columns, whose elements stand from the row of `first` on, to those
  /// of its places that lie in [first, end).
  void scatter(const std::byte* from, int64_t column, int64_t first, int64_t end,
               std::byte* into) const {
    switch (size_) {
      case 1:
        return scatter_of<uint8_t>(from, column, first, end, into);
      case 2:
        return scatter_of<uint16_t>(from, column, first, end, into);
      case 4:
        return scatter_of<uint32_t>(from, column, first, end, into);
      default:
        return scatter_of<uint64_t>(from, column, first, end, into);
    }
  }

  template <class T>
  void scatter_of(const std::byte* from, int64_t column, int64_t first, int64_t end,
                  std::byte* into) const {
    const int64_t begin = first / columns_ * columns_ + column;
    for (int64_t at = begin; at < end; at += columns_, from += sizeof(T)) {
      if (at >= first) std::memcpy(into + (at - first) * size(), from, sizeof(T));
    }
  }

  std::shared_ptr<const TensorSource> source_;
  int64_t rows_, columns_;
  size_t size_;
};

}  // namespace

std::shared_ptr<const TensorSource> transposed_source(std::shared_ptr<const TensorSource> source,
                                                      int64_t rows, int64_t columns) {
  return std::make_shared<TransposedSource>(std::move(source), rows, columns);
}

}  // namespace meg::checkpoint
