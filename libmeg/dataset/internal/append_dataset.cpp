#include "libmeg/dataset/internal/append_dataset.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "libmeg/base/bytes.h"
#include "libmeg/dataset/internal/item_types.h"

namespace meg::dataset {
namespace {

/// Sequences whose lengths are in memory at a time, unless a document has more.
constexpr int64_t kSequencesAtOnce = int64_t{1} << 16;

/// Items that are widened or gathered at a time.
constexpr int64_t kItemsAtOnce = int64_t{1} << 17;

template <class To, class From>
constexpr bool holds() {
  using ToLimits = std::numeric_limits<To>;
  using FromLimits = std::numeric_limits<From>;
  if constexpr (ToLimits::is_integer && FromLimits::is_integer) {
    return std::in_range<To>(FromLimits::min()) && std::in_range<To>(FromLimits::max());
  } else {
    // Floats take floats of their width or less; integers are never stored as floats, in which
    // large ids would be rounded.
    return ToLimits::is_integer == FromLimits::is_integer && sizeof(To) >= sizeof(From);
  }
}

template <class From, class To>
void convert(std::span<const std::byte> items, std::byte* into) {
  for (size_t i = 0; i < items.size() / sizeof(From); ++i) {
    store_le(into + i * sizeof(To), static_cast<To>(load_le<From>(&items[i * sizeof(From)])));
  }
}

/// How a dataset's sequences lie in its .bin.
struct Placement {
  int64_t bytes = 0;             ///< By the lengths.
  int64_t first_misplaced = -1;  ///< The first sequence that does not begin where the last ended.
  int64_t expected_pointer = 0;  ///< Of that one.
  int64_t filled_documents = 0;
};

Status check_length(const IndexedDataset& set, int64_t sequence, int32_t length) {
  if (length >= 0) return Status();
  return make_error(StatusCode::kCorruption,
                    "{}: sequence {}: expected a length of at least 0, found {}", set.idx().path(),
                    sequence, length);
}

/// One pass over lengths and pointers, whose pages are not kept.
Result<Placement> placement_of(const IndexedDataset& set) {
  const auto lengths = set.sequence_lengths();
  const auto pointers = set.sequence_pointers();
  Placement placement;
  std::vector<int32_t> buffer = lengths.piece_buffer();
  for (int64_t done = 0; done < set.sequence_count();) {
    const int64_t first = done;
    for (const int32_t length : lengths.copy(first, buffer)) {
      MEG_RETURN_IF_ERROR(check_length(set, done, length));
      if (pointers[done] != placement.bytes && placement.first_misplaced < 0) {
        placement.first_misplaced = done;
        placement.expected_pointer = placement.bytes;
      }
      if (placement.bytes > std::numeric_limits<int64_t>::max() - length * set.item_size()) {
        return make_error(StatusCode::kCorruption,
                          "{}: sequence {}: more bytes than a 64-bit offset counts",
                          set.idx().path(), done);
      }
      placement.bytes += length * set.item_size();
      ++done;
    }
    set.idx().release(lengths.bytes(first, done));
    set.idx().release(pointers.bytes(first, done));
  }
  for (int64_t document = 0; document < set.document_count(); ++document) {
    MEG_ASSIGN_OR_RETURN(const SequenceRange range, set.document(document));
    placement.filled_documents += range.end > range.begin ? 1 : 0;
  }
  return placement;
}

/// Whether `set` is a view; an error where it is none and is damaged.
///
/// A view takes some of the sequences of a .bin, or its end is not used. That looks the same as a
/// .bin that is damaged or cut, so it is taken for one only where the caller says what to think of
/// it. The one case that is known not to be a view: revision 6ef5bdc of Megatron-LM wrote an item
/// more for each document than it counted.
Result<bool> is_view(const IndexedDataset& set, const Placement& placement, Views views) {
  const int64_t bin_bytes = set.bin().size();
  if (placement.first_misplaced >= 0) {
    if (views != Views::kRefuse) return true;
    const int64_t sequence = placement.first_misplaced;
    return make_error(StatusCode::kCorruption,
                      "{}: sequence {} of length {}: expected pointer {}, found {}",
                      set.idx().path(), sequence, set.sequence_lengths()[sequence],
                      placement.expected_pointer, set.sequence_pointers()[sequence]);
  }
  if (placement.bytes == bin_bytes) return false;
  const bool is_short = placement.filled_documents > 0 &&
                        bin_bytes - placement.bytes == placement.filled_documents * set.item_size();
  if (views == Views::kTake || (views == Views::kTell && !is_short)) return true;
  return make_error(
      StatusCode::kCorruption, "{}: expected {} bytes by the lengths, found {}{}", set.bin().path(),
      placement.bytes, bin_bytes,
      is_short ? ": one more item per document, as Megatron-LM 6ef5bdc wrote with --append-eod"
               : "");
}

Status check_kind(const IndexedDatasetBuilder& builder, const IndexedDataset& set, bool widen) {
  const IndexedDatasetBuilder::Options& options = builder.options();
  const bool fits =
      set.dtype() == options.dtype || (widen && dtype_holds(options.dtype, set.dtype()));
  if (!fits) {
    return make_error(StatusCode::kInvalidArgument, "{}: expected dtype {} as in {}, found {}",
                      set.prefix(), dtype_name(options.dtype), builder.bin_path(),
                      dtype_name(set.dtype()));
  }
  if (set.multimodal() == options.multimodal || set.sequence_count() == 0) return Status();
  return make_error(StatusCode::kInvalidArgument, "{}: expected sequence {}modes as in {}",
                    set.prefix(), options.multimodal ? "" : "without ", builder.bin_path());
}

/// Takes note of the documents with the sequences [begin, end), in one piece.
Status reserve_piece(IndexedDatasetBuilder& builder, const IndexedDataset& set, SequenceRange range,
                     std::span<const int32_t> document_sequence_counts) {
  const auto sequences = static_cast<size_t>(range.end - range.begin);
  std::vector<int32_t> lengths(sequences);
  set.sequence_lengths().copy(range.begin, lengths);
  std::vector<int8_t> modes(set.multimodal() ? sequences : 0);
  if (set.multimodal()) set.sequence_modes().copy(range.begin, modes);
  set.idx().release(set.sequence_lengths().bytes(range.begin, range.end));
  return builder.reserve(lengths, document_sequence_counts, modes).status();
}

/// Takes note of all documents; returns where their items go.
Result<int64_t> reserve_all(IndexedDatasetBuilder& builder, const IndexedDataset& set) {
  MEG_ASSIGN_OR_RETURN(const int64_t offset, builder.reserve({}, {}));
  std::vector<int32_t> counts;
  int64_t begin = 0;
  for (int64_t document = 0; document < set.document_count(); ++document) {
    MEG_ASSIGN_OR_RETURN(const SequenceRange range, set.document(document));
    const int64_t sequences = range.end - range.begin;
    if (sequences > std::numeric_limits<int32_t>::max()) {
      return make_error(StatusCode::kUnsupported,
                        "{}: document {}: expected at most {} sequences, found {}",
                        set.idx().path(), document, std::numeric_limits<int32_t>::max(), sequences);
    }
    counts.push_back(static_cast<int32_t>(sequences));
    const bool is_last = document + 1 == set.document_count();
    if (!is_last && std::ssize(counts) < kSequencesAtOnce && range.end - begin < kSequencesAtOnce)
      continue;
    MEG_RETURN_IF_ERROR(reserve_piece(builder, set, {begin, range.end}, counts));
    counts.clear();
    begin = range.end;
  }
  return offset;
}

/// Writes items, converted to the builder's dtype, one after another from `offset` on.
class ItemWriter {
 public:
  ItemWriter(const IndexedDatasetBuilder& builder, const IndexedDataset& set, int64_t offset,
             const io::FileDescriptor::Moved& moved)
      : builder_(builder), set_(set), offset_(offset), moved_(moved) {}

  Status append(std::span<const std::byte> items) {
    const auto at_once = static_cast<size_t>(kItemsAtOnce * set_.item_size());
    while (!items.empty()) {
      const auto piece = items.first(std::min(items.size(), at_once));
      items = items.subspan(piece.size());
      if (buffered_ + piece.size() > at_once) MEG_RETURN_IF_ERROR(flush());
      if (buffer_.empty()) buffer_.resize(at_once);
      std::memcpy(buffer_.data() + buffered_, piece.data(), piece.size());
      buffered_ += piece.size();
      // Pages of the mapping that are done with: a dataset may be larger than the memory that a
      // container is allowed.
      set_.bin().release(piece);
    }
    return Status();
  }

  Status flush() {
    const std::span<const std::byte> items(buffer_.data(), buffered_);
    const auto item_size = static_cast<size_t>(dtype_size(builder_.options().dtype));
    converted_.resize(buffered_ / static_cast<size_t>(set_.item_size()) * item_size);
    with_item_type(set_.dtype(), [&](auto from) {
      with_item_type(builder_.options().dtype, [&](auto to) {
        convert<decltype(from), decltype(to)>(items, converted_.data());
      });
    });
    MEG_RETURN_IF_ERROR(builder_.write_at(offset_, converted_));
    offset_ += static_cast<int64_t>(converted_.size());
    const auto moved = static_cast<int64_t>(buffered_);
    buffered_ = 0;
    if (moved_ && !moved_(moved)) return Status(StatusCode::kCancelled, "interrupted");
    return Status();
  }

 private:
  const IndexedDatasetBuilder& builder_;
  const IndexedDataset& set_;
  int64_t offset_;
  const io::FileDescriptor::Moved& moved_;
  std::vector<std::byte> buffer_;
  size_t buffered_ = 0;
  std::vector<std::byte> converted_;
};

Status write_sequences(const IndexedDatasetBuilder& builder, const IndexedDataset& set,
                       int64_t offset, const io::FileDescriptor::Moved& moved) {
  ItemWriter writer(builder, set, offset, moved);
  const int64_t at_once =
      set.bin().object() == nullptr ? std::numeric_limits<int64_t>::max() : kItemsAtOnce;
  std::vector<std::byte> buffer;
  for (int64_t sequence = 0; sequence < set.sequence_count(); ++sequence) {
    const int64_t length = set.sequence_lengths()[sequence];
    int64_t done = 0;
    do {  // Also of an empty one the pointer is looked at.
      const int64_t count = std::min(length - done, at_once);
      MEG_ASSIGN_OR_RETURN(const auto items, set.sequence(sequence, done, count, buffer));
      MEG_RETURN_IF_ERROR(writer.append(items));
      done += count;
    } while (done < length);
  }
  return writer.flush();
}

/// The first `bytes` of a .bin that is an object, fetched ahead.
Status write_object(const IndexedDatasetBuilder& builder, const IndexedDataset& set, int64_t offset,
                    int64_t bytes, const io::FileDescriptor::Moved& moved) {
  ItemWriter writer(builder, set, offset, moved);
  const auto stream = set.bin().object_stream(0, bytes);
  std::vector<std::byte> piece(static_cast<size_t>(kItemsAtOnce * set.item_size()));
  for (int64_t left = bytes; left > 0;) {
    const auto whole =
        std::span(piece).first(static_cast<size_t>(std::min<int64_t>(left, std::ssize(piece))));
    for (size_t used = 0; used < whole.size();) {
      MEG_ASSIGN_OR_RETURN(const size_t got, stream->read(whole.subspan(used)));
      if (got == 0) {
        return make_error(StatusCode::kIoError, "{}: ended {} bytes early", set.bin().path(),
                          left - static_cast<int64_t>(used));
      }
      used += got;
    }
    MEG_RETURN_IF_ERROR(writer.append(whole));
    left -= std::ssize(whole);
  }
  return writer.flush();
}

}  // namespace

bool dtype_holds(DType to, DType from) {
  return with_item_type(to, [&](auto wide) {
    return with_item_type(from,
                          [&](auto narrow) { return holds<decltype(wide), decltype(narrow)>(); });
  });
}

Result<bool> append_dataset(IndexedDatasetBuilder& builder, const IndexedDataset& set,
                            const AppendOptions& options) {
  MEG_RETURN_IF_ERROR(check_kind(builder, set, options.widen));
  MEG_ASSIGN_OR_RETURN(const Placement placement, placement_of(set));
  MEG_ASSIGN_OR_RETURN(const bool view, is_view(set, placement, options.views));
  MEG_ASSIGN_OR_RETURN(const int64_t offset, reserve_all(builder, set));
  const bool in_order = placement.first_misplaced < 0;
  // The whole .bin at once, copied by the kernel where it can; otherwise sequence by sequence.
  if (in_order && set.bin().object() != nullptr) {
    MEG_RETURN_IF_ERROR(write_object(builder, set, offset, placement.bytes, options.moved));
  } else if (in_order && set.dtype() == builder.options().dtype) {
    MEG_ASSIGN_OR_RETURN(const io::FileDescriptor bin,
                         io::FileDescriptor::open_regular(set.bin().path()));
    MEG_RETURN_IF_ERROR(builder.copy_at(offset, bin, 0, placement.bytes, options.moved));
  } else {
    MEG_RETURN_IF_ERROR(write_sequences(builder, set, offset, options.moved));
  }
  return view;
}

Status IndexedDatasetBuilder::add_index(const std::string& prefix) {
  const bool multimodal = options().multimodal;
  MEG_ASSIGN_OR_RETURN(const IndexedDataset set,
                       IndexedDataset::open(prefix, {.multimodal = multimodal}));
  return append_dataset(*this, set, {}).status();
}

}  // namespace meg::dataset
