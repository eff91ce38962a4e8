#include "libmeg/checkpoint/dialects/huggingface/internal/row_runs.h"

namespace meg::checkpoint {
namespace {

/// Walks the rows of a tensor's boxes in the order in which it holds them.
class RowWalk {
 public:
  explicit RowWalk(const model::HuggingFaceTensor& tensor)
      : tensor_(tensor), axes_(tensor.axes.size() - (tensor.shape.size() - 1)) {}

  std::vector<RowRun> runs() {
    for (const model::AxesBox& box : tensor_.boxes) visit(box, 0, 0);
    return std::move(runs_);
  }

 private:
  /// Rows of the parameter between neighbours along an axis.
  int64_t stride(size_t axis) const {
    int64_t rows = 1;
    for (size_t i = axis + 1; i < axes_; ++i) rows *= tensor_.axes[i];
    return rows;
  }

  /// axis: the first that is not chosen yet; row: the parameter's, of the choices before it.
  void visit(const model::AxesBox& box, size_t axis, int64_t row) {
    if (axis == axes_) return add(row);
    for (int64_t i = 0; i < box.sizes[axis]; ++i) {
      visit(box, axis + 1, row + (box.offsets[axis] + i) * stride(axis));
    }
  }

  // Neighbouring rows become one run: Q, K and V of a Llama give a run for each group of heads
  // rather than one for each row.
  void add(int64_t row) {
    if (!runs_.empty() && runs_.back().parameter_row + runs_.back().rows == row) {
      ++runs_.back().rows;
    } else {
      const int64_t before = runs_.empty() ? 0 : runs_.back().tensor_row + runs_.back().rows;
      runs_.push_back({.tensor_row = before, .parameter_row = row, .rows = 1});
    }
  }

  const model::HuggingFaceTensor& tensor_;
  size_t axes_;  ///< Those that count rows.
  std::vector<RowRun> runs_;
};

}  // namespace

std::vector<RowRun> row_runs(const model::HuggingFaceTensor& tensor) {
  return RowWalk(tensor).runs();
}

int64_t row_elements(const model::HuggingFaceTensor& tensor) {
  return tensor.shape.size() == 1 ? 1 : tensor.axes.back();
}

}  // namespace meg::checkpoint
