#include "libmeg/dataset/samples/gpt_index_builder.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <vector>

namespace meg {
namespace {

/// Rows that go to the sink at once.
constexpr size_t kPieceRows = size_t{1} << 16;

/// Walks through the tokens of the document index in steps of samples.
class SampleWalk {
 public:
  SampleWalk(const GptIndexPlan& plan, LittleEndianArray<int32_t> lengths,
             std::span<const int32_t> documents)
      : lengths_(lengths),
        documents_(documents),
        step_(plan.sequence_length + plan.extra_token),
        extra_token_(plan.extra_token) {}

  int64_t entry() const { return entry_; }

  int64_t offset() const { return offset_; }

  /// To where the next sample begins. The last entry is never left: what a last sample lacks is
  /// missing.
  void advance() {
    int64_t remaining = step_;
    const auto last = static_cast<int64_t>(documents_.size()) - 1;
    while (true) {
      const int64_t length = lengths_[documents_[static_cast<size_t>(entry_)]];
      remaining -= length - offset_;
      if (remaining <= 0 || entry_ == last) {
        offset_ = length + std::min(remaining, int64_t{0}) - extra_token_;
        return;
      }
      ++entry_;
      offset_ = 0;
    }
  }

 private:
  LittleEndianArray<int32_t> lengths_;
  std::span<const int32_t> documents_;
  int64_t step_;
  int64_t extra_token_;
  int64_t entry_ = 0;
  int64_t offset_ = 0;
};

template <class T>
void shuffled_from(T first, RandomState& random, std::span<T> out) {
  std::iota(out.begin(), out.end(), first);
  random.shuffle(out);
}

/// `epochs` times the numbers of `range`, shuffled as one.
void shuffle_epochs(int64_t epochs, SequenceRange range, RandomState& random,
                    std::span<int32_t> out) {
  const auto sequences = static_cast<size_t>(range.end - range.begin);
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    const auto tile = out.subspan(static_cast<size_t>(epoch) * sequences, sequences);
    std::iota(tile.begin(), tile.end(), static_cast<int32_t>(range.begin));
  }
  random.shuffle(out);
}

}  // namespace

void build_document_index(const GptIndexPlan& plan, SequenceRange range, RandomState& random,
                          std::span<int32_t> out) {
  assert(range.end - range.begin == plan.sequences);
  assert(static_cast<int64_t>(out.size()) == plan.documents());
  const int64_t apart = plan.samples_before_last_epoch.has_value() ? 1 : 0;
  const int64_t together = plan.epochs - apart;
  const auto first = static_cast<size_t>(together * plan.sequences);
  shuffle_epochs(together, range, random, out.first(first));
  shuffle_epochs(apart, range, random, out.subspan(first));
}

template <class T>
Status build_sample_index(const GptIndexPlan& plan, LittleEndianArray<int32_t> lengths,
                          std::span<const int32_t> documents, const SampleRowSink<T>& sink) {
  assert(static_cast<int64_t>(documents.size()) == plan.documents());
  SampleWalk walk(plan, lengths, documents);
  std::vector<T> rows;
  rows.reserve(2 * kPieceRows);
  for (int64_t row = 0; row <= plan.samples; ++row) {
    if (row > 0) walk.advance();
    rows.push_back(static_cast<T>(walk.entry()));
    rows.push_back(static_cast<T>(walk.offset()));
    if (rows.size() == 2 * kPieceRows) {
      MEG_RETURN_IF_ERROR(sink(rows));
      rows.clear();
    }
  }
  return rows.empty() ? Status() : sink(rows);
}

template Status build_sample_index(const GptIndexPlan&, LittleEndianArray<int32_t>,
                                   std::span<const int32_t>, const SampleRowSink<int32_t>&);
template Status build_sample_index(const GptIndexPlan&, LittleEndianArray<int32_t>,
                                   std::span<const int32_t>, const SampleRowSink<int64_t>&);

template <class T>
void build_shuffle_index(const GptIndexPlan& plan, RandomState& random, std::span<T> out) {
  assert(static_cast<int64_t>(out.size()) == plan.samples);
  const auto first = static_cast<size_t>(plan.samples_before_last_epoch.value_or(plan.samples));
  shuffled_from(T{0}, random, out.first(first));
  shuffled_from(static_cast<T>(first), random, out.subspan(first));
}

template void build_shuffle_index(const GptIndexPlan&, RandomState&, std::span<uint32_t>);
template void build_shuffle_index(const GptIndexPlan&, RandomState&, std::span<int64_t>);

}  // namespace meg
