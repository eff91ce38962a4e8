#include "libmeg/dataset/index_format.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "libmeg/base/bytes.h"
#include "libmeg/dataset/internal/tntidx_format.h"
#include "libmeg/text/printable.h"

namespace meg::dataset {
namespace {

/// kCodes[i] has the code i + 1.
constexpr std::array kCodes = {DType::kUint8, DType::kInt8,    DType::kInt16,   DType::kInt32,
                               DType::kInt64, DType::kFloat64, DType::kFloat32, DType::kUint16};

/// The first bytes, at most `count` of them.
std::string_view first_bytes(std::span<const std::byte> idx, size_t count) {
  const auto found = idx.first(std::min(idx.size(), count));
  return {reinterpret_cast<const char*>(found.data()), found.size()};
}

}  // namespace

std::string_view index_format_name(IndexFormat format) {
  return format == IndexFormat::kTntidx ? "TNTIDX" : "MMIDIDX";
}

IndexFormat index_format(std::span<const std::byte> idx) {
  // A file that ends within a magic is a truncated one of that format.
  const std::string_view found = first_bytes(idx, kTntidxMagic.size());
  const bool is_tntidx = !found.empty() && kTntidxMagic.starts_with(found);
  return is_tntidx ? IndexFormat::kTntidx : IndexFormat::kMmididx;
}

int64_t index_bytes(IndexFormat format, int64_t sequences, int64_t documents) {
  const auto count = static_cast<uint64_t>(sequences);
  const auto document_indices = static_cast<uint64_t>(documents) + 1;
  return format == IndexFormat::kTntidx
             ? tntidx_layout(count, count, document_indices).value().end
             : index_layout(count, document_indices).value().sequence_modes;
}

Result<IndexHeader> read_index_header(std::span<const std::byte> idx, const std::string& name) {
  // A file that ends within the magic is truncated; one that differs is something else.
  const std::string_view text = first_bytes(idx, kIndexMagic.size());
  if (!kIndexMagic.starts_with(text)) {
    return make_error(StatusCode::kCorruption, "{}: byte 0: bad magic: expected {}, found {}", name,
                      text::printable(kIndexMagic), text::printable(text));
  }
  if (idx.size() < size_t{kIndexHeaderSize}) {
    return make_error(StatusCode::kCorruption, "{}: expected a header of {} bytes, found {} bytes",
                      name, kIndexHeaderSize, idx.size());
  }
  IndexHeader header;
  header.version = load_le<uint64_t>(&idx[kIndexVersionOffset]);
  header.dtype_code = load_le<uint8_t>(&idx[kIndexDtypeOffset]);
  header.sequence_count = load_le<uint64_t>(&idx[kIndexSequenceCountOffset]);
  header.document_index_count = load_le<uint64_t>(&idx[kIndexDocumentIndicesOffset]);
  return header;
}

void store_index_header(const IndexHeader& header, std::span<std::byte, kIndexHeaderSize> into) {
  std::memcpy(into.data(), kIndexMagic.data(), kIndexMagic.size());
  store_le(&into[kIndexVersionOffset], header.version);
  store_le(&into[kIndexDtypeOffset], header.dtype_code);
  store_le(&into[kIndexSequenceCountOffset], header.sequence_count);
  store_le(&into[kIndexDocumentIndicesOffset], header.document_index_count);
}

std::optional<IndexLayout> index_layout(uint64_t sequence_count, uint64_t document_index_count) {
  // 13 bytes a sequence: length, pointer and mode.
  uint64_t sequence_bytes = 0;
  uint64_t document_bytes = 0;
  uint64_t size = 0;
  const bool fits = checked_multiply(sequence_count, 13, &sequence_bytes) &&
                    checked_multiply(document_index_count, 8, &document_bytes) &&
                    checked_add(sequence_bytes, document_bytes, &size) &&
                    size <= uint64_t{std::numeric_limits<int64_t>::max()} - kIndexHeaderSize;
  if (!fits) return std::nullopt;
  const auto sequences = static_cast<int64_t>(sequence_count);
  IndexLayout layout;
  layout.sequence_lengths = kIndexHeaderSize;
  layout.sequence_pointers = layout.sequence_lengths + 4 * sequences;
  layout.document_indices = layout.sequence_pointers + 8 * sequences;
  layout.sequence_modes = layout.document_indices + 8 * static_cast<int64_t>(document_index_count);
  return layout;
}

std::optional<uint8_t> index_dtype_code(DType dtype) {
  const auto found = std::find(kCodes.begin(), kCodes.end(), dtype);
  if (found == kCodes.end()) return std::nullopt;
  return static_cast<uint8_t>(found - kCodes.begin() + 1);
}

std::optional<DType> index_dtype(uint64_t code) {
  if (code < 1 || code > kCodes.size()) return std::nullopt;
  return kCodes[code - 1];
}

bool is_legacy_float64(LittleEndianArray<int32_t> sequence_lengths,
                       LittleEndianArray<int64_t> sequence_pointers, int64_t bin_bytes) {
  constexpr int64_t kMaxEntries = 4096;
  const int64_t sequences = sequence_lengths.size();
  const int64_t looked_at = std::min(sequences, kMaxEntries);
  for (int64_t i = 0; i < looked_at; ++i) {
    // Code 7 says float64 up to v2.6 and float32 later; the distance between two pointers tells 8
    // bytes an item from 4. The first sequence that has items decides.
    if (sequence_lengths[i] <= 0) continue;
    const int64_t end = i + 1 < sequences ? sequence_pointers[i + 1] : bin_bytes;
    const uint64_t bytes = static_cast<uint64_t>(end) - static_cast<uint64_t>(sequence_pointers[i]);
    return bytes == 8 * static_cast<uint64_t>(sequence_lengths[i]);
  }
  return false;
}

std::string dataset_prefix(std::string_view path) {
  if (path.ends_with(".bin") || path.ends_with(".idx")) path.remove_suffix(4);
  return std::string(path);
}

std::string loss_mask_prefix(const std::string& prefix) { return prefix + "_loss_mask"; }

Status check_is_path(std::string_view prefix) {
  if (prefix.find("://") == prefix.npos) return Status();
  return make_error(StatusCode::kUnsupported,
                    "{}: expected a path on this machine: only input datasets may be at addresses",
                    prefix);
}

}  // namespace meg::dataset
