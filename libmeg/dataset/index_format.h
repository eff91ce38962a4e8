#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "libmeg/base/dtype.h"
#include "libmeg/base/result.h"
#include "libmeg/dataset/little_endian_array.h"

/// The MMIDIDX bytes, in one place; FORMAT.md beside this file describes them in prose. Mirrors
/// Megatron-LM megatron/core/datasets/indexed_dataset.py: _INDEX_HEADER, DType, _IndexWriter.
namespace meg::dataset {

/// The formats of an .idx file. Both have the same .bin.
enum class IndexFormat {
  kMmididx,  ///< `--dataset-impl mmap`, the only one since Megatron core.
  kTntidx,   ///< `--dataset-impl lazy` and `cached`, up to 6ef5bdc; internal/tntidx_format.h.
};

/// "MMIDIDX" or "TNTIDX".
std::string_view index_format_name(IndexFormat format);

/// The format by the first bytes of an .idx file; kMmididx for those of neither.
IndexFormat index_format(std::span<const std::byte> idx);

/// Bytes of an .idx file of tokens without modes; both counts are at least 0.
int64_t index_bytes(IndexFormat format, int64_t sequences, int64_t documents);

inline constexpr std::string_view kIndexMagic("MMIDIDX\0\0", 9);
inline constexpr uint64_t kIndexVersion = 1;  ///< The same for both formats.

// Byte offsets of the header's fields in the .idx file.
inline constexpr int64_t kIndexVersionOffset = 9;           ///< u64
inline constexpr int64_t kIndexDtypeOffset = 17;            ///< u8, see index_dtype_code()
inline constexpr int64_t kIndexSequenceCountOffset = 18;    ///< u64: S
inline constexpr int64_t kIndexDocumentIndicesOffset = 26;  ///< u64: D = documents + 1
inline constexpr int64_t kIndexHeaderSize = 34;             ///< The arrays follow, unaligned.

/// The fields of the header, with codes as in the file.
struct IndexHeader {
  uint64_t version = kIndexVersion;
  uint8_t dtype_code = 0;
  uint64_t sequence_count = 0;
  uint64_t document_index_count = 0;
};

/// Reads the fields from the first bytes of an .idx file, called `name` in errors: kCorruption if
/// it is too short or has a different magic. The fields are not checked.
Result<IndexHeader> read_index_header(std::span<const std::byte> idx, const std::string& name);

/// Writes the kIndexHeaderSize bytes of a header.
void store_index_header(const IndexHeader& header, std::span<std::byte, kIndexHeaderSize> into);

/// Where the arrays of an .idx file with S sequences and D document indices begin, in bytes.
struct IndexLayout {
  int64_t sequence_lengths = 0;   ///< S x i32, items
  int64_t sequence_pointers = 0;  ///< S x i64, bytes into .bin
  int64_t document_indices = 0;   ///< D x i64, sequences; first 0, last S
  int64_t sequence_modes = 0;     ///< S x i8, only in multimodal files; else the file's end
};

/// nullopt if the file's size would not fit an int64_t.
std::optional<IndexLayout> index_layout(uint64_t sequence_count, uint64_t document_index_count);

/// The code of dtype in the header, 1 to 8. nullopt for dtypes that datasets cannot have.
std::optional<uint8_t> index_dtype_code(DType dtype);

/// The inverse of index_dtype_code, for whatever a header has there.
std::optional<DType> index_dtype(uint64_t code);

/// Megatron-LM up to v2.6 writes float64 with this code, which later means float32.
inline constexpr uint8_t kLegacyFloat64Code = 7;

/// Whether the items of a file with code 7 have 8 bytes, according to the pointer after the first
/// sequence that is not empty, or to the .bin size if that is the last one. Reads at most a few
/// thousand entries.
bool is_legacy_float64(LittleEndianArray<int32_t> sequence_lengths,
                       LittleEndianArray<int64_t> sequence_pointers, int64_t bin_bytes);

/// path without a final ".bin" or ".idx": users name a dataset by its prefix or by either file.
std::string dataset_prefix(std::string_view path);

/// The dataset of masks that belongs to a packed dataset at `prefix`: which tokens are learned.
std::string loss_mask_prefix(const std::string& prefix);

/// kUnsupported if a dataset that is to be written, or can only be read from files, is named by an
/// address such as s3://.
Status check_is_path(std::string_view prefix);

}  // namespace meg::dataset
