#include "libmeg/checkpoint/tensor_view.h"

#include <fmt/format.h>

namespace meg {

int64_t TensorView::numel() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

bool TensorView::is_contiguous() const {
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace meg
