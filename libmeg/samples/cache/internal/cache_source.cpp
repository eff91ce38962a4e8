#include "libmeg/samples/cache/internal/cache_source.h"

#include <limits>

namespace meg::samples {

Status CacheSource::check() const {
  const dataset::SequenceRange range = request_.range;
  if (request_.places.empty()) {
    return make_error(StatusCode::kInvalidArgument, "{}: index cache: expected a place, found none",
                      dataset().prefix());
  }
  if (range.begin < 0 || range.begin >= range.end || range.end > dataset().sequence_count()) {
    return make_error(StatusCode::kOutOfRange,
                      "{}: split: expected sequences within [0, {}), found [{}, {})",
                      dataset().prefix(), dataset().sequence_count(), range.begin, range.end);
  }
  // A document index has 32 bits for each.
  constexpr int64_t kMaxSequences = std::numeric_limits<int32_t>::max();
  if (range.end > kMaxSequences) {
    return make_error(StatusCode::kUnsupported, "{}: expected at most {} sequences, found {}",
                      dataset().prefix(), kMaxSequences, range.end);
  }
  return Status();
}

Result<IdxStamp> CacheSource::stamp() {
  if (!stamp_.has_value()) {
    MEG_ASSIGN_OR_RETURN(stamp_, stamp_idx(dataset()));
  }
  return *stamp_;
}

Result<LengthTotals> CacheSource::totals() {
  if (!totals_.has_value()) {
    MEG_ASSIGN_OR_RETURN(totals_, total_lengths(dataset(), request_.range));
  }
  return *totals_;
}

Result<GptIndexPlan> CacheSource::plan(const LengthTotals& totals) const {
  const dataset::SequenceRange range = request_.range;
  if (totals.tokens == 0) {
    return make_error(StatusCode::kInvalidArgument,
                      "{}: sequences [{}, {}): expected tokens, found none", dataset().prefix(),
                      range.begin, range.end);
  }
  // Lengths have 31 bits: what lies outside the split cannot change a type.
  const GptIndexRequest request{.sequences = range.end - range.begin,
                                .tokens = totals.tokens,
                                .longest_sequence = totals.longest,
                                .samples = request_.samples,
                                .sequence_length = request_.sequence_length,
                                .extra_token = request_.extra_token,
                                .drop_last_partial = request_.drop_last_partial};
  const auto plan = plan_gpt_index(request, version_);
  return plan.has_value() ? plan : plan.error().with_prefix(dataset().prefix());
}

Status CacheSource::prepare() {
  // The stamp before the lengths: what changes meanwhile is then seen by its time.
  MEG_RETURN_IF_ERROR(stamp().status());
  MEG_ASSIGN_OR_RETURN(const LengthTotals lengths, totals());
  return plan(lengths).status();
}

}  // namespace meg::samples
