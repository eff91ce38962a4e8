#include "libmeg/dataset/internal/merge_tntidx.h"

#include <array>
#include <utility>

#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/internal/companion_files.h"
#include "libmeg/dataset/internal/dataset_lock.h"
#include "libmeg/dataset/internal/tntidx_format.h"
#include "libmeg/dataset/internal/view_files.h"
#include "libmeg/dataset/little_endian_array.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/io/mapped_file.h"
#include "libmeg/io/piece_writer.h"

namespace meg::dataset {
namespace {

constexpr std::array kArrayNames = {"dim offsets", "data offsets", "sizes", "document indices"};

/// TNTIDX (--dataset-impl lazy or cached) keeps offsets relative to its own start, so files are
/// joined by shifting the offsets of each by what stands before it. Everything is checked first: a
/// damaged input would shift all that come after it.
struct TntIndex {
  io::MappedFile idx;
  io::FileDescriptor bin;
  int64_t bin_bytes = 0;
  TntidxHeader header;
  std::array<LittleEndianArray<int64_t>, 4> arrays;

  const LittleEndianArray<int64_t>& dim_offsets() const { return arrays[0]; }

  const LittleEndianArray<int64_t>& data_offsets() const { return arrays[1]; }

  const LittleEndianArray<int64_t>& sizes() const { return arrays[2]; }

  const LittleEndianArray<int64_t>& document_indices() const { return arrays[3]; }
};

Status place_arrays(TntIndex& index) {
  const TntidxHeader& header = index.header;
  const auto layout =
      tntidx_layout(header.item_count, header.size_count, header.document_index_count);
  const auto size = static_cast<int64_t>(index.idx.size());
  if (!layout.has_value() || layout->end != size || header.document_index_count == 0) {
    return make_error(StatusCode::kCorruption,
                      "{}: {} bytes do not hold {} items, {} sizes and {} document indices",
                      index.idx.path(), size, header.item_count, header.size_count,
                      header.document_index_count);
  }
  const std::array<int64_t, 5> ends = {layout->dim_offsets, layout->data_offsets, layout->sizes,
                                       layout->document_indices, layout->end};
  for (size_t i = 0; i < index.arrays.size(); ++i) {
    index.arrays[i] = LittleEndianArray<int64_t>(index.idx.bytes().subspan(
        static_cast<size_t>(ends[i]), static_cast<size_t>(ends[i + 1] - ends[i])));
  }
  return Status();
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
  const auto item_size = static_cast<int64_t>(index.header.item_size);
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
  if (index.header.version != kIndexVersion) {
    return make_error(StatusCode::kUnsupported, "{}: version: expected {}, found {}", name,
                      kIndexVersion, index.header.version);
  }
  const std::optional<DType> dtype = tntidx_dtype(index.header.dtype_code, index.header.item_size);
  const auto item_size = static_cast<int64_t>(index.header.item_size);
  if (!dtype.has_value() || index.bin_bytes % item_size != 0) {
    return make_error(
        StatusCode::kCorruption,
        "{}: expected a dtype code of 1 to 8 and the size of its items, which divides the {} bytes "
        "of .bin, found {} and {}",
        name, index.bin_bytes, index.header.dtype_code, index.header.item_size);
  }
  MEG_RETURN_IF_ERROR(check_offsets(index, 0, index.sizes().size()));
  MEG_RETURN_IF_ERROR(check_offsets(index, 1, index.bin_bytes / item_size));
  MEG_RETURN_IF_ERROR(check_offsets(index, 3, index.sizes().size()));
  return check_items(index, dtype_size(*dtype));
}

Result<TntIndex> open_index(const std::string& prefix) {
  TntIndex index;
  MEG_ASSIGN_OR_RETURN(index.idx, io::MappedFile::open(prefix + ".idx"));
  MEG_ASSIGN_OR_RETURN(index.bin, io::FileDescriptor::open_regular(prefix + ".bin"));
  MEG_ASSIGN_OR_RETURN(index.bin_bytes, index.bin.size());
  MEG_ASSIGN_OR_RETURN(index.header, read_tntidx_header(index.idx.bytes(), index.idx.path()));
  MEG_RETURN_IF_ERROR(place_arrays(index));
  MEG_RETURN_IF_ERROR(check(index));
  return index;
}

Result<std::vector<TntIndex>> open_all(const std::vector<std::string>& prefixes) {
  std::vector<TntIndex> indices;
  for (const std::string& prefix : prefixes) {
    MEG_ASSIGN_OR_RETURN(TntIndex index, open_index(prefix));
    const TntIndex& first = indices.empty() ? index : indices.front();
    if (index.header.dtype_code != first.header.dtype_code ||
        index.header.item_size != first.header.item_size) {
      return make_error(StatusCode::kInvalidArgument,
                        "{}: expected dtype code {} and item size {} as in {}, found {} and {}",
                        index.idx.path(), first.header.dtype_code, first.header.item_size,
                        first.idx.path(), index.header.dtype_code, index.header.item_size);
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
  TntidxHeader header = indices.front().header;
  for (size_t i = 1; i < indices.size(); ++i) {
    header.item_count += indices[i].header.item_count;
    header.size_count += indices[i].header.size_count;
    header.document_index_count += indices[i].header.document_index_count - 1;
  }
  std::array<std::byte, kTntidxHeaderSize> bytes;
  store_tntidx_header(header, bytes);
  io::PieceWriter out(idx, 0);
  MEG_RETURN_IF_ERROR(out.append(bytes));
  const auto sizes = [](const TntIndex& index) { return index.sizes().size(); };
  const auto data = [](const TntIndex& index) { return index.data_offsets().back(); };
  MEG_RETURN_IF_ERROR(write_array(indices, 0, sizes, out));
  MEG_RETURN_IF_ERROR(write_array(indices, 1, data, out));
  MEG_RETURN_IF_ERROR(write_array(indices, 2, sizes, out));
  MEG_RETURN_IF_ERROR(write_array(indices, 3, sizes, out));
  return out.flush();
}

}  // namespace

Result<MergeSummary> merge_tntidx(const std::vector<std::string>& prefixes,
                                  const std::string& output_prefix,
                                  const std::optional<DatasetTokenizer>& tokenizer,
                                  const MergeOptions& options) {
  if (options.dtype || options.multimodal.value_or(false)) {
    return make_error(StatusCode::kUnsupported,
                      "{}.idx: TNTIDX files are joined unchanged: {} is not possible",
                      prefixes.front(), options.dtype ? "dtype" : "multimodal");
  }
  MEG_ASSIGN_OR_RETURN(const std::vector<TntIndex> indices, open_all(prefixes));
  MEG_ASSIGN_OR_RETURN(const io::FileLock lock, lock_dataset(output_prefix));
  MEG_RETURN_IF_ERROR(check_is_no_view(output_prefix));
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
  MEG_ASSIGN_OR_RETURN(std::optional<io::AtomicFile> libmeg_file,
                       create_libmeg_file(output_prefix, {tokenizer, {}}));
  MEG_RETURN_IF_ERROR(remove_companion_files(output_prefix));
  std::vector<io::AtomicFile*> files = {&bin, &idx};
  if (libmeg_file) files.insert(files.begin(), &*libmeg_file);  // a reader of the pair finds it
  MEG_RETURN_IF_ERROR(io::AtomicFile::commit_all(files));
  return summary;
}

}  // namespace meg::dataset
