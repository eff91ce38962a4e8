#include "libmeg/dataset/indexed_dataset_builder.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <limits>
#include <numeric>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/internal/companion_files.h"
#include "libmeg/dataset/internal/dataset_lock.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/io/file_lock.h"
#include "libmeg/io/piece_writer.h"

namespace meg::dataset {
namespace {

/// Values handled at a time when an array is streamed through memory.
constexpr size_t kPieceValues = size_t{1} << 17;

int64_t sum(std::span<const int32_t> values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

/// The first negative value's place, or values.size().
size_t find_negative(std::span<const int32_t> values) {
  int32_t all = 0;
  for (const int32_t value : values) all |= value;
  if (all >= 0) return values.size();
  const auto found = std::find_if(values.begin(), values.end(), [](int32_t v) { return v < 0; });
  return static_cast<size_t>(found - values.begin());
}

/// The names of files that another process can go on with, behind those they get.
constexpr const char* kResumeSuffix = ".resume";
constexpr const char* kDocumentsSuffix = ".documents.resume";

Result<io::AtomicFile> create_file(const std::string& path, bool resumable,
                                   const std::string& suffix) {
  return resumable ? io::AtomicFile::open_kept(path, suffix) : io::AtomicFile::create_regular(path);
}

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

struct IndexedDatasetBuilder::State {
  State(Options chosen, io::FileLock held, io::AtomicFile bin_file, io::AtomicFile idx_file,
        io::AtomicFile documents_file, io::AtomicFile modes_file)
      : options(chosen),
        item_size(dtype_size(chosen.dtype)),
        lock(std::move(held)),
        bin(std::move(bin_file)),
        idx(std::move(idx_file)),
        documents_spool(std::move(documents_file)),
        modes_spool(std::move(modes_file)) {}

  Options options;
  int64_t item_size;

  io::FileLock lock;  // Goes last.
  io::AtomicFile bin;
  io::AtomicFile idx;  // Lengths arrive at their final place; the rest follows in finish().
  io::AtomicFile documents_spool;  // Document indices and modes wait here until S is known.
  io::AtomicFile modes_spool;

  io::PieceWriter items{bin, 0};
  io::PieceWriter lengths{idx, kIndexHeaderSize};
  io::PieceWriter documents{documents_spool, 0};
  io::PieceWriter modes{modes_spool, 0};

  int64_t sequence_count = 0;
  int64_t document_count = 0;
  int64_t document_end = 0;  // Sequences in documents that have ended.
  int64_t item_count = 0;
  std::atomic<int64_t> bin_size = 0;               // Bytes of all items taken note of.
  mutable std::atomic<int64_t> reserved_done = 0;  // Bytes that write_at has written.
  int64_t reserved = 0;                            // Bytes that write_at has to write.

  bool document_is_open() const { return document_end != sequence_count; }

  Status add_sequences(std::span<const int32_t> sequence_lengths);
  Status add_modes(std::span<const int8_t> sequence_modes);
  Status end_document(int64_t end);
  Status add_state(const State& other, const std::function<bool()>& keep_going);
  Status write_pointers(io::PieceWriter& out) const;
  Status write_index();
  Status check_whole() const;
  Status check_reserved(int64_t offset, int64_t count) const;
  Status flush();
  Status check_mark(const Mark& mark) const;
  Status resume(const Mark& mark);
  Status complete();
};

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

Status IndexedDatasetBuilder::State::write_index() {
  std::array<std::byte, kIndexHeaderSize> header;
  const bool legacy = options.legacy_float64_code && options.dtype == DType::kFloat64;
  const uint8_t code = legacy ? kLegacyFloat64Code : index_dtype_code(options.dtype).value();
  store_index_header({.dtype_code = code,
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
  MEG_RETURN_IF_ERROR(read_pieces<int32_t>(other.idx, kIndexHeaderSize,
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
  MEG_RETURN_IF_ERROR(read_pieces<int32_t>(idx, kIndexHeaderSize, [&](auto piece) {
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
  const int64_t index_size = is_begin ? 0 : kIndexHeaderSize + 4 * mark.sequences;
  const int64_t spool_size = is_begin ? 0 : 8 * (mark.documents + 1);
  MEG_RETURN_IF_ERROR(bin.truncate(mark.items * item_size));
  MEG_RETURN_IF_ERROR(idx.truncate(index_size));
  MEG_RETURN_IF_ERROR(documents_spool.truncate(spool_size));
  MEG_RETURN_IF_ERROR(check_mark(mark));
  sequence_count = document_end = mark.sequences;
  document_count = mark.documents;
  item_count = mark.items;
  bin_size = reserved = reserved_done = mark.items * item_size;
  items = io::PieceWriter(bin, bin_size);
  lengths = io::PieceWriter(idx, kIndexHeaderSize + 4 * mark.sequences);
  documents = io::PieceWriter(documents_spool, spool_size);
  return is_begin ? documents.append_value(int64_t{0}) : Status();
}

IndexedDatasetBuilder::IndexedDatasetBuilder(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

IndexedDatasetBuilder::IndexedDatasetBuilder(IndexedDatasetBuilder&&) noexcept = default;
IndexedDatasetBuilder& IndexedDatasetBuilder::operator=(IndexedDatasetBuilder&&) noexcept = default;
IndexedDatasetBuilder::~IndexedDatasetBuilder() = default;

Result<IndexedDatasetBuilder> IndexedDatasetBuilder::create(const std::string& path,
                                                            const Options& options) {
  const std::string prefix = dataset_prefix(path);
  if (!index_dtype_code(options.dtype).has_value()) {
    return make_error(StatusCode::kInvalidArgument, "{}: datasets cannot hold {}", prefix,
                      dtype_name(options.dtype));
  }
  const bool kept = options.resume_at.has_value();
  if (kept && options.multimodal) {
    return make_error(StatusCode::kUnsupported, "{}: a multimodal dataset cannot be resumed",
                      prefix);
  }
  MEG_ASSIGN_OR_RETURN(io::FileLock lock, lock_dataset(prefix));
  MEG_ASSIGN_OR_RETURN(io::AtomicFile bin, create_file(prefix + ".bin", kept, kResumeSuffix));
  MEG_ASSIGN_OR_RETURN(io::AtomicFile idx, create_file(prefix + ".idx", kept, kResumeSuffix));
  // The spools are never published; as partial files they vanish whatever happens.
  MEG_ASSIGN_OR_RETURN(io::AtomicFile documents,
                       create_file(prefix + ".idx", kept, kDocumentsSuffix));
  io::AtomicFile modes;
  if (options.multimodal) {
    MEG_ASSIGN_OR_RETURN(modes, io::AtomicFile::create_regular(prefix + ".idx"));
  }
  auto state = std::make_unique<State>(options, std::move(lock), std::move(bin), std::move(idx),
                                       std::move(documents), std::move(modes));
  if (kept) {
    MEG_RETURN_IF_ERROR(state->resume(*options.resume_at));
  } else {
    MEG_RETURN_IF_ERROR(state->documents.append_value(int64_t{0}));
  }
  return IndexedDatasetBuilder(std::move(state));
}

Status IndexedDatasetBuilder::add_item(std::span<const std::byte> items, int8_t mode) {
  const auto item_size = static_cast<size_t>(state_->item_size);
  const size_t length = items.size() / item_size;
  if (items.size() % item_size != 0) {
    return make_error(StatusCode::kInvalidArgument, "{}: sequence {}: {} bytes are no whole {}s",
                      state_->bin.path(), state_->sequence_count, items.size(),
                      dtype_name(state_->options.dtype));
  }
  if (length > size_t{std::numeric_limits<int32_t>::max()}) {
    return make_error(
        StatusCode::kOutOfRange, "{}: sequence {}: {} items: a sequence may have at most {}",
        state_->bin.path(), state_->sequence_count, length, std::numeric_limits<int32_t>::max());
  }
  if (mode != 0 && !state_->options.multimodal) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: sequence {}: mode {} in a dataset that is not multimodal",
                      state_->bin.path(), state_->sequence_count, mode);
  }
  MEG_RETURN_IF_ERROR(state_->items.append(items));
  const auto length32 = static_cast<int32_t>(length);
  MEG_RETURN_IF_ERROR(state_->add_modes({&mode, 1}));
  return state_->add_sequences({&length32, 1});
}

Status IndexedDatasetBuilder::end_document() {
  return state_->end_document(state_->sequence_count);
}

Result<int64_t> IndexedDatasetBuilder::reserve(std::span<const int32_t> sequence_lengths,
                                               std::span<const int32_t> document_sequence_counts,
                                               std::span<const int8_t> sequence_modes) {
  const std::string& path = state_->bin.path();
  if (state_->document_is_open()) {
    return make_error(StatusCode::kInvalidArgument, "{}: reserve() inside a document", path);
  }
  if (!sequence_modes.empty() &&
      (!state_->options.multimodal || sequence_modes.size() != sequence_lengths.size())) {
    return make_error(StatusCode::kInvalidArgument, "{}: expected {} modes, found {}", path,
                      state_->options.multimodal ? sequence_lengths.size() : 0,
                      sequence_modes.size());
  }
  const size_t bad_length = find_negative(sequence_lengths);
  if (bad_length != sequence_lengths.size()) {
    return make_error(StatusCode::kInvalidArgument, "{}: sequence {}: negative length {}", path,
                      state_->sequence_count + static_cast<int64_t>(bad_length),
                      sequence_lengths[bad_length]);
  }
  const bool counts_fit =
      find_negative(document_sequence_counts) == document_sequence_counts.size() &&
      sum(document_sequence_counts) == static_cast<int64_t>(sequence_lengths.size());
  if (!counts_fit) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: the documents' sequence counts do not add up to {} sequences", path,
                      sequence_lengths.size());
  }
  const int64_t offset = state_->bin_size;
  int64_t end = state_->sequence_count;
  MEG_RETURN_IF_ERROR(state_->add_sequences(sequence_lengths));
  for (const int32_t count : document_sequence_counts) {
    end += count;
    MEG_RETURN_IF_ERROR(state_->end_document(end));
  }
  const std::vector<int8_t> zeros(sequence_modes.empty() ? sequence_lengths.size() : 0);
  MEG_RETURN_IF_ERROR(state_->add_modes(sequence_modes.empty() ? zeros : sequence_modes));
  const int64_t bytes = state_->bin_size - offset;
  MEG_RETURN_IF_ERROR(state_->items.skip(bytes));
  state_->reserved += bytes;
  return offset;
}

Status IndexedDatasetBuilder::State::check_reserved(int64_t offset, int64_t count) const {
  const int64_t end = bin_size;
  if (offset >= 0 && count >= 0 && count <= end && offset <= end - count) return Status();
  return make_error(StatusCode::kOutOfRange, "{}: {} bytes at byte {} were not reserved",
                    bin.path(), count, offset);
}

Status IndexedDatasetBuilder::write_at(int64_t offset, std::span<const std::byte> items) const {
  const auto count = static_cast<int64_t>(items.size());
  MEG_RETURN_IF_ERROR(state_->check_reserved(offset, count));
  MEG_RETURN_IF_ERROR(state_->bin.write_at(offset, items));
  const int64_t before = state_->reserved_done.fetch_add(count);
  io::start_writeback_if_due(state_->bin, before, before + count);
  return Status();
}

Status IndexedDatasetBuilder::copy_at(int64_t offset, const io::FileDescriptor& from,
                                      int64_t from_offset, int64_t bytes,
                                      const io::FileDescriptor::Moved& moved) const {
  MEG_RETURN_IF_ERROR(state_->check_reserved(offset, bytes));
  MEG_RETURN_IF_ERROR(state_->bin.copy_from(from, from_offset, bytes, offset, moved));
  state_->reserved_done += bytes;
  return Status();
}

Status IndexedDatasetBuilder::add_builder(IndexedDatasetBuilder& other,
                                          const std::function<bool()>& keep_going) {
  State& from = *other.state_;
  const Options& options = state_->options;
  if (from.options.dtype != options.dtype || from.options.multimodal != options.multimodal) {
    return make_error(StatusCode::kInvalidArgument, "{}: expected the dtype and modes of {}",
                      from.bin.path(), state_->bin.path());
  }
  MEG_RETURN_IF_ERROR(state_->check_whole());
  MEG_RETURN_IF_ERROR(from.check_whole());
  MEG_RETURN_IF_ERROR(from.flush());
  return state_->add_state(from, keep_going);
}

const IndexedDatasetBuilder::Options& IndexedDatasetBuilder::options() const {
  return state_->options;
}

const std::string& IndexedDatasetBuilder::bin_path() const { return state_->bin.path(); }

int64_t IndexedDatasetBuilder::sequence_count() const { return state_->sequence_count; }

int64_t IndexedDatasetBuilder::document_count() const { return state_->document_count; }

int64_t IndexedDatasetBuilder::item_count() const { return state_->item_count; }

Status IndexedDatasetBuilder::finish() {
  IndexedDatasetBuilder* const self = this;
  return finish_all({&self, 1});
}

Result<IndexedDatasetBuilder::Mark> IndexedDatasetBuilder::mark() {
  MEG_RETURN_IF_ERROR(state_->flush());
  return Mark{state_->sequence_count, state_->document_count, state_->item_count};
}

Status IndexedDatasetBuilder::sync() const {
  io::AtomicFile* const files[] = {&state_->bin, &state_->idx, &state_->documents_spool};
  return io::AtomicFile::flush_all(files);
}

Status IndexedDatasetBuilder::publish_all(std::span<const Finished> datasets) {
  std::vector<io::FileLock> locks;
  std::vector<io::AtomicFile::Kept> files;
  for (const auto& [prefix, dtype, mark, tokenizer] : datasets) {
    MEG_ASSIGN_OR_RETURN(locks.emplace_back(), lock_dataset(prefix));
    files.push_back({prefix + ".bin", kResumeSuffix, mark.items * dtype_size(dtype)});
  }
  for (const auto& [prefix, dtype, mark, tokenizer] : datasets) {
    const int64_t size = kIndexHeaderSize + 12 * mark.sequences + 8 * (mark.documents + 1);
    files.push_back({prefix + ".idx", kResumeSuffix, size});
    std::error_code ignored;
    const bool is_done = !std::filesystem::exists(files.back().path + kResumeSuffix, ignored);
    if (!is_done) MEG_RETURN_IF_ERROR(remove_companion_files(prefix));
  }
  MEG_RETURN_IF_ERROR(io::AtomicFile::publish_kept(files));
  for (const Finished& dataset : datasets) {
    MEG_ASSIGN_OR_RETURN(std::optional<io::AtomicFile> said,
                         tokenizer_file(dataset.prefix, dataset.tokenizer));
    if (said) MEG_RETURN_IF_ERROR(said->commit());
    MEG_ASSIGN_OR_RETURN(io::AtomicFile spool,
                         io::AtomicFile::open_kept(dataset.prefix + ".idx", kDocumentsSuffix));
    spool.discard();
  }
  return Status();
}

Status IndexedDatasetBuilder::finish_all(std::span<IndexedDatasetBuilder* const> builders,
                                         const std::function<Status()>& before_publishing) {
  std::vector<io::AtomicFile*> files;
  for (IndexedDatasetBuilder* builder : builders) {
    MEG_RETURN_IF_ERROR(builder->state_->complete());
    files.push_back(&builder->state_->bin);
  }
  for (IndexedDatasetBuilder* builder : builders) files.push_back(&builder->state_->idx);
  MEG_RETURN_IF_ERROR(io::AtomicFile::flush_all(files));
  if (before_publishing) MEG_RETURN_IF_ERROR(before_publishing());
  std::vector<std::optional<io::AtomicFile>> tokenizer_files;
  for (IndexedDatasetBuilder* builder : builders) {
    MEG_ASSIGN_OR_RETURN(tokenizer_files.emplace_back(),
                         tokenizer_file(builder->bin_path(), builder->options().tokenizer));
  }
  for (auto& file : tokenizer_files) {
    if (file) files.insert(files.begin(), &*file);  // a reader of the pair finds it
  }
  for (IndexedDatasetBuilder* builder : builders) {
    MEG_RETURN_IF_ERROR(remove_companion_files(builder->bin_path()));
  }
  for (IndexedDatasetBuilder* builder : builders) {
    builder->state_->documents_spool.discard();
    builder->state_->modes_spool.discard();
  }
  MEG_RETURN_IF_ERROR(io::AtomicFile::commit_all(files));
  for (IndexedDatasetBuilder* builder : builders) builder->state_->lock = io::FileLock();
  return Status();
}

}  // namespace meg::dataset
