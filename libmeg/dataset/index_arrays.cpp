#include "libmeg/dataset/index_arrays.h"

#include "libmeg/dataset/internal/tntidx_format.h"

namespace meg::dataset {
namespace {

std::span<const std::byte> between(std::span<const std::byte> idx, int64_t begin, int64_t end) {
  return idx.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

}  // namespace

IndexArrays index_arrays(std::span<const std::byte> idx, const IndexLayout& layout) {
  IndexArrays arrays;
  arrays.sequence_lengths =
      LittleEndianArray<int32_t>(between(idx, layout.sequence_lengths, layout.sequence_pointers));
  arrays.sequence_pointers =
      LittleEndianArray<int64_t>(between(idx, layout.sequence_pointers, layout.document_indices));
  arrays.document_indices =
      LittleEndianArray<int64_t>(between(idx, layout.document_indices, layout.sequence_modes));
  return arrays;
}

IndexArrays index_arrays(std::span<const std::byte> idx, const TntidxLayout& layout,
                         int64_t item_size) {
  IndexArrays arrays;
  arrays.sequence_lengths =
      LittleEndianArray<int32_t>::of_int64(between(idx, layout.sizes, layout.document_indices), 1);
  // Leave out the last offset, which is the end of all items.
  arrays.sequence_pointers = LittleEndianArray<int64_t>::of_int64(
      between(idx, layout.data_offsets, layout.sizes - 8), item_size);
  arrays.document_indices =
      LittleEndianArray<int64_t>(between(idx, layout.document_indices, layout.end));
  arrays.dim_offsets =
      LittleEndianArray<int64_t>(between(idx, layout.dim_offsets, layout.data_offsets));
  return arrays;
}

}  // namespace meg::dataset
