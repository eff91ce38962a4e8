#include "libmeg/checkpoint/container/torch_file/tensor_view.h"

#include <fmt/format.h>

#include "libmeg/base/bytes.h"

namespace meg::checkpoint {
namespace {

/// Views may repeat elements (stride 0, overlapping windows), but not claim unlimited elements:
/// work on a tensor must be bounded by the file's size or by this many elements.
constexpr uint64_t kMaxRepeatedElements = uint64_t{1} << 26;

}  // namespace

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

Status check_tensor_view(const TensorView& view, uint64_t storage_bytes) {
  const auto refuse = [&](std::string_view what) {
    return make_error(StatusCode::kCorruption,
                      "shape {} with strides {} at offset {} of {} bytes of {}: {}",
                      shape_text(view.shape), shape_text(view.strides), view.offset, storage_bytes,
                      dtype_name(view.dtype), what);
  };
  if (view.shape.size() != view.strides.size()) return refuse("shape and strides differ in rank");
  if (view.offset < 0) return refuse("expected an offset of at least 0");
  const auto item = static_cast<uint64_t>(dtype_size(view.dtype));
  const uint64_t held = storage_bytes / item;
  uint64_t numel = 1;  // Zeros left out, so that no order of multiplying can overflow.
  uint64_t last = static_cast<uint64_t>(view.offset);
  bool fits = true;
  bool reaches = true;
  bool is_empty = false;
  for (size_t i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] < 0 || view.strides[i] < 0) return refuse("expected no negative numbers");
    const auto size = static_cast<uint64_t>(view.shape[i]);
    is_empty |= size == 0;
    if (size == 0) continue;
    uint64_t step = 0;
    fits &= checked_multiply(numel, size, &numel);
    reaches &= checked_multiply(size - 1, static_cast<uint64_t>(view.strides[i]), &step) &&
               checked_add(last, step, &last);
  }
  uint64_t bytes = 0;
  fits &= checked_multiply(numel, item, &bytes) && bytes <= INT64_MAX;
  if (!fits) return refuse("its size overflows 64 bits");
  if (is_empty) return {};  // torch makes these past the storage's end too
  if (!reaches) return refuse("its extent overflows 64 bits");
  if (last >= held) return refuse("is outside its storage");
  // Overlapping views are legal (expand()), and a tiny file could claim exabytes by stride 0.
  if (numel > held && numel > kMaxRepeatedElements) return refuse("repeats too many elements");
  return {};
}

}  // namespace meg::checkpoint
