#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libmeg/base/dtype.h"
#include "libmeg/base/status.h"

namespace meg::checkpoint {

/// A tensor inside a torch file: which elements of which storage, in which order. Checked when the
/// file was opened: every element lies inside the storage, numel() and bytes() do not overflow. A
/// tensor without elements may have any offset.
struct TensorView {
  int storage = 0;  ///< Index into TorchFile::storages().
  DType dtype = DType::kFloat32;
  int64_t offset = 0;            ///< First element, counted in elements from the storage's start.
  std::vector<int64_t> shape;    ///< Elements along each dimension, each >= 0.
  std::vector<int64_t> strides;  ///< Elements between neighbours along each dimension, each >= 0.

  /// Elements: the product of shape (1 for a scalar).
  int64_t numel() const;

  /// Bytes of the elements, numel() * dtype_size(dtype).
  int64_t bytes() const { return numel() * dtype_size(dtype); }

  /// Whether the elements lie one after another in row-major order.
  bool is_contiguous() const;
};

/// Whether every element of the view lies in a storage of `storage_bytes` bytes and its numel() and
/// bytes() do not overflow; kCorruption without a place says what is wrong.
Status check_tensor_view(const TensorView& view, uint64_t storage_bytes);

/// "[152, 32]"
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace meg::checkpoint
