#include "libmeg/checkpoint/dialects/mp_rank/internal/optimizer/flat_buffer.h"

// Computes the places of parameters in the buffers of Megatron's distributed optimizer by its own
// rules: from the last parameter to the first, each at a multiple of the alignment, with a bucket
// ended by the parameter that makes it long enough. No file contains these places; they are
// computed and then confirmed by the weights (flat_parameters.cpp).

namespace meg::checkpoint {
namespace {

int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

}  // namespace

int64_t FlatBuffer::elements() const {
  int64_t sum = 0;
  for (const Bucket& bucket : buckets) sum += bucket.elements;
  return sum;
}

std::vector<FlatBuffer::Place> FlatBuffer::coalesced_places() const {
  std::vector<int64_t> starts = {0};
  for (const Bucket& bucket : buckets) starts.push_back(starts.back() + bucket.elements);
  std::vector<Place> found;
  for (const Place& place : places) found.push_back({0, starts[place.bucket] + place.first});
  return found;
}

FlatBuffer lay_out_flat_buffer(std::span<const FlatParameter> parameters,
                               const FlatBufferRules& rules) {
  FlatBuffer buffer;
  buffer.places.resize(parameters.size());
  int64_t end = 0;  // in the bucket that is being filled
  size_t filled = 0;
  const auto close = [&](int64_t elements) {
    buffer.buckets.push_back({elements, round_up(elements, rules.bucket_divisor)});
    end = 0;
    filled = 0;
  };
  for (size_t i = parameters.size(); i-- > 0;) {
    const bool is_alone = parameters[i].is_shared_embedding && rules.splits_shared_embedding;
    // The start that it would have had counts to the bucket before it.
    if (is_alone && filled > 0) {
      const int64_t start = round_up(end, rules.alignment);
      close(start % rules.split_divisor == 0 ? start : round_up(start, rules.bucket_divisor));
    }
    // The start is rounded up even if the bucket ends with the previous parameter: gaps belong to
    // the parameter that follows them.
    const int64_t first = round_up(end, rules.alignment);
    buffer.places[i] = {buffer.buckets.size(), first};
    end = first + parameters[i].elements;
    ++filled;
    if (is_alone || (rules.bucket_size.has_value() && end >= *rules.bucket_size)) close(end);
  }
  if (filled > 0) close(end);
  return buffer;
}

std::optional<std::vector<FlatBuffer::Place>> fill_flat_buckets(
    std::span<const FlatParameter> parameters, std::span<const int64_t> buckets, int64_t alignment,
    int64_t gap, int64_t last_gap) {
  std::vector<FlatBuffer::Place> places(parameters.size());
  size_t bucket = 0;
  int64_t end = 0;
  // The lengths of buckets are known here and not the rule that cut them: a parameter goes into the
  // next bucket where it does not fit, and what is left over must then be padding, below `gap`.
  for (size_t i = parameters.size(); i-- > 0;) {
    if (bucket >= buckets.size()) return std::nullopt;
    const int64_t elements = parameters[i].elements;
    int64_t first = round_up(end, alignment);
    if (end > 0 && elements > buckets[bucket] - first) {
      if (buckets[bucket] - end >= gap || ++bucket == buckets.size()) return std::nullopt;
      first = 0;
    }
    if (elements > buckets[bucket] - first) return std::nullopt;
    places[i] = {bucket, first};
    end = first + elements;
  }
  if (bucket + 1 != buckets.size() || buckets[bucket] - end >= last_gap) return std::nullopt;
  return places;
}

}  // namespace meg::checkpoint
