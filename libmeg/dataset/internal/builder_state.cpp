#include "libmeg/dataset/internal/builder_state.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <vector>

#include "libmeg/dataset/internal/tntidx_format.h"

namespace meg::dataset {
namespace {

/// Values handled at a time when an array is streamed through memory.
constexpr size_t kPieceValues = size_t{1} << 17;

/// Calls take(piece) with all of `from`, from byte `offset` on, up to 1 MiB at a time.
template <class T, class Take>
Status read_pieces(const io::AtomicFile& from, int64_t offset, const Take& take) {
  std::vector<T> piece(kPieceValues * sizeof(int64_t) / sizeof(T));
  while (true) {
    const auto bytes = std::as_writable_bytes(std::span(piece));
    MEG_ASSIGN_OR_RETURN(const size_t count, from.read_at(offset, bytes));
    if (count == 0) return Status();
    MEG_RETURN_IF_ERROR(take(std::span<const T>(piece).first(count / sizeof(T))));
    offset += static_cast<int64_t>(count);
  }
}

/// Copies all of `from`, from byte 0 on, to `to`.
Status append_file(const io::AtomicFile& from, io::PieceWriter& to) {
  return read_pieces<std::byte>(from, 0, [&](auto piece) { return to.append(piece); });
}

}  // namespace

int64_t sum(std::span<const int32_t> values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

size_t find_negative(std::span<const int32_t> values) {
  int32_t all = 0;
  // One sign bit tells whether any is negative, without a branch a value.
  for (const int32_t value : values) all |= value;
  if (all >= 0) return values.size();
  const auto found = std::find_if(values.begin(), values.end(), [](int32_t v) { return v < 0; });
  return static_cast<size_t>(found - values.begin());
}

/// Lengths must not be negative. Moves counts on; the items' bytes are the caller's business.
Status IndexedDatasetBuilder::State::add_sequences(std::span<const int32_t> sequence_lengths) {
  const int64_t items_added = sum(sequence_lengths);
  if (items_added > std::numeric_limits<int64_t>::max() / item_size - item_count) {
    return make_error(StatusCode::kOutOfRange, "{}: more bytes than a 64-bit offset counts",
                      bin.path());
  }
  MEG_RETURN_IF_ERROR(lengths.append(std::as_bytes(sequence_lengths)));
  sequence_count += static_cast<int64_t>(sequence_lengths.size());
  item_count += items_added;
  bin_size = item_count * item_size;
  return Status();
}

Status IndexedDatasetBuilder::State::add_modes(std::span<const int8_t> sequence_modes) {
  return options.multimodal ? modes.append(std::as_bytes(sequence_modes)) : Status();
}

Status IndexedDatasetBuilder::State::end_document(int64_t end) {
  MEG_RETURN_IF_ERROR(documents.append_value(end));
  document_end = end;
  ++document_count;
  return Status();
}

/// The pointers follow from the lengths, which are read back from the file.
Status IndexedDatasetBuilder::State::write_pointers(io::PieceWriter& out) const {
  const auto at_most = std::min(kPieceValues, static_cast<size_t>(sequence_count));
  std::vector<int32_t> sequence_lengths(at_most);
  std::vector<int64_t> pointers(at_most);
  int64_t pointer = 0;
  for (int64_t done = 0; done < sequence_count;) {
    const auto count = std::min(kPieceValues, static_cast<size_t>(sequence_count - done));
    const auto piece = std::as_writable_bytes(std::span(sequence_lengths).first(count));
    MEG_ASSIGN_OR_RETURN(const size_t got, idx.read_at(kIndexHeaderSize + 4 * done, piece));
    if (got != piece.size()) {
      return make_error(StatusCode::kIoError, "{}: read {} of {} bytes back", idx.path(), got,
                        piece.size());
    }
    for (size_t i = 0; i < count; ++i) {
      pointers[i] = pointer;
      pointer += sequence_lengths[i] * item_size;
    }
    MEG_RETURN_IF_ERROR(out.append(std::as_bytes(std::span(pointers).first(count))));
    done += static_cast<int64_t>(count);
  }
  return Status();
}

uint8_t IndexedDatasetBuilder::State::dtype_code() const {
  const bool legacy = options.legacy_float64_code && options.dtype == DType::kFloat64;
  return legacy ? kLegacyFloat64Code : index_dtype_code(options.dtype).value();
}

/// Writes the whole file: nothing of it is in place yet.
Status IndexedDatasetBuilder::State::write_tntidx() {
  std::array<std::byte, kTntidxHeaderSize> header;
  const auto sequences = static_cast<uint64_t>(sequence_count);
  store_tntidx_header({.dtype_code = dtype_code(),
                       .item_size = static_cast<uint64_t>(item_size),
                       .item_count = sequences,
                       .size_count = sequences,
                       .document_index_count = static_cast<uint64_t>(document_count + 1)},
                      header);
  io::PieceWriter out(idx, 0);
  MEG_RETURN_IF_ERROR(out.append(header));
  // One size for each sequence.
  for (int64_t dim = 0; dim <= sequence_count; ++dim) {
    MEG_RETURN_IF_ERROR(out.append_value(dim));
  }
  const auto for_each_length = [this](const auto& use) {
    return read_pieces<int32_t>(stored_lengths(), lengths_begin(),
                                [&](std::span<const int32_t> piece) {
                                  for (const int64_t length : piece) {
                                    MEG_RETURN_IF_ERROR(use(length));
                                  }
                                  return Status();
                                });
  };
  int64_t offset = 0;
  MEG_RETURN_IF_ERROR(out.append_value(offset));
  MEG_RETURN_IF_ERROR(for_each_length([&](int64_t length) {
    offset += length;
    return out.append_value(offset);
  }));
  MEG_RETURN_IF_ERROR(for_each_length([&](int64_t length) { return out.append_value(length); }));
  MEG_RETURN_IF_ERROR(append_file(documents_spool, out));
  return out.flush();
}

Status IndexedDatasetBuilder::State::write_index() {
  if (is_tntidx()) return write_tntidx();
  std::array<std::byte, kIndexHeaderSize> header;
  // Lengths stand in their place already; what follows them in the file has waited in spools until
  // their number was known.
  store_index_header({.dtype_code = dtype_code(),
                      .sequence_count = static_cast<uint64_t>(sequence_count),
                      .document_index_count = static_cast<uint64_t>(document_count + 1)},
                     header);
  MEG_RETURN_IF_ERROR(idx.write_at(0, header));
  io::PieceWriter out(idx, lengths.position());
  MEG_RETURN_IF_ERROR(write_pointers(out));
  MEG_RETURN_IF_ERROR(append_file(documents_spool, out));
  if (options.multimodal) MEG_RETURN_IF_ERROR(append_file(modes_spool, out));
  return out.flush();
}

Status IndexedDatasetBuilder::State::check_whole() const {
  if (document_is_open()) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: {} sequences after the last end_document()", idx.path(),
                      sequence_count - document_end);
  }
  if (reserved_done != reserved) {
    return make_error(StatusCode::kInvalidArgument, "{}: {} bytes reserved, {} written", bin.path(),
                      reserved, reserved_done.load());
  }
  return Status();
}

Status IndexedDatasetBuilder::State::flush() {
  MEG_RETURN_IF_ERROR(items.flush());
  MEG_RETURN_IF_ERROR(lengths.flush());
  MEG_RETURN_IF_ERROR(documents.flush());
  return modes.flush();
}

/// What `other`, which is whole and flushed, holds in its files comes after what there is.
Status IndexedDatasetBuilder::State::add_state(const State& other,
                                               const std::function<bool()>& keep_going) {
  const int64_t before = sequence_count;
  MEG_RETURN_IF_ERROR(read_pieces<int32_t>(other.stored_lengths(), other.lengths_begin(),
                                           [&](auto piece) { return add_sequences(piece); }));
  const auto add_ends = [&](std::span<const int64_t> ends) {
    for (const int64_t end : ends) MEG_RETURN_IF_ERROR(end_document(before + end));
    return Status();
  };
  // The first index is the begin of the first document.
  MEG_RETURN_IF_ERROR(read_pieces<int64_t>(other.documents_spool, sizeof(int64_t), add_ends));
  if (options.multimodal) MEG_RETURN_IF_ERROR(append_file(other.modes_spool, modes));
  return read_pieces<std::byte>(other.bin, 0, [&](auto piece) {
    if (keep_going && !keep_going()) return Status(StatusCode::kCancelled, "interrupted");
    return items.append(piece);
  });
}

/// Brings both files to their final content.
Status IndexedDatasetBuilder::State::complete() {
  MEG_RETURN_IF_ERROR(check_whole());
  MEG_RETURN_IF_ERROR(flush());
  return write_index();
}

/// Whether lengths and documents, cut to the mark, add up to it.
Status IndexedDatasetBuilder::State::check_mark(const Mark& mark) const {
  Mark found;
  bool is_right = true;
  MEG_RETURN_IF_ERROR(read_pieces<int32_t>(stored_lengths(), lengths_begin(), [&](auto piece) {
    is_right = is_right && find_negative(piece) == piece.size();
    found.sequences += static_cast<int64_t>(piece.size());
    found.items += sum(piece);
    return Status();
  }));
  int64_t last = 0;
  MEG_RETURN_IF_ERROR(read_pieces<int64_t>(documents_spool, 0, [&](auto piece) {
    is_right = is_right && std::is_sorted(piece.begin(), piece.end()) && piece.front() >= last;
    last = piece.back();
    return Status();
  }));
  if (is_right && found.items == mark.items && last == mark.sequences) return Status();
  return make_error(StatusCode::kCorruption,
                    "{}{}: expected {} tokens in {} sequences of documents, found {} in {}",
                    idx.path(), kResumeSuffix, mark.items, mark.sequences, found.items, last);
}

Status IndexedDatasetBuilder::State::resume(const Mark& mark) {
  const bool is_begin = mark.documents == 0;
  const int64_t lengths_size = is_begin ? 0 : lengths_begin() + 4 * mark.sequences;
  const int64_t spool_size = is_begin ? 0 : 8 * (mark.documents + 1);
  MEG_RETURN_IF_ERROR(bin.truncate(mark.items * item_size));
  MEG_RETURN_IF_ERROR(stored_lengths().truncate(lengths_size));
  // A process that was killed in finish() may have begun to write it.
  if (is_tntidx()) MEG_RETURN_IF_ERROR(idx.truncate(0));
  MEG_RETURN_IF_ERROR(documents_spool.truncate(spool_size));
  MEG_RETURN_IF_ERROR(check_mark(mark));
  sequence_count = document_end = mark.sequences;
  document_count = mark.documents;
  item_count = mark.items;
  bin_size = reserved = reserved_done = mark.items * item_size;
  items = io::PieceWriter(bin, bin_size);
  lengths = io::PieceWriter(stored_lengths(), lengths_begin() + 4 * mark.sequences);
  documents = io::PieceWriter(documents_spool, spool_size);
  return is_begin ? documents.append_value(int64_t{0}) : Status();
}

Status IndexedDatasetBuilder::State::check_reserved(int64_t offset, int64_t count) const {
  const int64_t end = bin_size;
  if (offset >= 0 && count >= 0 && count <= end && offset <= end - count) return Status();
  return make_error(StatusCode::kOutOfRange, "{}: {} bytes at byte {} were not reserved",
                    bin.path(), count, offset);
}

}  // namespace meg::dataset
