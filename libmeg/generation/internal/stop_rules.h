#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "libmeg/base/status.h"
#include "libmeg/serving/generation_engine.h"
#include "libmeg/tokenizer/interface/tokenizer.h"

namespace meg::generation {

/// Whether the last of `tokens` ends a text. Any rule that is on ends it. Newlines are looked for
/// in the tokens' text, so that the rules hold for every tokenizer; with GPT-2's they name the ids
/// that Megatron-LM megatron/text_generation/generation.py names.
bool ends_text(const serving::StopRules& rules, const tokenizer::Tokenizer& tokenizer,
               std::span<const int32_t> tokens);

/// The token that must not follow the last of another's, see
/// GenerationRequest::prevent_newline_after_colon.
struct NewlineAfterColon {
  explicit NewlineAfterColon(const tokenizer::Tokenizer& tokenizer);

  /// kInvalidArgument if the tokenizer has no token for ":" or a newline, like NullTokenizer.
  Status check() const;

  /// The token that must not follow `last`.
  std::optional<int32_t> forbidden_after(int32_t last) const;

  std::optional<int32_t> colon, newline;  ///< The first tokens of ":" and "\n".
};

}  // namespace meg::generation
