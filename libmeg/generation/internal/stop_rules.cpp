#include "libmeg/generation/internal/stop_rules.h"

#include <string>

namespace meg::generation {
namespace {

std::string text_of(const tokenizer::Tokenizer& tokenizer, int32_t token) {
  Result<std::string> text = tokenizer.decode({&token, 1});
  return text.has_value() ? std::move(*text) : std::string();
}

std::optional<int32_t> first_token(const tokenizer::Tokenizer& tokenizer, std::string_view text) {
  const Result<std::vector<int32_t>> tokens = tokenizer.encode(text);
  if (!tokens.has_value() || tokens->empty()) return std::nullopt;
  return tokens->front();
}

}  // namespace

bool ends_text(const serving::StopRules& rules, const tokenizer::Tokenizer& tokenizer,
               std::span<const int32_t> tokens) {
  const int32_t last = tokens.back();
  if (rules.on_eod && tokenizer.eod() == last) return true;
  if (!rules.on_eol && !rules.on_double_eol) return false;
  const std::string text = text_of(tokenizer, last);
  if (rules.on_eol && text.ends_with('\n')) return true;
  if (!rules.on_double_eol) return false;
  if (text == "\n\n") return true;
  return text == "\n" && tokens.size() > 1 && text_of(tokenizer, tokens[tokens.size() - 2]) == text;
}

NewlineAfterColon::NewlineAfterColon(const tokenizer::Tokenizer& tokenizer)
    : colon(first_token(tokenizer, ":")), newline(first_token(tokenizer, "\n")) {}

Status NewlineAfterColon::check() const {
  if (colon && newline) return {};
  return make_error(
      StatusCode::kInvalidArgument,
      "prevent_newline_after_colon: expected a tokenizer with tokens of \":\" and of a "
      "newline, found none of {}",
      colon ? "a newline" : "\":\"");
}

std::optional<int32_t> NewlineAfterColon::forbidden_after(int32_t last) const {
  return colon == last ? newline : std::nullopt;
}

}  // namespace meg::generation
