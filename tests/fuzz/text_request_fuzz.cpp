// Any body of a request: it is refused with one line that names no more than a bit of it, or every
// value of it keeps its bounds.

#include <cmath>
#include <cstdint>
#include <string_view>

#include "libmeg/serving/text_request.h"
#include "libmeg/text/utf8.h"
#include "tests/fuzz/fuzz_check.h"

namespace {

void check(const meg::serving::TextRequest& request, int64_t max_tokens) {
  MEG_FUZZ_CHECK(!request.prompts.empty() && request.prompts.size() <= 128);
  for (const std::string& prompt : request.prompts) {
    MEG_FUZZ_CHECK(request.add_BOS || !prompt.empty());
    MEG_FUZZ_CHECK(meg::text::find_invalid_utf8(prompt) == std::string::npos);
  }
  MEG_FUZZ_CHECK(request.tokens_to_generate >= 0 && request.tokens_to_generate <= max_tokens);
  MEG_FUZZ_CHECK(request.tokens_to_generate > 0 || request.logprobs);
  const meg::serving::SamplingOptions& sampling = request.sampling;
  MEG_FUZZ_CHECK(sampling.temperature > 0 && sampling.temperature <= 100);
  MEG_FUZZ_CHECK(sampling.top_k >= 0 && sampling.top_k <= 1000);
  MEG_FUZZ_CHECK(sampling.top_p >= 0 && sampling.top_p <= 1);
  MEG_FUZZ_CHECK(sampling.top_k == 0 || sampling.top_p == 0);
  MEG_FUZZ_CHECK(sampling.top_p_decay >= 0 && sampling.top_p_decay <= 1);
  MEG_FUZZ_CHECK(sampling.top_p_bound >= 0 && sampling.top_p_bound <= sampling.top_p);
  if (!request.beam.has_value()) return;
  MEG_FUZZ_CHECK(request.prompts.size() == 1 && request.tokens_to_generate > 0);
  MEG_FUZZ_CHECK(request.beam->beam_width >= 1 && request.beam->stop_token.value_or(0) >= 0);
  MEG_FUZZ_CHECK(std::abs(request.beam->length_penalty) <= meg::serving::kMaxLengthPenalty);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  meg::serving::RequestRules rules;
  rules.max_tokens_to_generate = 100;
  const auto request = meg::serving::read_text_request(body, rules);
  if (request.has_value()) {
    check(*request, rules.max_tokens_to_generate);
  } else {
    const std::string& message = request.error().message();
    MEG_FUZZ_CHECK(!message.empty() && message.size() < 500);
    MEG_FUZZ_CHECK(message.find('\n') == std::string::npos);
  }
  return 0;
}
