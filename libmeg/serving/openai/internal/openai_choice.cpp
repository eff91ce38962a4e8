#include "libmeg/serving/openai/internal/openai_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "libmeg/text/utf8.h"

// Log probabilities are written into strings of JSON directly: as a tree of values they would take
// ten times the memory.

namespace meg::serving {
namespace {

/// JSON has no infinity.
constexpr float kLeastLogprob = -9999;

std::string number(float logprob) { return fmt::format("{}", std::max(logprob, kLeastLogprob)); }

std::string_view token_bytes(const tokenizer::Tokenizer& tokenizer, int32_t token) {
  return tokenizer.token_bytes(token).value_or(std::string_view());
}

/// The token's text; its bytes by their numbers, as OpenAI writes them, where they are not whole
/// characters: so different tokens have different names.
std::string token_name(const tokenizer::Tokenizer& tokenizer, int32_t token) {
  const std::string_view bytes = token_bytes(tokenizer, token);
  if (text::find_invalid_utf8(bytes) == std::string_view::npos) return std::string(bytes);
  std::string name = "bytes:";
  for (const char byte : bytes) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return name;
}

std::string chat_token(const tokenizer::Tokenizer& tokenizer, int32_t token, float logprob) {
  std::string bytes;
  for (const char byte : token_bytes(tokenizer, token)) {
    bytes += fmt::format("{}{}", bytes.empty() ? "" : ",", static_cast<unsigned char>(byte));
  }
  return fmt::format(R"("token":{},"logprob":{},"bytes":[{}])",
                     json_string(token_name(tokenizer, token)), number(logprob), bytes);
}

void add_item(std::string_view item, std::string* list) {
  if (!list->empty()) *list += ',';
  *list += item;
}

}  // namespace

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

Status OpenAiChoice::begin(const std::vector<int32_t>& prompt) {
  if (form_.echo) {
    shown_tokens_ = prompt;
  } else {
    hidden_ = prompt.size();
  }
  return text_.begin(prompt, form_.echo);
}

Status OpenAiChoice::add(TextProgress progress) {
  if (has_ended_) return {};
  logprobs_.insert(logprobs_.end(), progress.logprobs.begin(), progress.logprobs.end());
  std::ranges::move(progress.top_logprobs, std::back_inserter(top_logprobs_));
  for (const int32_t token : progress.tokens) {
    if (text_.is_stopped()) break;
    MEG_RETURN_IF_ERROR(text_.add(token));
    shown_tokens_.push_back(token);
  }
  if (!progress.has_ended && !text_.is_stopped()) return {};
  has_ended_ = true;
  return text_.finish();
}

Status OpenAiChoice::add(GeneratedText text) {
  TextProgress all;
  all.tokens.assign(text.tokens.begin() + static_cast<std::ptrdiff_t>(text.prompt_size),
                    text.tokens.end());
  all.logprobs = std::move(text.logprobs);
  all.top_logprobs = std::move(text.top_logprobs);
  all.has_ended = true;
  return add(std::move(all));
}

std::string_view OpenAiChoice::finish_reason() const {
  return text_.is_stopped() || text_.is_ended_by_eod() ? "\"stop\"" : "\"length\"";
}

OpenAiChoice::Piece OpenAiChoice::take() {
  Piece piece{.text = text_.take(), .logprobs = "null", .is_last = has_ended_};
  size_t end = text_.begun_tokens();
  // With echo the prompt's text is there before its scores are.
  if (form_.logprobs && !has_ended_) {
    const size_t scored = logprobs_.size() + 1;
    end = std::max(taken_tokens_, std::min(end, scored - std::min(scored, hidden_)));
  }
  if (form_.logprobs && end > taken_tokens_) {
    piece.logprobs =
        form_.is_chat ? chat_logprobs(taken_tokens_, end) : completion_logprobs(taken_tokens_, end);
  }
  taken_tokens_ = end;
  return piece;
}

/// Nothing precedes the first token of a text.
std::optional<float> OpenAiChoice::logprob(size_t shown) const {
  const size_t place = shown + hidden_;
  if (place == 0 || place > logprobs_.size()) return std::nullopt;
  return logprobs_[place - 1];
}

const std::vector<TokenLogprob>* OpenAiChoice::alternatives(size_t shown) const {
  const size_t place = shown + hidden_;
  return place == 0 || place > top_logprobs_.size() ? nullptr : &top_logprobs_[place - 1];
}

std::string OpenAiChoice::completion_logprobs(size_t begin, size_t end) const {
  std::string tokens, logprobs, tops, offsets;
  std::vector<std::string> names;
  for (size_t i = begin; i < end; ++i) {
    const int32_t token = shown_tokens_[i];
    const std::string name = json_string(token_name(tokenizer_, token));
    const std::optional<float> own = logprob(i);
    add_item(name, &tokens);
    add_item(own ? number(*own) : "null", &logprobs);
    add_item(fmt::format("{}", text_.offsets()[i]), &offsets);
    if (!own) {
      add_item("null", &tops);
      continue;
    }
    // Best first: of tokens with one name the better one counts.
    std::string top;
    names.clear();
    const auto add = [&](std::string key, float value) {
      if (std::ranges::find(names, key) != names.end()) return;
      add_item(fmt::format("{}:{}", key, number(value)), &top);
      names.push_back(std::move(key));
    };
    if (const auto* others = alternatives(i)) {
      for (const TokenLogprob& other : *others) {
        add(json_string(token_name(tokenizer_, other.token)), other.logprob);
      }
    }
    add(name, *own);  // always among them, as OpenAI has it
    add_item(fmt::format("{{{}}}", top), &tops);
  }
  return fmt::format(
      R"({{"tokens":[{}],"token_logprobs":[{}],"top_logprobs":[{}],"text_offset":[{}]}})", tokens,
      logprobs, tops, offsets);
}

std::string OpenAiChoice::chat_logprobs(size_t begin, size_t end) const {
  std::string content;
  for (size_t i = begin; i < end; ++i) {
    std::string tops;
    if (const auto* others = alternatives(i)) {
      for (const TokenLogprob& other : *others) {
        add_item(fmt::format("{{{}}}", chat_token(tokenizer_, other.token, other.logprob)), &tops);
      }
    }
    add_item(fmt::format(R"({{{},"top_logprobs":[{}]}})",
                         chat_token(tokenizer_, shown_tokens_[i], logprob(i).value_or(0)), tops),
             &content);
  }
  return fmt::format(R"({{"content":[{}],"refusal":null}})", content);
}

}  // namespace meg::serving
