#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/serving/generation_ticket.h"
#include "libmeg/serving/internal/answer_text.h"

namespace meg::serving {

/// `text` as a JSON string in ASCII, quotes included, with U+FFFD for what is not UTF-8.
std::string json_string(std::string_view text);

/// One choice of an answer while its tokens come.
class OpenAiChoice {
 public:
  /// What a choice and its JSON depend on.
  struct Form {
    bool is_chat = false;
    bool echo = false;
    std::vector<std::string> stop;
    std::optional<int64_t> logprobs;  ///< As OpenAiOptions::logprobs.
    std::optional<int32_t> eod;       ///< The token that ends an answer; empty: none.
  };

  /// A piece of the answer.
  struct Piece {
    std::string text;
    std::string logprobs;  ///< JSON; `null` if they are not wanted or no token has begun.
    bool is_last = false;

    bool empty() const { return text.empty() && logprobs == "null" && !is_last; }
  };

  /// tokenizer and form must outlive it.
  OpenAiChoice(const tokenizer::Tokenizer& tokenizer, const Form& form)
      : tokenizer_(tokenizer), form_(form), text_(tokenizer, form.stop, form.eod) {}

  Status begin(const std::vector<int32_t>& prompt);

  /// More of the text. Without effect once it has ended.
  Status add(TextProgress progress);

  /// All of it, where nothing was added.
  Status add(GeneratedText text);

  /// The answer is complete: no more tokens come, or a stop string has ended it.
  bool has_ended() const { return has_ended_; }

  bool is_stopped() const { return text_.is_stopped(); }

  /// `"stop"` or `"length"`, once it has_ended().
  std::string_view finish_reason() const;

  /// Generated ones.
  int64_t tokens() const { return text_.tokens(); }

  /// What has become certain since the last call.
  Piece take();

 private:
  std::string completion_logprobs(size_t begin, size_t end) const;
  std::string chat_logprobs(size_t begin, size_t end) const;
  std::optional<float> logprob(size_t shown) const;
  const std::vector<TokenLogprob>* alternatives(size_t shown) const;

  const tokenizer::Tokenizer& tokenizer_;
  const Form& form_;
  AnswerText text_;
  std::vector<int32_t> shown_tokens_;  ///< Those that have offsets: with echo the prompt's too.
  /// Of the tokens of prompt and answer from the second one.
  std::vector<float> logprobs_;
  std::vector<std::vector<TokenLogprob>> top_logprobs_;
  size_t hidden_ = 0;  ///< Tokens of the prompt that are not shown.
  size_t taken_tokens_ = 0;
  bool has_ended_ = false;
};

}  // namespace meg::serving
