#include "libmeg/dataset/internal/tntidx_format.h"

#include <cstring>
#include <limits>

#include "libmeg/base/bytes.h"

namespace meg::dataset {

Result<TntidxHeader> read_tntidx_header(std::span<const std::byte> idx, const std::string& name) {
  if (idx.size() < size_t{kTntidxHeaderSize}) {
    return make_error(StatusCode::kCorruption, "{}: expected a header of {} bytes, found {} bytes",
                      name, kTntidxHeaderSize, idx.size());
  }
  TntidxHeader header;
  header.version = load_le<uint64_t>(&idx[kTntidxVersionOffset]);
  header.dtype_code = load_le<uint64_t>(&idx[kTntidxDtypeOffset]);
  header.item_size = load_le<uint64_t>(&idx[kTntidxItemSizeOffset]);
  header.item_count = load_le<uint64_t>(&idx[kTntidxItemCountOffset]);
  header.size_count = load_le<uint64_t>(&idx[kTntidxSizeCountOffset]);
  header.document_index_count = load_le<uint64_t>(&idx[kTntidxDocumentIndicesOffset]);
  return header;
}

void store_tntidx_header(const TntidxHeader& header, std::span<std::byte, kTntidxHeaderSize> into) {
  std::memcpy(into.data(), kTntidxMagic.data(), kTntidxMagic.size());
  store_le(&into[kTntidxVersionOffset], header.version);
  store_le(&into[kTntidxDtypeOffset], header.dtype_code);
  store_le(&into[kTntidxItemSizeOffset], header.item_size);
  store_le(&into[kTntidxItemCountOffset], header.item_count);
  store_le(&into[kTntidxSizeCountOffset], header.size_count);
  store_le(&into[kTntidxDocumentIndicesOffset], header.document_index_count);
}

std::optional<TntidxLayout> tntidx_layout(uint64_t item_count, uint64_t size_count,
                                          uint64_t document_index_count) {
  // Far fewer entries than int64 bytes can hold, so that the sums below cannot overflow.
  constexpr auto kMostEntries = uint64_t{std::numeric_limits<int64_t>::max()} / 64;
  for (const uint64_t count : {item_count, size_count, document_index_count}) {
    if (count >= kMostEntries) return std::nullopt;
  }
  const int64_t offsets_bytes = 8 * (static_cast<int64_t>(item_count) + 1);
  TntidxLayout layout;
  layout.dim_offsets = kTntidxHeaderSize;
  layout.data_offsets = layout.dim_offsets + offsets_bytes;
  layout.sizes = layout.data_offsets + offsets_bytes;
  layout.document_indices = layout.sizes + 8 * static_cast<int64_t>(size_count);
  layout.end = layout.document_indices + 8 * static_cast<int64_t>(document_index_count);
  return layout;
}

std::optional<DType> tntidx_dtype(uint64_t code, uint64_t item_size) {
  const std::optional<DType> dtype = index_dtype(code);
  if (!dtype.has_value() || static_cast<uint64_t>(dtype_size(*dtype)) == item_size) return dtype;
  const bool is_float64_of_v2_6 =
      (dtype == DType::kFloat64 && item_size == 4) || (dtype == DType::kFloat32 && item_size == 8);
  return is_float64_of_v2_6 ? std::optional(DType::kFloat64) : std::nullopt;
}

}  // namespace meg::dataset
