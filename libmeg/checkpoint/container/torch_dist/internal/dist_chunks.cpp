#include <fmt/format.h>

#include <array>
#include <optional>
#include <set>

#include "libmeg/base/bytes.h"
#include "libmeg/checkpoint/container/torch_dist/internal/dist_metadata.h"
#include "libmeg/checkpoint/container/torch_file/tensor_view.h"

// Whether chunks are exactly the whole tensor, in time linear in their number: comparing each with
// each would be quadratic, and a checkpoint has many thousands. Two numbers decide: the elements of
// all chunks together, and which corners are there an odd number of times.

namespace meg::checkpoint {
namespace {

/// The corners of every chunk of a tensor are examined: 2^dimensions of them.
constexpr size_t kMaxDimensions = 8;

/// Elements of a box; nullopt where they, or their bytes, do not fit 63 bits.
std::optional<uint64_t> volume(const std::vector<int64_t>& sizes, DType dtype) {
  uint64_t bytes = static_cast<uint64_t>(dtype_size(dtype));
  for (const int64_t size : sizes) {
    if (size < 0 || !checked_multiply(bytes, static_cast<uint64_t>(size), &bytes)) return {};
  }
  if (bytes > static_cast<uint64_t>(INT64_MAX)) return {};
  return bytes / static_cast<uint64_t>(dtype_size(dtype));
}

using Corner = std::array<int64_t, kMaxDimensions>;

/// Adds the corners of a box, or takes away those that are there already: what remains at the end
/// was met an odd number of times. Neighbours share corners, so that inside the tensor they cancel
/// each other out.
void toggle_corners(const std::vector<int64_t>& offsets, const std::vector<int64_t>& sizes,
                    std::set<Corner>* corners) {
  Corner corner = {};
  for (size_t which = 0; which < size_t{1} << offsets.size(); ++which) {
    for (size_t i = 0; i < offsets.size(); ++i) {
      corner[i] = offsets[i] + ((which >> i & 1) != 0 ? sizes[i] : 0);
    }
    if (!corners->insert(corner).second) corners->erase(corner);
  }
}

// sizes <= shape first, so that shape - sizes cannot be negative and no sum can overflow.
Status check_box(const DistTensor& tensor, const DistChunk& chunk) {
  bool is_inside =
      chunk.offsets.size() == tensor.shape.size() && chunk.sizes.size() == tensor.shape.size();
  for (size_t i = 0; is_inside && i < tensor.shape.size(); ++i) {
    is_inside = chunk.offsets[i] >= 0 && chunk.sizes[i] >= 0 && chunk.sizes[i] <= tensor.shape[i] &&
                chunk.offsets[i] <= tensor.shape[i] - chunk.sizes[i];
  }
  if (is_inside) return {};
  return make_error(StatusCode::kCorruption,
                    "expected chunks inside its shape {}, found one of {} at {}",
                    shape_text(tensor.shape), shape_text(chunk.sizes), shape_text(chunk.offsets));
}

}  // namespace

Status check_boxes(const DistTensor& tensor) {
  if (tensor.shape.size() > kMaxDimensions) {
    return make_error(StatusCode::kUnsupported, "expected at most {} dimensions, found {}",
                      kMaxDimensions, tensor.shape.size());
  }
  if (!volume(tensor.shape, tensor.dtype).has_value()) {
    return make_error(StatusCode::kCorruption, "expected a shape of less than 2^63 bytes, found {}",
                      shape_text(tensor.shape));
  }
  for (const DistChunk& chunk : tensor.chunks) MEG_RETURN_IF_ERROR(check_box(tensor, chunk));
  return {};
}

Status check_chunks(const DistTensor& tensor) {
  MEG_RETURN_IF_ERROR(check_boxes(tensor));
  const uint64_t expected = *volume(tensor.shape, tensor.dtype);
  uint64_t found = 0;
  // Boxes that cover each place an odd number of times leave the corners of the whole, and no
  // others, an odd number of times; as many elements as the whole has make it once.
  std::set<Corner> corners;
  if (expected > 0) {
    toggle_corners(std::vector<int64_t>(tensor.shape.size()), tensor.shape, &corners);
  }
  for (const DistChunk& chunk : tensor.chunks) {
    const uint64_t elements = *volume(chunk.sizes, tensor.dtype);
    // The corners of an empty box are equal in pairs and cancel each other.
    if (elements == 0) continue;
    // They are below 2^63 each, and given up as soon as they are more than expected.
    found += elements;
    if (found > expected) break;
    toggle_corners(chunk.offsets, chunk.sizes, &corners);
  }
  if (found > expected) {
    return make_error(StatusCode::kCorruption,
                      "expected chunks of {} elements for shape {}, found more: chunks overlap",
                      expected, shape_text(tensor.shape));
  }
  if (found < expected) {
    return make_error(StatusCode::kCorruption,
                      "expected chunks of {} elements for shape {}, found {}: chunks are missing",
                      expected, shape_text(tensor.shape), found);
  }
  if (corners.empty()) return {};
  return make_error(StatusCode::kCorruption, "chunks overlap and leave gaps in shape {}",
                    shape_text(tensor.shape));
}

}  // namespace meg::checkpoint
