#include "libmeg/generation/internal/request_checks.h"

#include <cmath>
#include <set>
#include <string_view>

#include "libmeg/generation/internal/sampling.h"

namespace meg::generation {

namespace {

Status check_prompt(std::span<const int32_t> prompt, int64_t vocab_size) {
  if (prompt.empty()) {
    return Status(StatusCode::kInvalidArgument, "prompt: expected at least one token, found none");
  }
  for (size_t i = 0; i < prompt.size(); ++i) {
    // The embedding would read outside of its rows. Rows that only pad the vocabulary are refused,
    // too: no text has them.
    if (prompt[i] >= 0 && prompt[i] < vocab_size) continue;
    return make_error(StatusCode::kOutOfRange, "prompt: expected ids from 0 to {}, found {} at {}",
                      vocab_size - 1, prompt[i], i);
  }
  return Status();
}

Status check_length(int64_t prompt, int64_t tokens_to_generate, int64_t positions) {
  if (tokens_to_generate < 0) {
    return make_error(StatusCode::kOutOfRange, "tokens_to_generate: expected 0 or more, found {}",
                      tokens_to_generate);
  }
  // Do not compare the sum, which may overflow.
  if (prompt <= positions && tokens_to_generate <= positions - prompt) return Status();
  return make_error(StatusCode::kOutOfRange,
                    "tokens: expected at most {} in prompt and answer, the model's positions, "
                    "found {} and {}",
                    positions, prompt, tokens_to_generate);
}

Status check_amount(std::string_view name, double value, double most) {
  // Written so that NaN is refused.
  if (std::abs(value) <= most) return Status();
  return make_error(StatusCode::kOutOfRange, "{}: expected {} to {}, found {}", name, -most, most,
                    value);
}

/// What a request says of log probabilities and logits.
Status check_scores(const serving::GenerationRequest& request, int64_t vocab_size) {
  if (request.top_logprobs < 0 || request.top_logprobs > serving::kMaxTopLogprobs) {
    return make_error(StatusCode::kOutOfRange, "top_logprobs: expected 0 to {}, found {}",
                      serving::kMaxTopLogprobs, request.top_logprobs);
  }
  if (request.top_logprobs > 0 && !request.logprobs) {
    return Status(StatusCode::kInvalidArgument, "top_logprobs: expected together with logprobs");
  }
  std::set<int32_t> tokens;
  for (const auto& [token, bias] : request.logit_bias) {
    if (token < 0 || token >= vocab_size) {
      return make_error(StatusCode::kOutOfRange, "logit_bias: expected ids from 0 to {}, found {}",
                        vocab_size - 1, token);
    }
    if (!tokens.insert(token).second) {
      return make_error(StatusCode::kInvalidArgument,
                        "logit_bias: expected each token once, found {} twice", token);
    }
    MEG_RETURN_IF_ERROR(check_amount("logit_bias", bias, serving::kMaxLogitBias));
  }
  MEG_RETURN_IF_ERROR(
      check_amount("presence_penalty", request.presence_penalty, serving::kMaxPenalty));
  MEG_RETURN_IF_ERROR(
      check_amount("frequency_penalty", request.frequency_penalty, serving::kMaxPenalty));
  const bool weighs = !request.logit_bias.empty() || request.presence_penalty != 0 ||
                      request.frequency_penalty != 0;
  if (request.beam && weighs) {
    return Status(StatusCode::kInvalidArgument,
                  "logit_bias and penalties: not available with beam search");
  }
  return Status();
}

Status check_beam(const serving::GenerationRequest& request, const RequestLimits& limits) {
  const serving::BeamSearchOptions& beam = *request.beam;
  // Twice as many candidates as beams are taken from one row of logits in the first step.
  if (beam.beam_width < 1 || beam.beam_width > limits.vocab_size / 2) {
    return make_error(StatusCode::kOutOfRange, "beam_width: expected 1 to {}, found {}",
                      limits.vocab_size / 2, beam.beam_width);
  }
  if (beam.num_return_gen < 1 || beam.num_return_gen > beam.beam_width) {
    return make_error(StatusCode::kOutOfRange,
                      "num_return_gen: expected 1 to beam_width {}, found {}", beam.beam_width,
                      beam.num_return_gen);
  }
  if (request.tokens_to_generate < 1) {
    return make_error(StatusCode::kOutOfRange,
                      "tokens_to_generate: expected 1 or more in a beam search, found {}",
                      request.tokens_to_generate);
  }
  MEG_RETURN_IF_ERROR(
      check_amount("length_penalty", beam.length_penalty, serving::kMaxLengthPenalty));
  if (request.logprobs) {
    return Status(StatusCode::kInvalidArgument,
                  "logprobs: not available with beam search, which gives scores");
  }
  if (max_tokens(request) <= limits.max_beam_tokens) return Status();
  return make_error(StatusCode::kOutOfRange,
                    "beam_width: expected at most {} tokens in all texts of a beam search, found "
                    "{} texts of {} and {}",
                    limits.max_beam_tokens, beam.beam_width, request.prompt.size(),
                    request.tokens_to_generate);
}

}  // namespace

int64_t max_tokens(const serving::GenerationRequest& request) {
  const int64_t length = std::ssize(request.prompt) + request.tokens_to_generate;
  return request.beam ? length * request.beam->beam_width : length;
}

Status check_request(const serving::GenerationRequest& request, const RequestLimits& limits) {
  MEG_RETURN_IF_ERROR(check_prompt(request.prompt, limits.vocab_size));
  MEG_RETURN_IF_ERROR(
      check_length(std::ssize(request.prompt), request.tokens_to_generate, limits.positions));
  if (request.no_repeat_ngram_size < 0) {
    return make_error(StatusCode::kOutOfRange, "no_repeat_ngram_size: expected 0 or more, found {}",
                      request.no_repeat_ngram_size);
  }
  MEG_RETURN_IF_ERROR(check_scores(request, limits.vocab_size));
  if (request.beam) return check_beam(request, limits);
  if (max_tokens(request) > limits.max_tokens) {
    return make_error(StatusCode::kOutOfRange,
                      "tokens: expected at most {} in prompt and answer, the limit for all texts, "
                      "found {} and {}",
                      limits.max_tokens, request.prompt.size(), request.tokens_to_generate);
  }
  return check_sampling(request.sampling, limits.vocab_size);
}

}  // namespace meg::generation
