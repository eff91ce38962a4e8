#include "libmeg/dataset/indexed_dataset_builder.h"

#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "libmeg/dataset/index_format.h"
#include "libmeg/dataset/internal/builder_state.h"
#include "libmeg/dataset/internal/companion_files.h"
#include "libmeg/dataset/internal/dataset_lock.h"
#include "libmeg/dataset/internal/view_files.h"
#include "libmeg/io/atomic_file.h"
#include "libmeg/io/file_lock.h"

namespace meg::dataset {
namespace {

Result<io::AtomicFile> create_file(const std::string& path, bool resumable,
                                   const std::string& suffix) {
  return resumable ? io::AtomicFile::open_kept(path, suffix) : io::AtomicFile::create_regular(path);
}

/// Whether the format has what the options ask for.
Status check_format(const IndexedDatasetBuilder::Options& options, const std::string& prefix) {
  const bool is_tntidx = options.format == IndexFormat::kTntidx;
  // Megatron's builder of TNTIDX knows no size for uint16.
  if (!index_dtype_code(options.dtype).has_value() ||
      (is_tntidx && options.dtype == DType::kUint16)) {
    return make_error(StatusCode::kInvalidArgument, "{}: {} datasets cannot hold {}", prefix,
                      index_format_name(options.format), dtype_name(options.dtype));
  }
  if (is_tntidx && options.multimodal) {
    return make_error(StatusCode::kInvalidArgument, "{}: TNTIDX has no sequence modes", prefix);
  }
  return Status();
}

}  // namespace

IndexedDatasetBuilder::IndexedDatasetBuilder(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

IndexedDatasetBuilder::IndexedDatasetBuilder(IndexedDatasetBuilder&&) noexcept = default;
IndexedDatasetBuilder& IndexedDatasetBuilder::operator=(IndexedDatasetBuilder&&) noexcept = default;
IndexedDatasetBuilder::~IndexedDatasetBuilder() = default;

Result<IndexedDatasetBuilder> IndexedDatasetBuilder::create(const std::string& path,
                                                            const Options& options) {
  const std::string prefix = dataset_prefix(path);
  MEG_RETURN_IF_ERROR(check_is_path(prefix));
  MEG_RETURN_IF_ERROR(check_format(options, prefix));
  const bool kept = options.resume_at.has_value();
  if (kept && options.multimodal) {
    return make_error(StatusCode::kUnsupported, "{}: a multimodal dataset cannot be resumed",
                      prefix);
  }
  // Lock before the files: it keeps another process from writing the same pair at the same time.
  MEG_ASSIGN_OR_RETURN(io::FileLock lock, lock_dataset(prefix));
  MEG_RETURN_IF_ERROR(check_is_no_view(prefix));
  MEG_ASSIGN_OR_RETURN(io::AtomicFile bin, create_file(prefix + ".bin", kept, kResumeSuffix));
  MEG_ASSIGN_OR_RETURN(io::AtomicFile idx, create_file(prefix + ".idx", kept, kResumeSuffix));
  // The spools are never published; as partial files they vanish whatever happens.
  io::AtomicFile lengths;
  if (options.format == IndexFormat::kTntidx) {
    MEG_ASSIGN_OR_RETURN(lengths, create_file(prefix + ".idx", kept, kLengthsSuffix));
  }
  MEG_ASSIGN_OR_RETURN(io::AtomicFile documents,
                       create_file(prefix + ".idx", kept, kDocumentsSuffix));
  io::AtomicFile modes;
  if (options.multimodal) {
    MEG_ASSIGN_OR_RETURN(modes, io::AtomicFile::create_regular(prefix + ".idx"));
  }
  auto state = std::make_unique<State>(options, std::move(lock), std::move(bin), std::move(idx),
                                       std::move(lengths), std::move(documents), std::move(modes));
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
    return make_error(StatusCode::kInvalidArgument,
                      "{}: sequence {}: {} bytes are not a whole number of {}s", state_->bin.path(),
                      state_->sequence_count, items.size(), dtype_name(state_->options.dtype));
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

Status IndexedDatasetBuilder::write_at(int64_t offset, std::span<const std::byte> items) const {
  const auto count = static_cast<int64_t>(items.size());
  MEG_RETURN_IF_ERROR(state_->check_reserved(offset, count));
  MEG_RETURN_IF_ERROR(state_->bin.write_at(offset, items));
  // Threads write their ranges in any order, so only the sum of bytes says how far all are.
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
  // Ranges that were reserved and not filled would be copied as zeros, sequences of an open
  // document would become a part of the next one.
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
  // All at once: the device may write them in one sweep.
  std::vector<io::AtomicFile*> files = {&state_->bin, &state_->idx, &state_->documents_spool};
  if (state_->is_tntidx()) files.push_back(&state_->lengths_spool);
  return io::AtomicFile::flush_all(files);
}

Status IndexedDatasetBuilder::publish_all(std::span<const Finished> datasets) {
  std::vector<io::FileLock> locks;
  std::vector<io::AtomicFile::Kept> files;
  for (const Finished& dataset : datasets) {
    MEG_ASSIGN_OR_RETURN(locks.emplace_back(), lock_dataset(dataset.prefix));
    // First all .bin files, then all .idx files: readers open a dataset by its .idx, and must find
    // the .bin that belongs to it.
    files.push_back(
        {dataset.prefix + ".bin", kResumeSuffix, dataset.mark.items * dtype_size(dataset.dtype)});
  }
  for (const Finished& dataset : datasets) {
    files.push_back({dataset.prefix + ".idx", kResumeSuffix,
                     index_bytes(dataset.format, dataset.mark.sequences, dataset.mark.documents)});
    std::error_code ignored;
    // A run that was killed while it published comes here again; companions that stand beside a
    // published pair are its own by then.
    const bool is_done = !std::filesystem::exists(files.back().path + kResumeSuffix, ignored);
    if (!is_done) MEG_RETURN_IF_ERROR(remove_companion_files(dataset.prefix));
  }
  MEG_RETURN_IF_ERROR(io::AtomicFile::publish_kept(files));
  for (const Finished& dataset : datasets) {
    MEG_ASSIGN_OR_RETURN(
        std::optional<io::AtomicFile> said,
        create_libmeg_file(dataset.prefix, {dataset.tokenizer, dataset.shard_run}));
    if (said) MEG_RETURN_IF_ERROR(said->commit());
    std::vector<const char*> spools = {kDocumentsSuffix};
    if (dataset.format == IndexFormat::kTntidx) spools.push_back(kLengthsSuffix);
    for (const char* const suffix : spools) {
      MEG_ASSIGN_OR_RETURN(io::AtomicFile spool,
                           io::AtomicFile::open_kept(dataset.prefix + ".idx", suffix));
      spool.discard();
    }
  }
  return Status();
}

Status IndexedDatasetBuilder::finish_all(std::span<IndexedDatasetBuilder* const> builders,
                                         const std::function<Status()>& before_publishing,
                                         std::span<io::AtomicFile* const> beside) {
  std::vector<io::AtomicFile*> files(beside.begin(), beside.end());
  for (IndexedDatasetBuilder* builder : builders) {
    MEG_RETURN_IF_ERROR(builder->state_->complete());
    files.push_back(&builder->state_->bin);
  }
  // They are renamed in this order: see publish_all.
  for (IndexedDatasetBuilder* builder : builders) files.push_back(&builder->state_->idx);
  // A name must not reach the disk before the bytes that it stands for, or a power cut would leave
  // an empty file under the final name.
  MEG_RETURN_IF_ERROR(io::AtomicFile::flush_all(files));
  if (before_publishing) MEG_RETURN_IF_ERROR(before_publishing());
  std::vector<std::optional<io::AtomicFile>> libmeg_files;
  for (IndexedDatasetBuilder* builder : builders) {
    const Options& options = builder->options();
    MEG_ASSIGN_OR_RETURN(
        libmeg_files.emplace_back(),
        create_libmeg_file(builder->bin_path(), {options.tokenizer, options.shard_run}));
  }
  for (auto& file : libmeg_files) {
    if (file) files.insert(files.begin(), &*file);  // a reader of the pair finds it
  }
  for (IndexedDatasetBuilder* builder : builders) {
    // Caches and notes of the dataset that had this name before say nothing of the new one. They go
    // before the pair appears: a reader that finds none builds its own.
    MEG_RETURN_IF_ERROR(remove_companion_files(builder->bin_path()));
  }
  for (IndexedDatasetBuilder* builder : builders) {
    builder->state_->lengths_spool.discard();
    builder->state_->documents_spool.discard();
    builder->state_->modes_spool.discard();
  }
  MEG_RETURN_IF_ERROR(io::AtomicFile::commit_all(files));
  // Unlock only now, so that no other process can begin the same dataset between two renames.
  for (IndexedDatasetBuilder* builder : builders) builder->state_->lock = io::FileLock();
  return Status();
}

}  // namespace meg::dataset
