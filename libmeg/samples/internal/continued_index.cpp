#include "libmeg/samples/internal/continued_index.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "libmeg/numpy/random_state.h"
#include "libmeg/samples/internal/gpt_index_builder.h"
#include "libmeg/samples/internal/sample_walk.h"

// Megatron reads sample s as the tokens from row shuffle[s] of the sample index to the row after
// it, along the document index, and asks nothing else of the three arrays. So a sample can be
// changed by two rows of its own behind all others, whose entries stand behind all others too; the
// row between two such pairs begins no sample.

namespace meg::samples {
namespace {

/// Samples of the first epoch where epochs are not shuffled together; else 0.
int64_t first_epoch_of(const GptIndexPlan& plan) {
  if (plan.stored) return plan.stored->first_epoch;
  if (plan.epochs == 1) return plan.samples;
  const bool is_apart = plan.epochs == 2 && plan.samples_before_last_epoch.has_value();
  return is_apart ? *plan.samples_before_last_epoch : 0;
}

Status interrupted() { return {StatusCode::kCancelled, "index of a dataset: interrupted"}; }

/// A generator of its own for each further epoch, so that it does not matter when one is added.
numpy::RandomState generator(uint32_t seed, int64_t epoch) {
  return numpy::RandomState(seed + static_cast<uint32_t>(epoch));
}

}  // namespace

ContinuedIndex::ContinuedIndex(const GptIndex& index, const GptIndexPlan& plan, IndexSource source)
    : plan_(plan),
      source_(std::move(source)),
      documents_(index.documents().begin(), index.documents().end()),
      epochs_(plan.epochs),
      first_epoch_(first_epoch_of(plan)),
      // What exclude() and append_epoch() make has rows in which no sample begins.
      is_whole_(plan.rows() == plan.samples) {
  std::visit([this](auto rows) { rows_.assign(rows.begin(), rows.end()); }, index.rows());
  std::visit([this](auto all) { shuffle_.assign(all.begin(), all.end()); }, index.shuffle());
}

bool ContinuedIndex::is_excluded(int64_t sequence) const {
  const auto after =
      std::ranges::upper_bound(source_.excluded, sequence, {}, &dataset::SequenceRange::begin);
  return after != source_.excluded.begin() && sequence < std::prev(after)->end;
}

Result<std::optional<int64_t>> ContinuedIndex::without_excluded(const GptIndex& index,
                                                                int64_t row) {
  std::vector<SamplePart> kept;
  bool is_changed = false;
  const auto length_of = [&](int64_t sequence) -> int64_t {
    return sequence < 0 || sequence >= source_.lengths.size() ? -1 : source_.lengths[sequence];
  };
  MEG_RETURN_IF_ERROR(
      walk_sample(index, row, plan_.extra_token, length_of, [&](const SamplePart& part) -> Status {
        if (part.length == 0) return {};
        if (is_excluded(part.sequence)) {
          is_changed = true;
        } else {
          kept.push_back(part);
        }
        return {};
      }));
  if (!is_changed) return std::optional(row);
  ++changed_;
  int64_t tokens = 0;
  for (const SamplePart& part : kept) tokens += part.length;
  // One token alone has nothing to predict.
  if (tokens <= plan_.extra_token) {
    ++dropped_;
    return std::optional<int64_t>();
  }
  const auto first = static_cast<int64_t>(documents_.size());
  for (const SamplePart& part : kept) documents_.push_back(static_cast<int32_t>(part.sequence));
  const SamplePart& last = kept.back();
  const int64_t added = row_count() + 1;
  rows_.insert(rows_.end(), {first, kept.front().offset, first + std::ssize(kept) - 1,
                             last.offset + last.length - plan_.extra_token});
  is_whole_ = false;
  return std::optional(added);
}

Status ContinuedIndex::exclude(int64_t consumed) {
  if (source_.excluded.empty()) return {};
  // The arrays grow meanwhile: what is walked over is a copy.
  const std::vector<int32_t> documents = documents_;
  const std::vector<int64_t> rows = rows_;
  const GptIndex index(documents, std::span(rows), std::span(std::as_const(shuffle_)), nullptr);
  std::vector<int64_t> shuffle(shuffle_.begin(), shuffle_.begin() + consumed);
  int64_t first_epoch = std::min(first_epoch_, consumed);
  for (int64_t sample = consumed; sample < samples(); ++sample) {
    const int64_t row = shuffle_[static_cast<size_t>(sample)];
    if (row < 0 || row >= index.row_count()) {
      return make_error(StatusCode::kCorruption,
                        "shuffle index: sample {}: expected a row of 0 to {}, found {}", sample,
                        index.row_count() - 1, row);
    }
    MEG_ASSIGN_OR_RETURN(const auto left, without_excluded(index, row));
    if (!left) continue;
    shuffle.push_back(*left);
    if (sample < first_epoch_) ++first_epoch;
  }
  shuffle_ = std::move(shuffle);
  first_epoch_ = first_epoch;
  return {};
}

Status ContinuedIndex::extend(int64_t samples, const CacheCancelled& cancelled) {
  if (this->samples() >= samples) return {};
  if (is_whole_ && source_.excluded.empty()) return extend_as_megatron(samples, cancelled);
  while (this->samples() < samples) MEG_RETURN_IF_ERROR(append_epoch(cancelled));
  return {};
}

/// Rows go on where they ended, so that the tokens behind the last sample are not lost.
Status ContinuedIndex::extend_as_megatron(int64_t samples, const CacheCancelled& cancelled) {
  const auto [begin, end] = source_.range;
  GptIndexPlan plan = plan_;
  plan.stored.reset();
  const auto samples_of = [&](int64_t epochs) {
    return (epochs * source_.tokens - plan.extra_token) / plan.sequence_length;
  };
  const int64_t before = epochs_;
  plan.epochs = std::max(
      before + 1, (samples * plan.sequence_length + plan.extra_token - 1) / source_.tokens + 1);
  plan.samples = samples_of(plan.epochs);
  documents_.resize(static_cast<size_t>(plan.documents()));
  const auto sequences = static_cast<size_t>(end - begin);
  for (int64_t epoch = before; epoch < plan.epochs; ++epoch) {
    const auto tile =
        std::span(documents_).subspan(static_cast<size_t>(epoch) * sequences, sequences);
    std::iota(tile.begin(), tile.end(), static_cast<int32_t>(begin));
    numpy::RandomState random = generator(source_.seed, epoch);
    if (!random.shuffle(tile, cancelled)) return interrupted();
    const int64_t first = std::max(this->samples(), samples_of(epoch));
    const auto at = shuffle_.size();
    shuffle_.resize(static_cast<size_t>(samples_of(epoch + 1)));
    const auto added = std::span(shuffle_).subspan(at);
    std::iota(added.begin(), added.end(), first);
    if (!random.shuffle(added, cancelled)) return interrupted();
  }
  rows_.clear();
  const SampleRowSink<int64_t> sink = [this](std::span<const int64_t> rows) -> Status {
    rows_.insert(rows_.end(), rows.begin(), rows.end());
    return {};
  };
  MEG_RETURN_IF_ERROR(build_sample_index<int64_t>(plan, source_.lengths, documents_, sink));
  epochs_ = plan.epochs;
  return {};
}

/// An epoch of what is not excluded, behind all that is there.
Status ContinuedIndex::append_epoch(const CacheCancelled& cancelled) {
  std::vector<int32_t> documents;
  int64_t tokens = 0;
  for (int64_t sequence = source_.range.begin; sequence < source_.range.end; ++sequence) {
    if (is_excluded(sequence)) continue;
    documents.push_back(static_cast<int32_t>(sequence));
    tokens += source_.lengths[sequence];
  }
  GptIndexPlan plan = plan_;
  plan.stored.reset();
  plan.sequences = std::ssize(documents);
  plan.epochs = 1;
  plan.samples = (tokens - plan.extra_token) / plan.sequence_length;
  if (tokens <= plan.extra_token || plan.samples == 0) {
    return make_error(StatusCode::kInvalidArgument,
                      "expected a whole sample in what is not excluded, found {} tokens", tokens);
  }
  numpy::RandomState random = generator(source_.seed, epochs_);
  if (!random.shuffle(std::span(documents), cancelled)) return interrupted();
  const auto entry = static_cast<int64_t>(documents_.size());
  const int64_t row = row_count() + 1;
  const SampleRowSink<int64_t> sink = [&](std::span<const int64_t> rows) -> Status {
    for (size_t i = 0; i < rows.size(); i += 2) {
      rows_.insert(rows_.end(), {rows[i] + entry, rows[i + 1]});
    }
    return {};
  };
  MEG_RETURN_IF_ERROR(build_sample_index<int64_t>(plan, source_.lengths, documents, sink));
  documents_.insert(documents_.end(), documents.begin(), documents.end());
  const size_t at = shuffle_.size();
  shuffle_.resize(at + static_cast<size_t>(plan.samples));
  const auto added = std::span(shuffle_).subspan(at);
  std::iota(added.begin(), added.end(), row);
  if (!random.shuffle(added, cancelled)) return interrupted();
  ++epochs_;
  is_whole_ = false;
  return {};
}

}  // namespace meg::samples
