#include "libmeg/samples/gpt_index_plan.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace meg::samples {
namespace {

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

/// From this many samples on Megatron's shuffle index has int64 instead of uint32.
constexpr int64_t kFirstInt64Samples = int64_t{std::numeric_limits<uint32_t>::max()} - 1;

/// Share of the last epoch's samples below which Megatron shuffles that epoch separately.
constexpr double kLastEpochShare = 0.80;

Status check_request(const GptIndexRequest& request) {
  assert(request.tokens > 0 && request.sequences >= 0);
  // One more, the extra token, must fit too: Megatron counts a sample's tokens in int32.
  if (request.sequence_length < 1 || request.sequence_length >= kMaxInt32) {
    return make_error(StatusCode::kInvalidArgument, "sequence length: expected 1 to {}, found {}",
                      kMaxInt32 - 1, request.sequence_length);
  }
  if (request.samples.value_or(0) < 0) {
    return make_error(StatusCode::kInvalidArgument, "samples: expected 0 or more, found {}",
                      *request.samples);
  }
  if (request.sequences > kMaxInt32) {
    return make_error(StatusCode::kInvalidArgument, "sequences: expected at most {}, found {}",
                      kMaxInt32, request.sequences);
  }
  return Status();
}

/// The fewest epochs that hold the samples asked for.
Result<int64_t> epochs_for(const GptIndexRequest& request) {
  if (!request.samples.has_value()) return 1;
  int64_t tokens = 0;
  if (!__builtin_mul_overflow(*request.samples, request.sequence_length, &tokens) &&
      !__builtin_add_overflow(tokens, int64_t{request.extra_token}, &tokens)) {
    // Megatron adds epochs until they are enough, one at least; the division gives the same number
    // at once.
    const int64_t epochs = tokens == 0 ? 1 : (tokens - 1) / request.tokens + 1;
    // Epochs are numbered in int32 by Megatron's helper, tokens in int64.
    int64_t all_tokens = 0;
    if (epochs <= kMaxInt32 && !__builtin_mul_overflow(epochs, request.tokens, &all_tokens)) {
      return epochs;
    }
  }
  return make_error(StatusCode::kInvalidArgument,
                    "samples: expected what {} epochs of {} tokens hold, found {} of {} tokens",
                    kMaxInt32, request.tokens, *request.samples, request.sequence_length);
}

/// Megatron's helper computes a partial sample's share in float32.
int64_t samples_with_partial(int64_t tokens, int64_t sequence_length) {
  return static_cast<int64_t>(
      std::ceil(static_cast<float>(tokens) / static_cast<float>(sequence_length)));
}

std::optional<int64_t> samples_before_last_epoch(const GptIndexRequest& request, int64_t epochs) {
  if (epochs == 1) return std::nullopt;
  const int64_t extra = request.extra_token ? 1 : 0;
  const int64_t before = ((epochs - 1) * request.tokens - extra) / request.sequence_length;
  const int64_t each = (request.tokens - extra) / request.sequence_length;
  // Cut to an integer, as Python's int().
  const auto enough = static_cast<int64_t>(kLastEpochShare * static_cast<double>(each));
  // A last epoch that is hardly used is shuffled apart, or the samples that are dropped with it
  // would be missing from the whole epochs before.
  if (*request.samples - before >= enough) return std::nullopt;
  return before;
}

Result<DType> sample_type_for(megatron::SampleIndexType type, int64_t documents) {
  const bool fits = documents <= kMaxInt32;
  switch (type) {
    case megatron::SampleIndexType::kInt64:
      return DType::kInt64;
    case megatron::SampleIndexType::kAsNeeded:
      return fits ? DType::kInt32 : DType::kInt64;
    case megatron::SampleIndexType::kInt32:
      break;
  }
  if (fits) return DType::kInt32;
  return make_error(StatusCode::kInvalidArgument,
                    "document index: expected at most {} entries at this `megatron_version`, "
                    "found {}",
                    kMaxInt32, documents);
}

}  // namespace

Result<GptIndexPlan> plan_gpt_index(const GptIndexRequest& request,
                                    const megatron::MegatronVersion& version) {
  MEG_RETURN_IF_ERROR(check_request(request));
  GptIndexPlan plan;
  plan.sequences = request.sequences;
  plan.sequence_length = request.sequence_length;
  plan.extra_token = request.extra_token ? 1 : 0;
  MEG_ASSIGN_OR_RETURN(plan.epochs, epochs_for(request));
  // The extra token of each sample is the next one's first, so only one is beyond the samples.
  const int64_t tokens = plan.epochs * request.tokens - plan.extra_token;
  plan.samples = request.drop_last_partial ? tokens / plan.sequence_length
                                           : samples_with_partial(tokens, plan.sequence_length);
  plan.samples_before_last_epoch = samples_before_last_epoch(request, plan.epochs);
  if (plan.samples_before_last_epoch > plan.samples) {  // only where float32 is far too coarse
    return make_error(StatusCode::kInvalidArgument,
                      "samples: expected what fewer than {} epochs of {} tokens hold, found {}",
                      plan.epochs, request.tokens, *request.samples);
  }
  MEG_ASSIGN_OR_RETURN(plan.sample_type,
                       sample_type_for(version.sample_index_type, plan.documents()));
  plan.shuffle_type = plan.samples < kFirstInt64Samples ? DType::kUint32 : DType::kInt64;
  return plan;
}

}  // namespace meg::samples
