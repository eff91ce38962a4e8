#include "libmeg/evaluation/continuation.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "libmeg/text/python_text.h"
#include "libmeg/tokenizer/interface/encode_text.h"

namespace meg::evaluation {
namespace {

/// str.rstrip()
std::string_view without_last_space(std::string_view text) {
  std::string marked = "x";
  marked.append(text);
  return text.substr(0, text::python_strip(marked).size() - 1);
}

Result<Continuation> joined(std::vector<int32_t> context, const std::vector<int32_t>& continuation,
                            std::optional<int32_t> eod) {
  // A continuation that itself begins with the end of document has it as its context.
  const bool begins = !continuation.empty() && eod == continuation.front();
  if (context.empty() && !begins) {
    if (!eod) {
      return Status(
          StatusCode::kInvalidArgument,
          "context: expected a text, found none, and the tokenizer has no end of document "
          "to stand for it");
    }
    context.push_back(*eod);
  }
  const int64_t moved = context.empty() ? 1 : 0;
  Continuation text = {
      .tokens = std::move(context), .targets = std::ssize(continuation) - moved, .cut = 0};
  text.tokens.insert(text.tokens.end(), continuation.begin(), continuation.end());
  if (text.targets >= 1) return text;
  return Status(StatusCode::kInvalidArgument,
                "continuation: expected at least one token after the context's, found none");
}

}  // namespace

Result<Continuation> tokenize_continuation(std::string_view context, std::string_view continuation,
                                           const tokenizer::Tokenizer& tokenizer,
                                           tokenizer::TokenEncoder& encoder) {
  std::string whole(context);
  whole.append(continuation);
  MEG_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, tokenizer::encode_text(encoder, whole));
  MEG_ASSIGN_OR_RETURN(std::vector<int32_t> before,
                       tokenizer::encode_text(encoder, without_last_space(context)));
  const auto count = static_cast<ptrdiff_t>(std::min(before.size(), tokens.size()));
  const std::vector<int32_t> after(tokens.begin() + count, tokens.end());
  return joined(std::move(before), after, tokenizer.eod());
}

Result<Continuation> continuation_of_ids(std::vector<int32_t> context,
                                         std::vector<int32_t> continuation,
                                         const tokenizer::Tokenizer& tokenizer) {
  const int64_t most = tokenizer.vocab_size() - 1;
  for (const std::vector<int32_t>* ids : {&context, &continuation}) {
    for (const int32_t id : *ids) {
      if (id >= 0 && id <= most) continue;
      return make_error(StatusCode::kOutOfRange, "expected ids 0 to {}, found {}", most, id);
    }
  }
  return joined(std::move(context), continuation, tokenizer.eod());
}

Status cut_context(Continuation& text, int64_t max_length) {
  if (text.targets > max_length) {
    return make_error(StatusCode::kInvalidArgument,
                      "continuation: expected at most {} tokens, the sequence length, found {}",
                      max_length, text.targets);
  }
  text.cut = std::max<int64_t>(std::ssize(text.tokens) - max_length - 1, 0);
  text.tokens.erase(text.tokens.begin(), text.tokens.begin() + text.cut);
  return Status();
}

}  // namespace meg::evaluation
