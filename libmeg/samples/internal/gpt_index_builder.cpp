#include "libmeg/samples/internal/gpt_index_builder.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <vector>

// A row of the sample index is the place where a sample begins: an entry of the document index and
// a token offset in it. With S = sequence_length, row n stands n S tokens after the begin, walked
// along the document index; a sample reads S tokens and the extra one, which is the next sample's
// first. Most time goes into waiting for lengths, which lie at random places: hence the prefetch
// kEntriesAhead, the copied lengths in huge pages (gpt_index_files.cpp) and a loop whose only
// branch is its end. docs/performance.md, "Index caches beside megatron-core", has what each of
// these gave and what did not help.

namespace meg::samples {
namespace {

/// Rows that go to the sink at once.
constexpr size_t kPieceRows = size_t{1} << 16;

/// Entries of the document index between asking memory for a length and using it.
constexpr size_t kEntriesAhead = 128;

/// Builds the rows of a sample index from the lengths of the document index's entries, in order.
template <class T>
class SampleRows {
 public:
  SampleRows(const GptIndexPlan& plan, const SampleRowSink<T>& sink)
      : sink_(sink),
        sequence_length_(plan.sequence_length),
        extra_token_(plan.extra_token),
        missing_(plan.samples + 1),
        remaining_(plan.sequence_length + plan.extra_token),
        piece_(kPieceRows) {}

  /// Rows still to come.
  int64_t missing() const { return missing_; }

  /// The first sample's start, also where there is no entry.
  void add_first() { add(0, 0); }

  /// Takes entries from `entry` on and returns where it stopped: at `end`, when no row is missing,
  /// or, rarely, where the next call continues. length_of(entry) gives tokens.
  template <class LengthOf>
  Result<size_t> take(size_t entry, size_t end, const LengthOf& length_of);

  /// All entries are taken: what is missing starts at the end of the last one.
  Status finish(size_t last_entry, int64_t last_length);

 private:
  struct Row {
    T entry;
    T offset;
  };

  void add(size_t entry, int64_t offset) {
    piece_[filled_++] = {static_cast<T>(entry), static_cast<T>(offset)};
    --missing_;
  }

  Status flush() {
    if (filled_ == 0) return Status();
    static_assert(sizeof(Row) == 2 * sizeof(T));
    const std::span<const T> values(&piece_.front().entry, 2 * filled_);
    filled_ = 0;
    return sink_(values);
  }

  const SampleRowSink<T>& sink_;
  int64_t sequence_length_;
  int64_t extra_token_;
  int64_t missing_;
  int64_t remaining_;  // from the entry's first token to the last one of the sample before the row
  std::vector<Row> piece_;
  size_t filled_ = 0;
};

template <class T>
template <class LengthOf>
Result<size_t> SampleRows<T>::take(size_t entry, size_t end, const LengthOf& length_of) {
  if (filled_ == kPieceRows) MEG_RETURN_IF_ERROR(flush());
  const size_t room = std::min(kPieceRows - filled_, static_cast<size_t>(missing_));
  // Each entry of the fast loop gives at most one row, so this many entries cannot overfill the
  // piece.
  end = std::min(end, entry + room);
  Row* row = piece_.data() + filled_;
  int64_t remaining = remaining_;
  int64_t length = 0;
  // Whether an entry holds a row cannot be predicted: the row is written and only then counted. An
  // entry with more rows ends the loop.
  while (entry < end && remaining > 0) {
    length = length_of(entry);
    *row = {static_cast<T>(entry), static_cast<T>(remaining - extra_token_)};
    remaining -= length;
    const int64_t found = remaining <= 0 ? 1 : 0;
    row += found;
    remaining += found * sequence_length_;
    ++entry;
  }
  const auto rows = row - piece_.data() - static_cast<std::ptrdiff_t>(filled_);
  filled_ += static_cast<size_t>(rows);
  missing_ -= rows;
  for (; remaining <= 0 && missing_ > 0; remaining += sequence_length_) {
    if (filled_ == kPieceRows) MEG_RETURN_IF_ERROR(flush());
    add(entry - 1, remaining + length - extra_token_);
  }
  remaining_ = remaining;
  return entry;
}

template <class T>
Status SampleRows<T>::finish(size_t last_entry, int64_t last_length) {
  while (missing_ > 0) {
    if (filled_ == kPieceRows) MEG_RETURN_IF_ERROR(flush());
    add(last_entry, last_length - extra_token_);
  }
  return flush();
}

Status finished(bool shuffled) {
  if (shuffled) return {};
  return Status(StatusCode::kCancelled, "index of a dataset: interrupted");
}

template <class T>
Status shuffled_from(T first, numpy::RandomState& random, std::span<T> out,
                     const CacheCancelled& cancelled) {
  std::iota(out.begin(), out.end(), first);
  return finished(random.shuffle(out, cancelled));
}

/// Epochs that are shuffled as one.
int64_t epochs_together(const GptIndexPlan& plan) {
  return plan.epochs - (plan.samples_before_last_epoch.has_value() ? 1 : 0);
}

/// `epochs` times the numbers of `range`, shuffled as one.
Status shuffle_epochs(int64_t epochs, dataset::SequenceRange range, numpy::RandomState& random,
                      std::span<int32_t> out, const CacheCancelled& cancelled) {
  const auto sequences = static_cast<size_t>(range.end - range.begin);
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    const auto tile = out.subspan(static_cast<size_t>(epoch) * sequences, sequences);
    std::iota(tile.begin(), tile.end(), static_cast<int32_t>(range.begin));
  }
  return finished(random.shuffle(out, cancelled));
}

}  // namespace

Status build_document_index(const GptIndexPlan& plan, dataset::SequenceRange range,
                            numpy::RandomState& random, std::span<int32_t> out,
                            const CacheCancelled& cancelled) {
  assert(range.end - range.begin == plan.sequences);
  assert(static_cast<int64_t>(out.size()) == plan.documents());
  const int64_t together = epochs_together(plan);
  const auto first = static_cast<size_t>(together * plan.sequences);
  MEG_RETURN_IF_ERROR(shuffle_epochs(together, range, random, out.first(first), cancelled));
  return shuffle_epochs(plan.epochs - together, range, random, out.subspan(first), cancelled);
}

Status skip_document_index(const GptIndexPlan& plan, numpy::RandomState& random,
                           const CacheCancelled& cancelled) {
  const auto first = static_cast<size_t>(epochs_together(plan) * plan.sequences);
  MEG_RETURN_IF_ERROR(finished(random.skip_shuffle(first, cancelled)));
  return finished(random.skip_shuffle(static_cast<size_t>(plan.documents()) - first, cancelled));
}

template <class T>
Status build_sample_index(const GptIndexPlan& plan, dataset::LittleEndianArray<int32_t> lengths,
                          std::span<const int32_t> documents, const SampleRowSink<T>& sink,
                          int64_t first) {
  assert(static_cast<int64_t>(documents.size()) == plan.documents() && !documents.empty());
  const size_t last = documents.size() - 1;
  const auto length_of = [&](size_t entry) -> int64_t {
    const int64_t ahead = documents[std::min(entry + kEntriesAhead, last)] - first;
    __builtin_prefetch(lengths.bytes().data() + static_cast<size_t>(ahead) * sizeof(int32_t), 0, 2);
    return lengths[documents[entry] - first];
  };
  SampleRows<T> rows(plan, sink);
  rows.add_first();
  size_t entry = 0;
  while (entry < documents.size() && rows.missing() > 0) {
    MEG_ASSIGN_OR_RETURN(entry, rows.take(entry, documents.size(), length_of));
  }
  return rows.finish(last, length_of(last));
}

template Status build_sample_index(const GptIndexPlan&, dataset::LittleEndianArray<int32_t>,
                                   std::span<const int32_t>, const SampleRowSink<int32_t>&,
                                   int64_t);
template Status build_sample_index(const GptIndexPlan&, dataset::LittleEndianArray<int32_t>,
                                   std::span<const int32_t>, const SampleRowSink<int64_t>&,
                                   int64_t);

template <class T>
Status build_shuffle_index(const GptIndexPlan& plan, numpy::RandomState& random, std::span<T> out,
                           const CacheCancelled& cancelled) {
  assert(static_cast<int64_t>(out.size()) == plan.samples);
  const auto first = static_cast<size_t>(plan.samples_before_last_epoch.value_or(plan.samples));
  MEG_RETURN_IF_ERROR(shuffled_from(T{0}, random, out.first(first), cancelled));
  return shuffled_from(static_cast<T>(first), random, out.subspan(first), cancelled);
}

template Status build_shuffle_index(const GptIndexPlan&, numpy::RandomState&, std::span<uint32_t>,
                                    const CacheCancelled&);
template Status build_shuffle_index(const GptIndexPlan&, numpy::RandomState&, std::span<int64_t>,
                                    const CacheCancelled&);

}  // namespace meg::samples
