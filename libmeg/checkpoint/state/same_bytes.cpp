#include "libmeg/checkpoint/state/same_bytes.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace meg::checkpoint {
namespace {

constexpr int64_t kCompareBytes = int64_t{1} << 20;
/// Elements that are compared at one place.
constexpr int64_t kElementsAtOnePlace = 16;

/// What is known without reading. Callers compare an embedding with its tied copy, gigabytes
/// perhaps; recorded CRCs cost nothing.
std::optional<bool> known_to_be_same(const TensorSource& a, const TensorSource& b) {
  if (a.elements() != b.elements() || a.dtype() != b.dtype()) return false;
  // One tensor of torch_dist stands for the embedding and for its tied copy.
  const std::vector<FileExtent> extents = a.file_extents();
  if (!extents.empty() && extents == b.file_extents()) return true;
  const std::optional<uint32_t> crc_of_a = recorded_crc_of_all(a);
  const std::optional<uint32_t> crc_of_b = recorded_crc_of_all(b);
  if (crc_of_a.has_value() && crc_of_b.has_value()) return *crc_of_a == *crc_of_b;
  return std::nullopt;
}

Result<bool> same_elements(const TensorSource& a, const TensorSource& b, int64_t first,
                           int64_t count) {
  std::vector<std::byte> bytes_of_a(static_cast<size_t>(count * dtype_size(a.dtype())));
  std::vector<std::byte> bytes_of_b(bytes_of_a.size());
  MEG_RETURN_IF_ERROR(a.read(first, bytes_of_a));
  MEG_RETURN_IF_ERROR(b.read(first, bytes_of_b));
  return std::memcmp(bytes_of_a.data(), bytes_of_b.data(), bytes_of_a.size()) == 0;
}

}  // namespace

/// The CRC-32 of a source's bytes, where its container recorded that of just them.
std::optional<uint32_t> recorded_crc_of_all(const TensorSource& source) {
  const std::optional<FileExtent> extent = source.file_extent();
  const std::optional<RecordedCrc> recorded = source.recorded_crc();
  if (!extent.has_value() || !recorded.has_value() || recorded->extent != *extent) {
    return std::nullopt;
  }
  return recorded->crc;
}

Result<bool> same_bytes(const TensorSource& a, const TensorSource& b) {
  if (const std::optional<bool> known = known_to_be_same(a, b)) return *known;
  const int64_t step = kCompareBytes / dtype_size(a.dtype());
  for (int64_t first = 0; first < a.elements(); first += step) {
    const int64_t count = std::min(step, a.elements() - first);
    MEG_ASSIGN_OR_RETURN(const bool same, same_elements(a, b, first, count));
    if (!same) return false;
  }
  return true;
}

Result<bool> seem_same_bytes(const TensorSource& a, const TensorSource& b) {
  if (const std::optional<bool> known = known_to_be_same(a, b)) return *known;
  const int64_t count = std::min(kElementsAtOnePlace, a.elements());
  const int64_t last = a.elements() - count;
  for (const int64_t first : {int64_t{0}, last / 2, last}) {
    MEG_ASSIGN_OR_RETURN(const bool same, same_elements(a, b, first, count));
    if (!same) return false;
  }
  return true;
}

}  // namespace meg::checkpoint
