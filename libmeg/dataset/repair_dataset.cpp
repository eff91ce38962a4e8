#include "libmeg/dataset/repair_dataset.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <span>
#include <utility>

#include "libmeg/base/bytes.h"
#include "libmeg/dataset/dataset_tokenizer.h"
#include "libmeg/dataset/index_arrays.h"
#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/internal/companion_files.h"
#include "libmeg/dataset/internal/dataset_lock.h"
#include "libmeg/dataset/internal/document_ends.h"
#include "libmeg/dataset/internal/item_cursor.h"
#include "libmeg/dataset/internal/verify_index.h"
#include "libmeg/dataset/internal/view_files.h"
#include "libmeg/dataset/provenance.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/io/mapped_file.h"
#include "libmeg/io/piece_writer.h"

namespace meg::dataset {
namespace {

namespace fs = std::filesystem;

/// Of the file that keeps the place of one that is repaired in place.
constexpr const char* kOldSuffix = ".old";

/// The largest value of an integer dtype.
int64_t largest(DType dtype) {
  const bool is_unsigned = dtype == DType::kUint8 || dtype == DType::kUint16;
  const int bits = 8 * dtype_size(dtype) - (is_unsigned ? 0 : 1);
  return bits == 63 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << bits) - 1;
}

class DatasetRepair {
 public:
  DatasetRepair(const std::string& prefix, const std::optional<std::string>& output_prefix,
                const RepairOptions& options)
      : prefix_(dataset_prefix(prefix)),
        in_place_(!output_prefix),
        output_(in_place_ ? prefix_ : dataset_prefix(*output_prefix)),
        options_(options) {}

  Result<RepairSummary> run() {
    MEG_RETURN_IF_ERROR(check_is_path(prefix_));
    MEG_RETURN_IF_ERROR(check_is_path(output_));
    MEG_ASSIGN_OR_RETURN(bin_, io::FileDescriptor::open_regular(prefix_ + ".bin"));
    MEG_ASSIGN_OR_RETURN(bin_bytes_, bin_.size());
    MEG_RETURN_IF_ERROR(check_place());
    MEG_RETURN_IF_ERROR(map_idx());
    MEG_RETURN_IF_ERROR(options_.eod ? check_search() : diagnose());
    if (summary_.found.empty()) return summary_;
    MEG_ASSIGN_OR_RETURN(const io::FileLock lock, lock_dataset(output_));
    MEG_ASSIGN_OR_RETURN(io::AtomicFile idx, io::AtomicFile::create_regular(output_ + ".idx"));
    MEG_RETURN_IF_ERROR(write_idx(idx));
    summary_.unused_bytes = bin_bytes_ - summary_.items * item_size_;
    MEG_RETURN_IF_ERROR(in_place_ ? replace(idx) : publish(idx));
    return summary_;
  }

 private:
  Status check_place() const {
    if (in_place_) {
      std::error_code absent;
      if (!fs::is_symlink(prefix_ + ".bin", absent)) return {};
      return make_error(StatusCode::kInvalidArgument,
                        "{}.bin: expected a file of the dataset's own to repair in place, found a "
                        "link",
                        prefix_);
    }
    return check_output(prefix_, output_, options_.copy ? OutputBin::kOwn : OutputBin::kLink);
  }

  /// With `eod` there need be none, whatever is in it.
  Status map_idx() {
    Result<io::MappedFile> idx = io::MappedFile::open(prefix_ + ".idx");
    if (idx.has_value()) {
      idx_ = *std::move(idx);
    } else if (!options_.eod || idx.error().code() != StatusCode::kNotFound) {
      return idx.error();
    } else {
      idx_is_missing_ = true;
    }
    const Result<IndexHeader> header = read_index_header(idx_.bytes(), prefix_ + ".idx");
    if (header.has_value()) header_ = *header;
    if (options_.eod) return {};
    if (index_format(idx_.bytes()) == IndexFormat::kTntidx) {
      return make_error(StatusCode::kUnsupported, "{}: expected MMIDIDX, found TNTIDX",
                        idx_.path());
    }
    return header.status();
  }

  // With `eod`.

  Status check_search() {
    std::optional<DType> dtype = options_.dtype;
    if (!dtype && header_.version == kIndexVersion) dtype = index_dtype(header_.dtype_code);
    if (!dtype) {
      return make_error(StatusCode::kInvalidArgument,
                        "`dtype`: expected that of the items of {}.bin, which {}.idx does not say",
                        prefix_, prefix_);
    }
    const std::optional<uint8_t> code = index_dtype_code(*dtype);
    if (!code || *dtype == DType::kFloat32 || *dtype == DType::kFloat64) {
      return make_error(StatusCode::kInvalidArgument,
                        "`dtype`: expected uint8, int8, int16, uint16, int32 or int64, found {}",
                        dtype_name(*dtype));
    }
    if (*options_.eod < 0 || *options_.eod > largest(*dtype)) {
      return make_error(StatusCode::kInvalidArgument, "`eod`: expected 0 to {} in {}, found {}",
                        largest(*dtype), dtype_name(*dtype), *options_.eod);
    }
    summary_.dtype = *dtype;
    item_size_ = dtype_size(*dtype);
    header_.dtype_code = *code;
    summary_.found.push_back(
        idx_is_missing_ ? fmt::format("{}.idx: no such file", prefix_)
                        : fmt::format("{}.idx: left aside: the documents are those of {}.bin",
                                      prefix_, prefix_));
    return {};
  }

  Status search(io::PieceWriter& lengths) {
    int64_t begin = 0;
    const auto take = [&](int64_t end) -> Status {
      if (end - begin > std::numeric_limits<int32_t>::max()) {
        return make_error(StatusCode::kOutOfRange,
                          "{}.bin: item {}: expected the end-of-document token {} within {} items, "
                          "found {} without",
                          prefix_, begin, *options_.eod, std::numeric_limits<int32_t>::max(),
                          end - begin);
      }
      MEG_RETURN_IF_ERROR(lengths.append_value(static_cast<int32_t>(end - begin)));
      ++summary_.documents;
      begin = end;
      return {};
    };
    MEG_ASSIGN_OR_RETURN(const int64_t items,
                         find_document_ends(bin_, summary_.dtype, *options_.eod, options_.workers,
                                            options_.progress, take));
    if (items > 0 && begin == 0) {
      return make_error(
          StatusCode::kInvalidArgument,
          "{}.bin: expected the end-of-document token {} among its {} {} items, found "
          "none",
          prefix_, *options_.eod, items, dtype_name(summary_.dtype));
    }
    if (items > begin) {
      summary_.found.push_back(fmt::format(
          "{}.bin: the last {} tokens have no end-of-document token: {}", prefix_, items - begin,
          options_.drop_tail ? "left out" : "taken as the last document"));
      if (!options_.drop_tail) MEG_RETURN_IF_ERROR(take(items));
    }
    if (items * item_size_ < bin_bytes_) {
      summary_.found.push_back(
          fmt::format("{}.bin: ends within an item of {} bytes", prefix_, item_size_));
    }
    summary_.sequences = summary_.documents;
    summary_.items = begin;
    return {};
  }

  // With PREFIX.idx.

  Status diagnose() {
    // A view's entries say nothing of another file than the one that it was made of.
    MEG_ASSIGN_OR_RETURN(const BinFile bin,
                         BinFile::open(prefix_ + ".bin", io::MappedFile::Access::kRandom));
    MEG_RETURN_IF_ERROR(check_view(prefix_, bin));
    MEG_RETURN_IF_ERROR(place_arrays());
    MEG_RETURN_IF_ERROR(find_whole_documents());
    return tell_end_of_bin();
  }

  Status damage(std::string what) const {
    return {StatusCode::kCorruption, fmt::format("{}: {}; only a search for the end-of-document "
                                                 "token in .bin (`eod`) can repair this",
                                                 idx_.path(), what)};
  }

  Status place_arrays() {
    const std::optional<DType> dtype = index_dtype(header_.dtype_code);
    if (header_.version != kIndexVersion || !dtype) {
      return damage(fmt::format("version {} and dtype {}", header_.version, header_.dtype_code));
    }
    const auto layout = index_layout(header_.sequence_count, header_.document_index_count);
    const auto size = static_cast<int64_t>(idx_.size());
    if (!layout || header_.document_index_count == 0) {
      return damage(fmt::format("{} sequences and {} document indices", header_.sequence_count,
                                header_.document_index_count));
    }
    const auto sequences = static_cast<int64_t>(header_.sequence_count);
    const std::array parts = {IndexPart{"sequence_lengths", layout->sequence_lengths, 4},
                              IndexPart{"sequence_pointers", layout->sequence_pointers, 8},
                              IndexPart{"document_indices", layout->document_indices, 8},
                              IndexPart{"sequence_modes", layout->sequence_modes, 1}};
    if (size < layout->document_indices + 8) return damage(where_it_ends(parts, size));
    if (size > layout->sequence_modes + sequences) {
      return damage(fmt::format("expected at most {} bytes, found {}",
                                layout->sequence_modes + sequences, size));
    }
    IndexLayout there = *layout;
    const int64_t ends = std::min(layout->sequence_modes, size) - layout->document_indices;
    there.sequence_modes = layout->document_indices + ends / 8 * 8;
    arrays_ = index_arrays(idx_.bytes(), there);
    multimodal_ = size > layout->sequence_modes;
    if (multimodal_) {
      modes_ = LittleEndianArray<int8_t>(
          idx_.bytes().subspan(static_cast<size_t>(layout->sequence_modes)));
    }
    if (size < layout->sequence_modes || (multimodal_ && modes_.size() < sequences)) {
      summary_.found.push_back(fmt::format("{}: {}", idx_.path(), where_it_ends(parts, size)));
    }
    summary_.dtype = *dtype;
    if (header_.dtype_code == kLegacyFloat64Code &&
        is_legacy_float64(arrays_.sequence_lengths, arrays_.sequence_pointers, bin_bytes_)) {
      summary_.dtype = DType::kFloat64;
    }
    item_size_ = dtype_size(summary_.dtype);
    return {};
  }

  /// The documents before the first that is not all there. Entries that contradict each other are
  /// no end of a file, and are not guessed at.
  Status find_whole_documents() {
    const auto lengths = arrays_.sequence_lengths;
    int64_t bytes = 0;
    for (int64_t document = 0; document + 1 < arrays_.document_indices.size(); ++document) {
      const int64_t begin = arrays_.document_indices[document];
      const int64_t end = arrays_.document_indices[document + 1];
      if (begin != summary_.sequences || end < begin || end > lengths.size()) {
        return damage(fmt::format("document {}: sequences [{}, {})", document, begin, end));
      }
      int64_t items = 0;
      for (int64_t sequence = begin; sequence < end; ++sequence) {
        const int64_t length = lengths[sequence];
        const int64_t pointer = arrays_.sequence_pointers[sequence];
        if (length < 0 || pointer != bytes + items * item_size_) {
          return damage(fmt::format("sequence {} of length {}: expected pointer {}, found {}",
                                    sequence, length, bytes + items * item_size_, pointer));
        }
        items += length;
        if (items > bin_bytes_) break;  // not all there, and sums of more might overflow
      }
      if (items * item_size_ > bin_bytes_ - bytes || (multimodal_ && end > modes_.size())) break;
      bytes += items * item_size_;
      filled_ += end > begin ? 1 : 0;
      summary_.documents = document + 1;
      summary_.sequences = end;
      summary_.items += items;
    }
    summary_.lost_documents =
        static_cast<int64_t>(header_.document_index_count) - 1 - summary_.documents;
    return {};
  }

  Status tell_end_of_bin() {
    const int64_t bytes = summary_.items * item_size_;
    const bool is_whole = summary_.lost_documents == 0;
    if (!is_whole && summary_.found.empty()) {
      summary_.found.push_back(fmt::format("{}.bin: ends after {} bytes, within document {}",
                                           prefix_, bin_bytes_, summary_.documents));
    }
    if (!is_whole || bytes == bin_bytes_) return {};
    if (filled_ > 0 && bin_bytes_ - bytes == filled_ * item_size_) return take_as_short();
    summary_.found.push_back(
        fmt::format("{}.bin: {} bytes after the last document", prefix_, bin_bytes_ - bytes));
    return {};
  }

  /// As 6ef5bdc wrote it: each document that has sequences has one token more than they. These are
  /// all alike, or something else is wrong.
  Status take_as_short() {
    MEG_ASSIGN_OR_RETURN(const BinFile bin,
                         BinFile::open(prefix_ + ".bin", io::MappedFile::Access::kNormal));
    ItemCursor cursor(bin);
    std::string eod;
    int64_t end = 0;  // of the document so far, in items
    for (int64_t document = 0; document < summary_.documents; ++document) {
      const int64_t begin = arrays_.document_indices[document];
      const int64_t last = arrays_.document_indices[document + 1];
      if (begin == last) continue;
      for (int64_t at = begin; at < last; ++at) end += arrays_.sequence_lengths[at];
      MEG_ASSIGN_OR_RETURN(const std::byte* const item, cursor.item(end * item_size_, item_size_));
      const std::string found(reinterpret_cast<const char*>(item), static_cast<size_t>(item_size_));
      if (eod.empty()) eod = found;
      if (found != eod) {
        return damage(
            fmt::format("{}.bin is one item longer for each of the {} documents, but "
                        "these do not end alike: document {} differs from the first",
                        prefix_, filled_, document));
      }
      ++end;
    }
    is_short_ = true;
    summary_.items = end;
    summary_.found.push_back(fmt::format(
        "{}: the lengths lack the end-of-document token of each of the {} documents, as "
        "Megatron-LM 6ef5bdc wrote them where it appended that token",
        idx_.path(), filled_));
    return {};
  }

  Status copy_lengths(io::PieceWriter& lengths) const {
    for (int64_t document = 0; document < summary_.documents; ++document) {
      const int64_t end = arrays_.document_indices[document + 1];
      for (int64_t at = arrays_.document_indices[document]; at < end; ++at) {
        const int32_t more = is_short_ && at + 1 == end ? 1 : 0;
        if (arrays_.sequence_lengths[at] > std::numeric_limits<int32_t>::max() - more) {
          return damage(fmt::format("sequence {}: too long", at));
        }
        MEG_RETURN_IF_ERROR(lengths.append_value(arrays_.sequence_lengths[at] + more));
      }
    }
    return {};
  }

  // Both.

  Status write_idx(const io::AtomicFile& idx) {
    io::PieceWriter writer(idx, kIndexHeaderSize);
    MEG_RETURN_IF_ERROR(options_.eod ? search(writer) : copy_lengths(writer));
    MEG_RETURN_IF_ERROR(writer.flush());
    MEG_RETURN_IF_ERROR(write_pointers(idx, writer));
    for (int64_t i = 0; i <= summary_.documents; ++i) {
      MEG_RETURN_IF_ERROR(writer.append_value(options_.eod ? i : arrays_.document_indices[i]));
    }
    if (multimodal_) MEG_RETURN_IF_ERROR(writer.append(modes_.bytes(0, summary_.sequences)));
    MEG_RETURN_IF_ERROR(writer.flush());
    header_.version = kIndexVersion;
    header_.sequence_count = static_cast<uint64_t>(summary_.sequences);
    header_.document_index_count = static_cast<uint64_t>(summary_.documents) + 1;
    std::array<std::byte, kIndexHeaderSize> stored;
    store_index_header(header_, stored);
    return idx.write_at(0, stored);
  }

  /// From the lengths, which are read back: they are too many to keep.
  Status write_pointers(const io::AtomicFile& idx, io::PieceWriter& writer) const {
    std::vector<int32_t> lengths(
        static_cast<size_t>(std::clamp<int64_t>(summary_.sequences, 1, 1 << 18)));
    int64_t pointer = 0;
    for (int64_t done = 0; done < summary_.sequences;) {
      const auto piece = std::span(lengths).first(
          static_cast<size_t>(std::min(summary_.sequences - done, std::ssize(lengths))));
      MEG_ASSIGN_OR_RETURN(const size_t got,
                           idx.read_at(kIndexHeaderSize + 4 * done, std::as_writable_bytes(piece)));
      if (got != piece.size_bytes()) {
        return make_error(StatusCode::kIoError, "{}: changed while it was written", idx.path());
      }
      for (const int32_t length : piece) {
        MEG_RETURN_IF_ERROR(writer.append_value(pointer));
        pointer += length * item_size_;
      }
      done += std::ssize(piece);
    }
    return {};
  }

  Result<io::AtomicFile> copied_bin() const {
    MEG_ASSIGN_OR_RETURN(io::AtomicFile bin, io::AtomicFile::create_regular(output_ + ".bin"));
    MEG_RETURN_IF_ERROR(bin.copy_from(bin_, 0, bin_bytes_ - summary_.unused_bytes, 0, {}));
    return bin;
  }

  Status publish(io::AtomicFile& idx) {
    MEG_ASSIGN_OR_RETURN(auto tokenizer, read_dataset_tokenizer(prefix_));
    if (!options_.copy) {
      MEG_ASSIGN_OR_RETURN(summary_.view, describe_view(prefix_ + ".bin", output_));
      return publish_view(output_, idx, *summary_.view, std::move(tokenizer));
    }
    MEG_ASSIGN_OR_RETURN(io::AtomicFile bin, copied_bin());
    MEG_ASSIGN_OR_RETURN(auto libmeg,
                         create_libmeg_file(output_, {.tokenizer = std::move(tokenizer)}));
    MEG_RETURN_IF_ERROR(remove_companion_files(output_));
    std::vector<io::AtomicFile*> files = {&bin, &idx};
    if (libmeg) files.insert(files.begin(), &*libmeg);
    return io::AtomicFile::commit_all(files);
  }

  /// The old file gets a second name, so that it is whole at every moment.
  Status keep(const std::string& path) {
    std::error_code absent;
    if (!fs::exists(path, absent)) return {};
    const std::string old = path + kOldSuffix;
    // The second name may be that of a repair that was killed.
    if (::link(path.c_str(), old.c_str()) == 0 || fs::equivalent(path, old, absent)) {
      summary_.kept.push_back(old);
      return {};
    }
    if (!fs::exists(old, absent)) return errno_error(errno, "cannot create " + old);
    return make_error(StatusCode::kInvalidArgument,
                      "{}: expected no file, where the old one is to be kept, found one", old);
  }

  Status replace(io::AtomicFile& idx) {
    io::AtomicFile bin;
    std::vector<io::AtomicFile*> files = {&idx};
    const std::string provenance = provenance_path(prefix_);
    MEG_RETURN_IF_ERROR(keep(prefix_ + ".idx"));
    MEG_RETURN_IF_ERROR(keep(provenance));
    if (summary_.unused_bytes > 0) {
      MEG_RETURN_IF_ERROR(keep(prefix_ + ".bin"));
      MEG_ASSIGN_OR_RETURN(bin, copied_bin());
      files.insert(files.begin(), &bin);
    }
    std::error_code failed;  // it belongs to the old .idx
    fs::remove(provenance, failed);
    if (failed) return errno_error(failed.value(), provenance);
    return io::AtomicFile::commit_all(files);
  }

  const std::string prefix_;
  const bool in_place_;
  const std::string output_;
  const RepairOptions& options_;
  RepairSummary summary_;
  io::FileDescriptor bin_;
  int64_t bin_bytes_ = 0;
  io::MappedFile idx_;
  bool idx_is_missing_ = false;
  IndexHeader header_{.version = 0};
  int64_t item_size_ = 1;
  IndexArrays arrays_;
  LittleEndianArray<int8_t> modes_;
  bool multimodal_ = false;
  int64_t filled_ = 0;  // documents that have sequences
  bool is_short_ = false;
};

}  // namespace

Result<RepairSummary> repair_dataset(const std::string& prefix,
                                     const std::optional<std::string>& output_prefix,
                                     const RepairOptions& options) {
  return DatasetRepair(prefix, output_prefix, options).run();
}

}  // namespace meg::dataset
