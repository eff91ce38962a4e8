#include "libmeg/dataset/internal/merge_tntidx.h"

#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "libmeg/base/bytes.h"
#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/internal/companion_files.h"
#include "libmeg/dataset/internal/dataset_lock.h"
#include "libmeg/dataset/little_endian_array.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/io/mapped_file.h"
#include "libmeg/io/piece_writer.h"
#include "libmeg/s3/object_store.h"

namespace meg::dataset {
namespace {

/// The header behind the magic: version, dtype code, item size, N items, M sizes, D document
/// indices. The arrays follow: N + 1 dim offsets, N + 1 data offsets, M sizes, D document indices.
enum Field { kVersion, kDtypeCode, kItemSize, kItems, kSizes, kDocumentIndices, kFields };

constexpr size_t kHeaderBytes = 8 + 8 * kFields;

constexpr std::array kArrayNames = {"dim offsets", "data offsets", "sizes", "document indices"};

/// TNTIDX (--dataset-impl lazy or cached) keeps offsets relative to its own start, so files are
/// joined by shifting the offsets of each by what stands before it. Everything is checked first: a
/// damaged input would shift all that come after it.
struct TntIndex {
  io::MappedFile idx;
  io::FileDescriptor bin;
  int64_t bin_bytes = 0;
  std::array<uint64_t, kFields> header{};
  std::array<LittleEndianArray<int64_t>, 4> arrays;

  const LittleEndianArray<int64_t>& dim_offsets() const { return arrays[0]; }

  const LittleEndianArray<int64_t>& data_offsets() const { return arrays[1]; }

  const LittleEndianArray<int64_t>& sizes() const { return arrays[2]; }

  const LittleEndianArray<int64_t>& document_indices() const { return arrays[3]; }
};

Status place_arrays(TntIndex& index) {
  const auto bytes = index.idx.bytes();
  const std::array<uint64_t, 4> counts = {index.header[kItems] + 1, index.header[kItems] + 1,
                                          index.header[kSizes], index.header[kDocumentIndices]};
  uint64_t end = kHeaderBytes;
  for (size_t i = 0; i < counts.size(); ++i) {
    const uint64_t begin = end;
    uint64_t size = 0;
    const bool fits = checked_multiply(counts[i], 8, &size) && checked_add(begin, size, &end) &&
                      end <= bytes.size();
    if (!fits) {
      return make_error(StatusCode::kCorruption, "{}: {} bytes are too few for {} {}",
                        index.idx.path(), bytes.size(), counts[i], kArrayNames[i]);
    }
    index.arrays[i] = LittleEndianArray<int64_t>(bytes.subspan(begin, size));
  }
  if (end == bytes.size()) return Status();
  return make_error(StatusCode::kCorruption, "{}: expected {} bytes, found {}", index.idx.path(),
                    end, bytes.size());
}

/// The array must run from 0 to `last` and never fall.
Status check_offsets(const TntIndex& index, size_t array, int64_t last) {
  const LittleEndianArray<int64_t>& offsets = index.arrays[array];
  int64_t before = 0;
  for (int64_t i = 0; i < offsets.size(); ++i) {
    // The first entry is 0, the last one is the end, none falls; with these three no range can
    // leave the file.
    const int64_t smallest = i + 1 == offsets.size() ? last : before;
    if (offsets[i] < smallest || offsets[i] > (i == 0 ? 0 : last)) {
      return make_error(StatusCode::kCorruption, "{}: {}: entry {}: expected {} to {}, found {}",
                        index.idx.path(), kArrayNames[array], i, smallest, i == 0 ? 0 : last,
                        offsets[i]);
    }
    before = offsets[i];
  }
  return Status();
}

/// Each item must be as long in .bin as its sizes say: one value or, where an old item size counts
/// half of it, two.
Status check_items(const TntIndex& index, int64_t value_bytes) {
  const auto item_size = static_cast<int64_t>(index.header[kItemSize]);
  for (int64_t i = 0; i < index.data_offsets().size() - 1; ++i) {
    int64_t bytes = value_bytes;
    for (int64_t k = index.dim_offsets()[i]; k < index.dim_offsets()[i + 1]; ++k) {
      const int64_t size = index.sizes()[k];
      if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) bytes = -1;
    }
    const int64_t found = index.data_offsets()[i + 1] - index.data_offsets()[i];
    if (bytes >= 0 && bytes == found * item_size) continue;
    return make_error(StatusCode::kCorruption,
                      "{}: item {}: expected {} bytes by its sizes, found {}", index.idx.path(), i,
                      bytes, found * item_size);
  }
  return Status();
}

Status check(const TntIndex& index) {
  const std::string& name = index.idx.path();
  if (index.header[kVersion] != 1) {
    return make_error(StatusCode::kUnsupported, "{}: version: expected 1, found {}", name,
                      index.header[kVersion]);
  }
  const uint64_t code = index.header[kDtypeCode];
  const std::optional<DType> dtype =
      code <= 8 ? index_dtype(static_cast<uint8_t>(code)) : std::nullopt;
  const uint64_t item_size = index.header[kItemSize];
  if (!dtype || item_size < 1 || item_size > 8 ||
      index.bin_bytes % static_cast<int64_t>(item_size) != 0) {
    return make_error(
        StatusCode::kCorruption,
        "{}: expected a dtype code of 1 to 8 and an item size that divides the {} bytes of "
        ".bin, found {} and {}",
        name, index.bin_bytes, code, item_size);
  }
  MEG_RETURN_IF_ERROR(check_offsets(index, 0, index.sizes().size()));
  MEG_RETURN_IF_ERROR(check_offsets(index, 1, index.bin_bytes / static_cast<int64_t>(item_size)));
  MEG_RETURN_IF_ERROR(check_offsets(index, 3, index.sizes().size()));
  // Up to v2.6 the codes 6 and 7 both are 8 bytes wide.
  const bool is_double = code == 6 || (code == kLegacyFloat64Code && item_size == 8);
  return check_items(index, is_double ? 8 : dtype_size(*dtype));
}

Result<TntIndex> open_index(const std::string& prefix) {
  TntIndex index;
  MEG_ASSIGN_OR_RETURN(index.idx, io::MappedFile::open(prefix + ".idx"));
  MEG_ASSIGN_OR_RETURN(index.bin, io::FileDescriptor::open_regular(prefix + ".bin"));
  MEG_ASSIGN_OR_RETURN(index.bin_bytes, index.bin.size());
  const auto bytes = index.idx.bytes();
  if (bytes.size() < kHeaderBytes) {
    return make_error(StatusCode::kCorruption, "{}: expected a header of {} bytes, found {} bytes",
                      index.idx.path(), kHeaderBytes, bytes.size());
  }
  for (size_t i = 0; i < kFields; ++i) index.header[i] = load_le<uint64_t>(&bytes[8 + 8 * i]);
  if (index.header[kItems] == std::numeric_limits<uint64_t>::max() ||
      index.header[kDocumentIndices] == 0) {
    return make_error(
        StatusCode::kCorruption,
        "{}: expected a count of items and at least 1 document index, found {} and {}",
        index.idx.path(), index.header[kItems], index.header[kDocumentIndices]);
  }
  MEG_RETURN_IF_ERROR(place_arrays(index));
  MEG_RETURN_IF_ERROR(check(index));
  return index;
}

Result<std::vector<TntIndex>> open_all(const std::vector<std::string>& prefixes) {
  std::vector<TntIndex> indices;
  for (const std::string& prefix : prefixes) {
    MEG_RETURN_IF_ERROR(check_is_path(prefix));
    MEG_ASSIGN_OR_RETURN(const bool is_old, is_tntidx(prefix));
    if (!is_old) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}.idx: expected TNTIDX like {}.idx, found another format", prefix,
                        prefixes.front());
    }
    MEG_ASSIGN_OR_RETURN(TntIndex index, open_index(prefix));
    const TntIndex& first = indices.empty() ? index : indices.front();
    for (const Field field : {kDtypeCode, kItemSize}) {
      if (index.header[field] == first.header[field]) continue;
      return make_error(StatusCode::kInvalidArgument,
                        "{}: expected dtype code {} and item size {} as in {}, found {} and {}",
                        index.idx.path(), first.header[kDtypeCode], first.header[kItemSize],
                        first.idx.path(), index.header[kDtypeCode], index.header[kItemSize]);
    }
    indices.push_back(std::move(index));
  }
  return indices;
}

/// One array of all inputs. Offsets, that is all but the sizes, move by the extents of the inputs
/// before, and the leading 0 stands once.
template <class Extent>
Status write_array(const std::vector<TntIndex>& indices, size_t array, const Extent& extent,
                   io::PieceWriter& out) {
  int64_t before = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    const LittleEndianArray<int64_t>& values = indices[i].arrays[array];
    const bool is_offsets = array != 2;
    for (int64_t k = is_offsets && i > 0 ? 1 : 0; k < values.size(); ++k) {
      MEG_RETURN_IF_ERROR(out.append_value(values[k] + (is_offsets ? before : 0)));
    }
    before += extent(indices[i]);
  }
  return Status();
}

Status write_index(const std::vector<TntIndex>& indices, const io::AtomicFile& idx) {
  std::array<uint64_t, kFields> header = indices.front().header;
  for (size_t i = 1; i < indices.size(); ++i) {
    header[kItems] += indices[i].header[kItems];
    header[kSizes] += indices[i].header[kSizes];
    header[kDocumentIndices] += indices[i].header[kDocumentIndices] - 1;
  }
  io::PieceWriter out(idx, 0);
  MEG_RETURN_IF_ERROR(out.append(std::as_bytes(std::span(kLegacyIndexMagic))));
  for (const uint64_t value : header) MEG_RETURN_IF_ERROR(out.append_value(value));
  const auto sizes = [](const TntIndex& index) { return index.sizes().size(); };
  const auto data = [](const TntIndex& index) { return index.data_offsets().back(); };
  MEG_RETURN_IF_ERROR(write_array(indices, 0, sizes, out));
  MEG_RETURN_IF_ERROR(write_array(indices, 1, data, out));
  MEG_RETURN_IF_ERROR(write_array(indices, 2, sizes, out));
  MEG_RETURN_IF_ERROR(write_array(indices, 3, sizes, out));
  return out.flush();
}

}  // namespace

Result<bool> is_tntidx(const std::string& prefix) {
  if (s3::is_address(prefix)) return false;
  MEG_ASSIGN_OR_RETURN(const io::FileDescriptor idx,
                       io::FileDescriptor::open_regular(prefix + ".idx"));
  std::array<char, kLegacyIndexMagic.size()> begin{};
  MEG_ASSIGN_OR_RETURN(const size_t got, idx.read_at(0, std::as_writable_bytes(std::span(begin))));
  return std::string_view(begin.data(), got) == kLegacyIndexMagic;
}

Result<MergeSummary> merge_tntidx(const std::vector<std::string>& prefixes,
                                  const std::string& output_prefix, const MergeOptions& options) {
  if (options.dtype || options.multimodal.value_or(false)) {
    return make_error(StatusCode::kUnsupported,
                      "{}.idx: TNTIDX files are joined unchanged: {} is not possible",
                      prefixes.front(), options.dtype ? "dtype" : "multimodal");
  }
  MEG_ASSIGN_OR_RETURN(const std::vector<TntIndex> indices, open_all(prefixes));
  MEG_ASSIGN_OR_RETURN(const io::FileLock lock, lock_dataset(output_prefix));
  MEG_ASSIGN_OR_RETURN(io::AtomicFile bin, io::AtomicFile::create_regular(output_prefix + ".bin"));
  MEG_ASSIGN_OR_RETURN(io::AtomicFile idx, io::AtomicFile::create_regular(output_prefix + ".idx"));
  MergeSummary summary;
  Progress done{.total_bytes = 0};
  for (const TntIndex& index : indices) done.total_bytes += index.bin_bytes;
  const auto moved = [&](int64_t bytes) {
    done.bytes += bytes;
    return !options.progress || options.progress(done);
  };
  for (const TntIndex& index : indices) {
    MEG_RETURN_IF_ERROR(bin.copy_from(index.bin, 0, index.bin_bytes, summary.bytes, moved));
    ++summary.datasets;
    summary.bytes += index.bin_bytes;
    summary.documents += index.document_indices().size() - 1;
    summary.sequences += index.data_offsets().size() - 1;
    summary.items += index.data_offsets().back();
  }
  MEG_RETURN_IF_ERROR(write_index(indices, idx));
  MEG_RETURN_IF_ERROR(remove_companion_files(output_prefix));
  io::AtomicFile* const files[] = {&bin, &idx};
  MEG_RETURN_IF_ERROR(io::AtomicFile::commit_all(files));
  return summary;
}

}  // namespace meg::dataset
