#include "libmeg/generation/internal/forbidden_tokens.h"

#include "libmeg/generation/internal/repeated_ngrams.h"

namespace meg::generation {

bool forbids_tokens(const serving::GenerationRequest& request) {
  return request.no_repeat_ngram_size > 0 || request.prevent_newline_after_colon;
}

std::vector<int32_t> forbidden_tokens(const serving::GenerationRequest& request,
                                      std::span<const int32_t> tokens,
                                      const NewlineAfterColon& newline) {
  std::vector<int32_t> forbidden;
  if (request.no_repeat_ngram_size > 0) {
    forbidden = repeated_ngram_ends(tokens, request.no_repeat_ngram_size);
  }
  if (request.prevent_newline_after_colon) {
    const auto token = newline.forbidden_after(tokens.back());
    if (token) forbidden.push_back(*token);
  }
  return forbidden;
}

}  // namespace meg::generation
