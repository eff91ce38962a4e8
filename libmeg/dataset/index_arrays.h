#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/little_endian_array.h"

namespace meg::dataset {

struct TntidxLayout;

/// The arrays that both formats of an .idx file have, in place, however each of them stores them.
/// Nothing is checked: the entries may be anything.
struct IndexArrays {
  LittleEndianArray<int32_t> sequence_lengths;   ///< S, items
  LittleEndianArray<int64_t> sequence_pointers;  ///< S, bytes into .bin
  LittleEndianArray<int64_t> document_indices;   ///< D, sequences
  LittleEndianArray<int64_t> dim_offsets;        ///< S + 1, only of TNTIDX
};

/// idx: a whole file, which must outlive the arrays and reach at least to layout.sequence_modes.
IndexArrays index_arrays(std::span<const std::byte> idx, const IndexLayout& layout);

/// idx: reaches at least to layout.end and has as many sizes as items, one dimension each.
/// item_size: the header's, at least 1.
IndexArrays index_arrays(std::span<const std::byte> idx, const TntidxLayout& layout,
                         int64_t item_size);

}  // namespace meg::dataset
