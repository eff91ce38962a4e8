#include "libmeg/dataset/indexed_dataset.h"

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "libmeg/base/bytes.h"
#include "libmeg/dataset/internal/dataset_file.h"
#include "libmeg/dataset/internal/tntidx_format.h"
#include "libmeg/dataset/internal/view_files.h"

namespace meg::dataset {
namespace {

template <class T>
void append_le(std::vector<std::byte>& bytes, T value) {
  bytes.resize(bytes.size() + sizeof(T));
  store_le(bytes.data() + bytes.size() - sizeof(T), value);
}

template <class T, class Out>
Status widen(std::span<const std::byte> items, std::span<Out> out) {
  const LittleEndianArray<T> values(items);
  for (size_t i = 0; i < out.size(); ++i) {
    const T value = values[static_cast<int64_t>(i)];
    // Only there can a value be lost; ids that are too large must not wrap around to others.
    if constexpr (sizeof(T) > sizeof(Out)) {
      if (!std::in_range<Out>(value)) {
        return make_error(StatusCode::kOutOfRange, "item {}: {} does not fit in {}", i, value,
                          dtype_name(dtype_of<Out>()));
      }
    }
    out[i] = static_cast<Out>(value);
  }
  return Status();
}

template <class Out>
Status widen(DType dtype, std::span<const std::byte> items, std::span<Out> out) {
  switch (dtype) {
    case DType::kUint8:
      return widen<uint8_t>(items, out);
    case DType::kInt8:
      return widen<int8_t>(items, out);
    case DType::kUint16:
      return widen<uint16_t>(items, out);
    case DType::kInt16:
      return widen<int16_t>(items, out);
    case DType::kInt32:
      return widen<int32_t>(items, out);
    case DType::kInt64:
      return widen<int64_t>(items, out);
    default:
      return make_error(StatusCode::kInvalidArgument, "{} items are not token ids",
                        dtype_name(dtype));
  }
}

template <class Out>
Status copy_widened(const IndexedDataset& dataset, int64_t sequence, int64_t offset,
                    std::span<Out> out) {
  std::vector<std::byte> buffer;
  MEG_ASSIGN_OR_RETURN(
      const auto items,
      dataset.sequence(sequence, offset, static_cast<int64_t>(out.size()), buffer));
  Status status = widen(dataset.dtype(), items, out);
  if (status.ok()) return status;
  return status.with_prefix(fmt::format("{}: sequence {}", dataset.bin().path(), sequence));
}

}  // namespace

Result<IndexedDataset> IndexedDataset::open(const std::string& prefix, const Options& options) {
  IndexedDataset dataset;
  dataset.prefix_ = dataset_prefix(prefix);
  MEG_RETURN_IF_ERROR(check_is_readable(dataset.prefix_));
  MEG_ASSIGN_OR_RETURN(dataset.idx_, map_dataset_file(dataset.prefix_ + ".idx", options.idx_cache));
  dataset.format_ = index_format(dataset.idx_.bytes());
  MEG_RETURN_IF_ERROR(dataset.format_ == IndexFormat::kTntidx ? dataset.open_tntidx(options)
                                                              : dataset.open_mmididx(options));
  dataset.item_size_ = dtype_size(dataset.dtype_);
  // Some pages at both ends, which expose most files that were truncated or do not belong together.
  MEG_RETURN_IF_ERROR(dataset.check_ends());
  return dataset;
}

Status IndexedDataset::open_mmididx(const Options& options) {
  const std::string& name = idx_.path();
  MEG_ASSIGN_OR_RETURN(const IndexHeader header, read_index_header(idx_.bytes(), name));
  if (header.version != kIndexVersion) {
    return make_error(StatusCode::kUnsupported, "{}: byte {}: version: expected {}, found {}", name,
                      kIndexVersionOffset, kIndexVersion, header.version);
  }
  const std::optional<DType> dtype = index_dtype(header.dtype_code);
  if (!dtype.has_value()) {
    return make_error(StatusCode::kCorruption, "{}: byte {}: dtype: expected 1 to 8, found {}",
                      name, kIndexDtypeOffset, header.dtype_code);
  }
  dtype_ = *dtype;
  MEG_RETURN_IF_ERROR(map_arrays(header, options));
  MEG_ASSIGN_OR_RETURN(bin_, open_bin(prefix_, options.access));
  if (bin_.object() == nullptr) MEG_RETURN_IF_ERROR(check_view(prefix_, bin_));
  // Decide after .bin is open: its size decides between the two meanings of this code.
  if (header.dtype_code == kLegacyFloat64Code &&
      is_legacy_float64(arrays_.sequence_lengths, arrays_.sequence_pointers, bin_.size())) {
    dtype_ = DType::kFloat64;
  }
  return Status();
}

Status IndexedDataset::map_arrays(const IndexHeader& header, const Options& options) {
  const auto size = static_cast<int64_t>(idx_.size());
  const auto layout = index_layout(header.sequence_count, header.document_index_count);
  if (header.document_index_count == 0) {
    return make_error(StatusCode::kCorruption,
                      "{}: byte {}: document indices: expected at least 1, found 0", idx_.path(),
                      kIndexDocumentIndicesOffset);
  }
  if (!layout.has_value() || layout->sequence_modes > size) {
    return make_error(StatusCode::kCorruption,
                      "{}: {} bytes are too few for {} sequences and {} document indices",
                      idx_.path(), size, header.sequence_count, header.document_index_count);
  }
  const auto sequences = static_cast<int64_t>(header.sequence_count);
  const int64_t with_modes = layout->sequence_modes + sequences;
  // The header says nothing of modes; where the caller does not either, the size decides.
  multimodal_ = options.multimodal.value_or(sequences > 0 && size == with_modes);
  const int64_t expected = multimodal_ ? with_modes : layout->sequence_modes;
  if (size != expected) {
    return make_error(StatusCode::kCorruption,
                      "{}: {} sequences and {} document indices{}: expected {} bytes, found {}",
                      idx_.path(), sequences, header.document_index_count,
                      multimodal_ ? " with modes" : "", expected, size);
  }
  arrays_ = index_arrays(idx_.bytes(), *layout);
  modes_ = LittleEndianArray<int8_t>(idx_bytes(layout->sequence_modes, size));
  return Status();
}

Status IndexedDataset::open_tntidx(const Options& options) {
  const std::string& name = idx_.path();
  MEG_ASSIGN_OR_RETURN(const TntidxHeader header, read_tntidx_header(idx_.bytes(), name));
  if (header.version != kIndexVersion) {
    return make_error(StatusCode::kUnsupported, "{}: byte {}: version: expected {}, found {}", name,
                      kTntidxVersionOffset, kIndexVersion, header.version);
  }
  const std::optional<DType> dtype = tntidx_dtype(header.dtype_code, header.item_size);
  if (!dtype.has_value()) {
    return make_error(StatusCode::kCorruption,
                      "{}: byte {}: expected a dtype of 1 to 8 and the size of its items, found {} "
                      "and {}",
                      name, kTntidxDtypeOffset, header.dtype_code, header.item_size);
  }
  if (options.multimodal.value_or(false)) {
    return make_error(StatusCode::kUnsupported, "{}: TNTIDX has no sequence modes", name);
  }
  dtype_ = *dtype;
  MEG_RETURN_IF_ERROR(map_tntidx_arrays(header, options.flatten));
  MEG_ASSIGN_OR_RETURN(bin_, BinFile::open(prefix_ + ".bin", options.access));
  return Status();
}

Status IndexedDataset::map_tntidx_arrays(const TntidxHeader& header, bool flatten) {
  const auto size = static_cast<int64_t>(idx_.size());
  const auto layout =
      tntidx_layout(header.item_count, header.size_count, header.document_index_count);
  if (!layout.has_value() || layout->end != size) {
    return make_error(
        StatusCode::kCorruption,
        "{}: {} items, {} sizes and {} document indices: expected {}, found {} bytes", idx_.path(),
        header.item_count, header.size_count, header.document_index_count,
        layout.has_value() ? fmt::format("{} bytes", layout->end) : "smaller counts", size);
  }
  if (header.document_index_count == 0) {
    return make_error(StatusCode::kCorruption,
                      "{}: byte {}: document indices: expected at least 1, found 0", idx_.path(),
                      kTntidxDocumentIndicesOffset);
  }
  if (header.item_count != header.size_count && !flatten) {
    return make_error(StatusCode::kUnsupported,
                      "{}: expected one dimension for each of the {} items, found {} sizes",
                      idx_.path(), header.item_count, header.size_count);
  }
  arrays_ = index_arrays(idx_.bytes(), *layout, static_cast<int64_t>(header.item_size));
  return flatten ? flatten_items(*layout) : Status();
}

Status IndexedDataset::flatten_items(const TntidxLayout& layout) {
  FlatItems flat;
  flat.dim_offsets = arrays_.dim_offsets;
  flat.sizes = LittleEndianArray<int64_t>(idx_bytes(layout.sizes, layout.document_indices));
  const int64_t items = arrays_.sequence_pointers.size();
  bool has_one_dimension = flat.dim_offsets.front() == 0;
  for (int64_t item = 0; item < items; ++item) {
    const int64_t begin = flat.dim_offsets[item], end = flat.dim_offsets[item + 1];
    has_one_dimension = has_one_dimension && end == item + 1;
    const auto wrong = [&](StatusCode code, std::string_view what) {
      return make_error(code, "{}: item {}: {}, found dim offsets {} and {}", idx_.path(), item,
                        what, begin, end);
    };
    if (begin < 0 || begin > end || end > flat.sizes.size() || (item == 0 && begin != 0)) {
      return wrong(StatusCode::kCorruption, "expected sizes that are there");
    }
    // Documents count sizes: they could not tell where such an item belongs.
    if (begin == end) return wrong(StatusCode::kUnsupported, "expected a dimension or more");
    int64_t length = 1;
    for (int64_t at = begin; at < end; ++at) {
      const int64_t size = flat.sizes[at];
      const bool fits = size >= 0 && !__builtin_mul_overflow(length, size, &length) &&
                        length <= std::numeric_limits<int32_t>::max();
      if (!fits) return wrong(StatusCode::kCorruption, "expected fewer than 2^31 values");
    }
    append_le(flat.lengths, static_cast<int32_t>(length));
  }
  if (flat.dim_offsets.back() != flat.sizes.size()) {
    return make_error(StatusCode::kCorruption, "{}: dim offset {}: expected {} sizes, found {}",
                      idx_.path(), items, flat.sizes.size(), flat.dim_offsets.back());
  }
  if (has_one_dimension) return {};  // the arrays say all
  int64_t item = 0;
  for (int64_t i = 0; i < arrays_.document_indices.size(); ++i) {
    const int64_t size = arrays_.document_indices[i];
    while (item < items && flat.dim_offsets[item] < size) ++item;
    if (flat.dim_offsets[item] != size) {
      return make_error(StatusCode::kCorruption,
                        "{}: document index {}: expected the first size of an item, found {}",
                        idx_.path(), i, size);
    }
    append_le(flat.document_indices, item);
  }
  flat_ = std::make_shared<const FlatItems>(std::move(flat));
  arrays_.sequence_lengths = LittleEndianArray<int32_t>(flat_->lengths);
  arrays_.document_indices = LittleEndianArray<int64_t>(flat_->document_indices);
  arrays_.dim_offsets = {};
  return {};
}

std::vector<int64_t> IndexedDataset::shape(int64_t sequence) const {
  if (flat_ == nullptr) return {arrays_.sequence_lengths[sequence]};
  std::vector<int64_t> shape;
  for (int64_t at = flat_->dim_offsets[sequence]; at < flat_->dim_offsets[sequence + 1]; ++at) {
    shape.push_back(flat_->sizes[at]);
  }
  return shape;
}

std::span<const std::byte> IndexedDataset::idx_bytes(int64_t begin, int64_t end) const {
  return idx_.bytes().subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

std::span<const std::byte> IndexedDataset::header() const {
  return idx_bytes(0, format_ == IndexFormat::kTntidx ? kTntidxHeaderSize : kIndexHeaderSize);
}

/// The ends of the document indices and of the last sequence.
Status IndexedDataset::check_ends() const {
  if (arrays_.document_indices.front() != 0 ||
      arrays_.document_indices.back() != sequence_count()) {
    return make_error(StatusCode::kCorruption,
                      "{}: document indices: expected to run from 0 to {}, found {} to {}",
                      idx_.path(), sequence_count(), arrays_.document_indices.front(),
                      arrays_.document_indices.back());
  }
  if (sequence_count() == 0) return Status();
  return bytes_of(sequence_count() - 1).status();
}

int64_t IndexedDataset::item_count() const {
  uint64_t sum = 0;  // of a damaged file it may wrap around
  std::vector<int32_t> buffer = arrays_.sequence_lengths.piece_buffer();
  for (int64_t first = 0; first < arrays_.sequence_lengths.size();) {
    const auto piece = arrays_.sequence_lengths.copy(first, buffer);
    for (const int32_t length : piece) sum += static_cast<uint64_t>(int64_t{length});
    const int64_t end = first + static_cast<int64_t>(piece.size());
    idx_.release(arrays_.sequence_lengths.bytes(first, end));
    first = end;
  }
  return static_cast<int64_t>(sum);
}

/// Checked entry by entry when it is requested: going through all of them when opening would touch
/// every page of an index of gigabytes.
Result<SequenceRange> IndexedDataset::document(int64_t document) const {
  if (document < 0 || document >= document_count()) {
    return make_error(StatusCode::kOutOfRange, "{}: document {}: the dataset has {} documents",
                      prefix_, document, document_count());
  }
  const SequenceRange range{.begin = arrays_.document_indices[document],
                            .end = arrays_.document_indices[document + 1]};
  if (range.begin < 0 || range.begin > range.end || range.end > sequence_count()) {
    return make_error(StatusCode::kCorruption,
                      "{}: document {}: expected sequences within [0, {}), found [{}, {})",
                      idx_.path(), document, sequence_count(), range.begin, range.end);
  }
  return range;
}

/// Whether the shape of an item of TNTIDX is its own size, as arrays_.sequence_lengths assumes. In
/// a damaged file the dim offsets may name other sizes.
bool IndexedDataset::has_own_size(int64_t sequence) const {
  return arrays_.dim_offsets.empty() || (arrays_.dim_offsets[sequence] == sequence &&
                                         arrays_.dim_offsets[sequence + 1] == sequence + 1);
}

Result<IndexedDataset::ByteRange> IndexedDataset::bytes_of(int64_t sequence) const {
  if (sequence < 0 || sequence >= sequence_count()) {
    return make_error(StatusCode::kOutOfRange, "{}: sequence {}: the dataset has {} sequences",
                      prefix_, sequence, sequence_count());
  }
  const int64_t pointer = arrays_.sequence_pointers[sequence];
  const int32_t length = arrays_.sequence_lengths[sequence];
  const ByteRange range{.begin = pointer, .size = length * item_size_};
  if (!has_own_size(sequence)) {
    return make_error(StatusCode::kCorruption,
                      "{}: item {}: expected the dim offsets {} and {}, found {} and {}",
                      idx_.path(), sequence, sequence, sequence + 1, arrays_.dim_offsets[sequence],
                      arrays_.dim_offsets[sequence + 1]);
  }
  // Every access to .bin comes through here: pointers and lengths are what a file claims.
  if (pointer % item_size_ != 0) {
    return make_error(StatusCode::kCorruption,
                      "{}: sequence {}: pointer: expected a multiple of {}, the bytes of {}, found "
                      "{}",
                      idx_.path(), sequence, item_size_, dtype_name(dtype_), pointer);
  }
  const bool lies_in_bin =
      pointer >= 0 && length >= 0 && pointer <= bin_.size() && range.size <= bin_.size() - pointer;
  if (lies_in_bin) return range;
  return make_error(
      StatusCode::kCorruption,
      "{}: sequence {}: {} items of {} from byte {} on are outside {}, which has {} bytes",
      idx_.path(), sequence, length, dtype_name(dtype_), pointer, bin_.path(), bin_.size());
}

Result<int64_t> IndexedDataset::sequence_length(int64_t sequence) const {
  MEG_ASSIGN_OR_RETURN(const ByteRange range, bytes_of(sequence));
  return range.size / item_size_;
}

Result<std::span<const std::byte>> IndexedDataset::sequence(int64_t sequence) const {
  MEG_ASSIGN_OR_RETURN(const ByteRange range, bytes_of(sequence));
  if (bin_.object() == nullptr) {
    return bin_.mapped().subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size));
  }
  return make_error(StatusCode::kUnsupported,
                    "{}: sequence {}: expected a file that can be read in place", bin_.path(),
                    sequence);
}

Result<std::span<const std::byte>> IndexedDataset::sequence(int64_t sequence, int64_t offset,
                                                            int64_t length,
                                                            std::vector<std::byte>& buffer) const {
  MEG_ASSIGN_OR_RETURN(const ByteRange range, bytes_of(sequence));
  const int64_t count = range.size / item_size_;
  if (offset < 0 || length < 0 || offset > count || length > count - offset) {
    return make_error(StatusCode::kOutOfRange, "{}: sequence {}: {} items from {} on of {}",
                      prefix_, sequence, length, offset, count);
  }
  return bin_.read(range.begin + offset * item_size_, static_cast<size_t>(length * item_size_),
                   buffer);
}

Result<std::span<const std::byte>> IndexedDataset::items_of_type(int64_t sequence,
                                                                 DType dtype) const {
  if (dtype != dtype_) {
    return make_error(StatusCode::kInvalidArgument, "{}: expected {} items, found {}", prefix_,
                      dtype_name(dtype), dtype_name(dtype_));
  }
  return this->sequence(sequence);
}

Status IndexedDataset::copy_tokens(int64_t sequence, int64_t offset, std::span<int32_t> out) const {
  return copy_widened(*this, sequence, offset, out);
}

Status IndexedDataset::copy_tokens(int64_t sequence, int64_t offset, std::span<int64_t> out) const {
  return copy_widened(*this, sequence, offset, out);
}

}  // namespace meg::dataset
