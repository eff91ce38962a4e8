#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "libmeg/base/dtype.h"
#include "libmeg/base/result.h"
#include "libmeg/dataset/index_format.h"

/// The TNTIDX bytes, in one place; FORMAT.md describes them in prose. Mirrors Megatron-LM v2.6
/// megatron/data/indexed_dataset.py: IndexedDatasetBuilder.finalize, IndexedDataset.read_index.
namespace meg::dataset {

inline constexpr std::string_view kTntidxMagic("TNTIDX\0\0", 8);

// Byte offsets of the header's fields, all of them u64.
inline constexpr int64_t kTntidxVersionOffset = 8;
inline constexpr int64_t kTntidxDtypeOffset = 16;
inline constexpr int64_t kTntidxItemSizeOffset = 24;
inline constexpr int64_t kTntidxItemCountOffset = 32;        ///< N
inline constexpr int64_t kTntidxSizeCountOffset = 40;        ///< M
inline constexpr int64_t kTntidxDocumentIndicesOffset = 48;  ///< D = documents + 1
inline constexpr int64_t kTntidxHeaderSize = 56;

/// The fields of the header, as in the file. An item corresponds to a sequence in MMIDIDX.
struct TntidxHeader {
  uint64_t version = kIndexVersion;
  uint64_t dtype_code = 0;
  uint64_t item_size = 0;  ///< Bytes that data offsets count.
  uint64_t item_count = 0;
  uint64_t size_count = 0;
  uint64_t document_index_count = 0;
};

/// Reads the fields from the first bytes of an .idx file that begins with the magic, called `name`
/// in errors: kCorruption if it is too short. The fields are not checked.
Result<TntidxHeader> read_tntidx_header(std::span<const std::byte> idx, const std::string& name);

/// Writes the kTntidxHeaderSize bytes of a header.
void store_tntidx_header(const TntidxHeader& header, std::span<std::byte, kTntidxHeaderSize> into);

/// Where the arrays begin, all of them i64, in bytes.
struct TntidxLayout {
  int64_t dim_offsets = 0;       ///< N + 1, entries of sizes
  int64_t data_offsets = 0;      ///< N + 1, in units of the header's item size
  int64_t sizes = 0;             ///< M: the shapes of all items, one after another
  int64_t document_indices = 0;  ///< D, entries of sizes; first 0, last M
  int64_t end = 0;               ///< of the file
};

/// nullopt if the file's size would not fit an int64_t.
std::optional<TntidxLayout> tntidx_layout(uint64_t item_count, uint64_t size_count,
                                          uint64_t document_index_count);

/// What a code stands for in a file with this item size, which tells what revisions call by one
/// code: up to v2.6 the codes 6 and 7 both are float64, 6 with an item size of 4. nullopt where no
/// revision writes the two together.
std::optional<DType> tntidx_dtype(uint64_t code, uint64_t item_size);

}  // namespace meg::dataset
