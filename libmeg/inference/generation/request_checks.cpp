#include "libmeg/inference/generation/request_checks.h"

#include "libmeg/inference/generation/sampling.h"

namespace meg::inference {

Status check_length(std::span<const int32_t> prompt, int64_t tokens_to_generate,
                    const RequestLimits& limits) {
  if (prompt.empty()) {
    return Status(StatusCode::kInvalidArgument, "prompt: expected at least one token, found none");
  }
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] >= 0 && prompt[i] < limits.vocab_size) continue;
    return make_error(StatusCode::kOutOfRange, "prompt: expected ids from 0 to {}, found {} at {}",
                      limits.vocab_size - 1, prompt[i], i);
  }
  if (tokens_to_generate < 0) {
    return make_error(StatusCode::kOutOfRange, "tokens_to_generate: expected 0 or more, found {}",
                      tokens_to_generate);
  }
  const auto size = static_cast<int64_t>(prompt.size());
  if (size > limits.positions || tokens_to_generate > limits.positions - size) {
    return make_error(StatusCode::kOutOfRange,
                      "tokens: expected at most {} in prompt and answer, the model's positions, "
                      "found {} and {}",
                      limits.positions, size, tokens_to_generate);
  }
  if (size + tokens_to_generate > limits.max_tokens) {
    return make_error(StatusCode::kOutOfRange,
                      "tokens: expected at most {} in prompt and answer, which is what may be held "
                      "at once, found {} and {}",
                      limits.max_tokens, size, tokens_to_generate);
  }
  return Status();
}

Status check_request(const GenerationRequest& request, const RequestLimits& limits) {
  MEG_RETURN_IF_ERROR(check_length(request.prompt, request.tokens_to_generate, limits));
  if (request.no_repeat_ngram_size < 0) {
    return make_error(StatusCode::kOutOfRange, "no_repeat_ngram_size: expected 0 or more, found {}",
                      request.no_repeat_ngram_size);
  }
  return check_sampling(request.sampling, limits.vocab_size);
}

}  // namespace meg::inference
