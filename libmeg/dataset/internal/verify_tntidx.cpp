#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "libmeg/base/bytes.h"
#include "libmeg/dataset/internal/verify_index.h"

// What TNTIDX has besides or instead of MMIDIDX: its header, the places of its arrays, an offset
// after the last item, and a shape for each item, which is the one size of a sequence of tokens.

namespace meg::dataset {

/// False where the file ends inside.
bool IndexVerifier::check_tntidx_header() {
  const auto header = read_tntidx_header(idx_.bytes(), idx_.path());
  if (!header.has_value()) {
    constexpr std::array kFields = {
        IndexPart{"the magic", 0, 0},
        IndexPart{"the version", kTntidxVersionOffset, 0},
        IndexPart{"the dtype", kTntidxDtypeOffset, 0},
        IndexPart{"the item size", kTntidxItemSizeOffset, 0},
        IndexPart{"the item count", kTntidxItemCountOffset, 0},
        IndexPart{"the size count", kTntidxSizeCountOffset, 0},
        IndexPart{"the document count", kTntidxDocumentIndicesOffset, 0}};
    add({.check = VerifyCheck::kHeader,
         .file = idx_.path(),
         .byte_offset = report_.idx_bytes,
         .subject = where_it_ends(kFields, report_.idx_bytes),
         .expected = fmt::format("{} bytes", kTntidxHeaderSize),
         .found = fmt::format("{} bytes", report_.idx_bytes)});
    return false;
  }
  tntidx_ = *header;
  check_version(kTntidxVersionOffset, tntidx_.version);
  report_.dtype = tntidx_dtype(tntidx_.dtype_code, tntidx_.item_size);
  if (report_.dtype.has_value()) {
    item_size_ = dtype_size(*report_.dtype);
    storage_.pointer_unit = static_cast<int64_t>(tntidx_.item_size);
    return true;
  }
  const std::optional<DType> dtype = index_dtype(tntidx_.dtype_code);
  if (!dtype.has_value()) {
    add({.check = VerifyCheck::kDtype,
         .file = idx_.path(),
         .byte_offset = kTntidxDtypeOffset,
         .expected = "1 to 8",
         .found = std::to_string(tntidx_.dtype_code)});
    return true;
  }
  // The code says how wide items are, so that the rest can be checked all the same.
  report_.dtype = dtype;
  item_size_ = storage_.pointer_unit = dtype_size(*dtype);
  add({.check = VerifyCheck::kItemSize,
       .file = idx_.path(),
       .byte_offset = kTntidxItemSizeOffset,
       .expected = fmt::format("{} for {}", item_size_, dtype_name(*dtype)),
       .found = std::to_string(tntidx_.item_size)});
  return true;
}

/// Places the arrays; false where the counts do not say where they are.
Result<bool> IndexVerifier::check_tntidx_sizes() {
  const int64_t size = report_.idx_bytes;
  if (tntidx_.document_index_count == 0) {
    explain_tntidx_counts(add({.check = VerifyCheck::kDocumentCount,
                               .file = idx_.path(),
                               .byte_offset = kTntidxDocumentIndicesOffset,
                               .expected = "at least 1",
                               .found = "0"}));
    return false;
  }
  const auto layout =
      tntidx_layout(tntidx_.item_count, tntidx_.size_count, tntidx_.document_index_count);
  const std::string counts =
      fmt::format("{} items, {} sizes and {} document indices", tntidx_.item_count,
                  tntidx_.size_count, tntidx_.document_index_count);
  if (!layout.has_value()) {
    explain_tntidx_counts(add({.check = VerifyCheck::kIdxSize,
                               .file = idx_.path(),
                               .byte_offset = kTntidxItemCountOffset,
                               .expected = "counts that a file can hold",
                               .found = counts}));
    return false;
  }
  if (size != layout->end) {
    const std::array parts = {IndexPart{"dim_offsets", layout->dim_offsets, 8},
                              IndexPart{"data_offsets", layout->data_offsets, 8},
                              IndexPart{"sizes", layout->sizes, 8},
                              IndexPart{"document_indices", layout->document_indices, 8}};
    explain_tntidx_counts(add({.check = VerifyCheck::kIdxSize,
                               .file = idx_.path(),
                               .byte_offset = std::min(size, layout->end),
                               .subject = size < layout->end ? where_it_ends(parts, size) : "",
                               .expected = fmt::format("{} bytes for {}", layout->end, counts),
                               .found = fmt::format("{} bytes", size)}));
    // Something may have been appended to a whole file.
    const bool arrays_are_there = size > layout->end && tntidx_.item_count == tntidx_.size_count;
    if (!arrays_are_there) return false;
  }
  // Arrays of the right length in all: data that is no tokens, and not damaged.
  if (tntidx_.item_count != tntidx_.size_count) {
    return make_error(StatusCode::kUnsupported,
                      "{}: expected one dimension for each of the {} items, found {} sizes",
                      idx_.path(), tntidx_.item_count, tntidx_.size_count);
  }
  place_arrays(index_arrays(idx_.bytes(), *layout, storage_.pointer_unit),
               {.lengths = layout->sizes,
                .pointers = layout->data_offsets,
                .documents = layout->document_indices,
                .length_bytes = 8,
                .pointer_unit = storage_.pointer_unit});
  return true;
}

/// Says which count would fit, if one of the three would: the first two are equal, and they and the
/// document indices give the file's size.
void IndexVerifier::explain_tntidx_counts(Problem& problem) const {
  const auto wrong = [&](std::string_view count, int64_t offset, uint64_t found, uint64_t right) {
    problem.likely_cause =
        fmt::format("the {} at byte {} is {}, should be {}", count, offset, found, right);
  };
  const uint64_t items = tntidx_.item_count;
  const uint64_t sizes = tntidx_.size_count;
  const uint64_t documents = tntidx_.document_index_count;
  if (items != sizes && tntidx_counts_fit(sizes, documents)) {
    return wrong("item count", kTntidxItemCountOffset, items, sizes);
  }
  if (items != sizes && tntidx_counts_fit(items, documents)) {
    return wrong("size count", kTntidxSizeCountOffset, sizes, items);
  }
  const auto layout = tntidx_layout(items, sizes, 0);
  if (!layout.has_value() || layout->end > report_.idx_bytes) return;
  const auto by_size = static_cast<uint64_t>(report_.idx_bytes - layout->end) / 8;
  if (items == sizes && tntidx_counts_fit(items, by_size)) {
    wrong("document index count", kTntidxDocumentIndicesOffset, documents, by_size);
  }
}

/// Whether the counts explain the file's size, and the document indices run from 0 to the end where
/// they place them.
bool IndexVerifier::tntidx_counts_fit(uint64_t items, uint64_t document_indices) const {
  const auto layout = tntidx_layout(items, items, document_indices);
  if (!layout.has_value() || layout->end != report_.idx_bytes || document_indices == 0) {
    return false;
  }
  const std::byte* const bytes = idx_.bytes().data();
  return load_le<int64_t>(bytes + layout->document_indices) == 0 &&
         load_le<uint64_t>(bytes + layout->end - 8) == items;
}

/// The offset after the last item, which Megatron's cached reader and its merge use.
void IndexVerifier::check_last_offset() {
  const int64_t last = report_.sequence_count;
  const auto found = LittleEndianArray<int64_t>::of_int64(
      idx_.bytes().subspan(static_cast<size_t>(storage_.pointer_at(last)), 8),
      storage_.pointer_unit)[0];
  // Where an earlier offset or length is wrong, that is reported, and this one follows from it.
  const bool follows = wrong_pointers_ > 0 || item_size_ == 0;
  if (follows || found == expected_bin_bytes()) return;
  add({.check = VerifyCheck::kSequencePointers,
       .file = idx_.path(),
       .byte_offset = storage_.pointer_at(last),
       .subject = fmt::format("data offset {}", last),
       .index = {last},
       .expected = std::to_string(expected_bin_bytes() / storage_.pointer_unit),
       .found = stored_pointer(last)});
}

void IndexVerifier::check_dim_offsets() {
  Problem problem{.check = VerifyCheck::kDimOffsets, .file = idx_.path(), .count = 0};
  std::vector<int64_t> buffer = arrays_.dim_offsets.piece_buffer();
  for (int64_t first = 0; first < arrays_.dim_offsets.size();) {
    const auto piece = arrays_.dim_offsets.copy(first, buffer);
    for (size_t i = 0; i < piece.size(); ++i) {
      const int64_t index = first + static_cast<int64_t>(i);
      if (piece[i] == index || problem.count++ > 0) continue;
      problem.byte_offset = kTntidxHeaderSize + 8 * index;
      problem.subject = fmt::format("dim offset {}", index);
      problem.index = {index};
      problem.expected = std::to_string(index);
      problem.found = std::to_string(piece[i]);
    }
    const int64_t end = first + static_cast<int64_t>(piece.size());
    idx_.release(arrays_.dim_offsets.bytes(first, end));
    first = end;
  }
  if (problem.count > 0) add(std::move(problem));
}

}  // namespace meg::dataset
