#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::evaluation {

/// A text whose probability after its context is wanted.
struct Continuation {
  std::vector<int32_t> tokens;  ///< Context, then continuation; both not empty.
  int64_t targets = 0;          ///< Tokens of the continuation.
  int64_t cut = 0;              ///< Tokens of the context before these.

  int64_t context() const { return static_cast<int64_t>(tokens.size()) - targets; }
};

/// As lm-eval's loglikelihood has it: both are tokenized as one text, whose tokens after as many as
/// the context alone has are the continuation; the context's last whitespace belongs to the
/// continuation; an end of document stands for an empty context.
/// Errors: kInvalidArgument for a continuation without a token of its own, and for an empty context
/// where the tokenizer has no end of document; encoder.encode's.
Result<Continuation> tokenize_continuation(std::string_view context, std::string_view continuation,
                                           const tokenizer::Tokenizer& tokenizer,
                                           tokenizer::TokenEncoder& encoder);

/// The same of ids. kOutOfRange for ids that the tokenizer has not.
Result<Continuation> continuation_of_ids(std::vector<int32_t> context,
                                         std::vector<int32_t> continuation,
                                         const tokenizer::Tokenizer& tokenizer);

/// Keeps the last max_length + 1 tokens, of which the model reads all but the last, as lm-eval
/// does. kInvalidArgument where the continuation alone is longer than max_length, as it would lose
/// some of its own.
Status cut_context(Continuation& text, int64_t max_length);

}  // namespace meg::evaluation
