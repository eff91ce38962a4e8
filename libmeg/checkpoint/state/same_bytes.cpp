#include "libmeg/checkpoint/state/same_bytes.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace meg::checkpoint {
namespace {

constexpr int64_t kCompareBytes = int64_t{1} << 20;

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
  if (a.elements() != b.elements() || a.dtype() != b.dtype()) return false;
  const std::optional<uint32_t> crc_of_a = recorded_crc_of_all(a);
  const std::optional<uint32_t> crc_of_b = recorded_crc_of_all(b);
  // Callers compare an embedding with its tied copy, gigabytes perhaps; recorded CRCs cost no
  // reading.
  if (crc_of_a.has_value() && crc_of_b.has_value()) return *crc_of_a == *crc_of_b;
  const int64_t element = dtype_size(a.dtype());
  const int64_t step = kCompareBytes / element;
  std::vector<std::byte> bytes_of_a, bytes_of_b;
  for (int64_t first = 0; first < a.elements(); first += step) {
    const auto size = static_cast<size_t>(std::min(step, a.elements() - first) * element);
    bytes_of_a.resize(size);
    bytes_of_b.resize(size);
    MEG_RETURN_IF_ERROR(a.read(first, bytes_of_a));
    MEG_RETURN_IF_ERROR(b.read(first, bytes_of_b));
    if (std::memcmp(bytes_of_a.data(), bytes_of_b.data(), size) != 0) return false;
  }
  return true;
}

}  // namespace meg::checkpoint
