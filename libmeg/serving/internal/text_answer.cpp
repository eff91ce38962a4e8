#include "libmeg/serving/internal/text_answer.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

namespace meg::serving {
namespace {

using nlohmann::json;

/// Writes ASCII with U+FFFD for what is not UTF-8: a token may be part of a character, and an
/// error's message may hold any bytes.
std::string written(const json& answer) {
  return answer.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
}

Status add_text(const tokenizer::Tokenizer& tokenizer, const std::vector<int32_t>& tokens,
                json* answer) {
  MEG_ASSIGN_OR_RETURN(std::string text, tokenizer.decode(tokens));
  json segments = json::array();
  for (const int32_t& token : tokens) {
    MEG_ASSIGN_OR_RETURN(std::string segment, tokenizer.decode(std::span(&token, 1)));
    segments.push_back(std::move(segment));
  }
  (*answer)["text"].push_back(std::move(text));
  (*answer)["segments"].push_back(std::move(segments));
  return {};
}

}  // namespace

Result<std::string> text_answer(const tokenizer::Tokenizer& tokenizer,
                                const std::vector<GeneratedText>& texts, bool logprobs) {
  json answer;
  answer["logprobs"] = nullptr;
  for (const GeneratedText& text : texts) {
    MEG_RETURN_IF_ERROR(add_text(tokenizer, text.tokens, &answer));
    if (logprobs) answer["logprobs"].push_back(text.logprobs);
  }
  return written(answer);
}

Result<std::string> beam_answer(const tokenizer::Tokenizer& tokenizer,
                                const std::vector<Beam>& beams) {
  json answer;
  for (const Beam& beam : beams) {
    MEG_RETURN_IF_ERROR(add_text(tokenizer, beam.tokens, &answer));
    answer["scores"].push_back(beam.score);
  }
  return written(answer);
}

std::string error_answer(std::string_view message) { return written({{"message", message}}); }

}  // namespace meg::serving
