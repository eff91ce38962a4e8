#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/tokenizer/interface/decode_stream.h"

namespace meg::serving {

/// The text of an answer while its tokens come, in whole characters, cut before the first stop
/// string, which may begin in one token and end in another.
class AnswerText {
 public:
  /// stops must outlive it. eod: the token that ends the answer and has no text; empty: none.
  AnswerText(const tokenizer::Tokenizer& tokenizer, const std::vector<std::string>& stops,
             std::optional<int32_t> eod)
      : stream_(tokenizer), stops_(stops), eod_(eod) {}

  /// The prompt, whose text is not part of the answer, or with echo its beginning: then its tokens
  /// have offsets too. No stop string is looked for in it.
  Status begin(std::span<const int32_t> prompt, bool echo);

  /// Without effect once is_stopped().
  Status add(int32_t token);

  /// No more tokens will come.
  Status finish();

  /// What is certain and was not taken before: it is in no stop string.
  std::string take();

  /// Whether a stop string has ended the answer.
  bool is_stopped() const { return is_stopped_; }

  bool is_ended_by_eod() const { return is_ended_by_eod_; }

  /// How many tokens add() has counted, with that of the end and all of a stop string.
  int64_t tokens() const { return tokens_; }

  /// Where each token begins, in characters (code points) of the answer.
  const std::vector<int64_t>& offsets() const { return offsets_; }

  /// How many of them have begun in what was taken; all before the cut once nothing more comes.
  size_t begun_tokens() const;

 private:
  void append(const std::string& piece);
  size_t held_back() const;

  tokenizer::DecodeStream stream_;
  const std::vector<std::string>& stops_;
  const std::optional<int32_t> eod_;
  std::string text_;
  size_t answer_begin_ = 0;  ///< Where stop strings may begin.
  int64_t characters_ = 0;   ///< Of text_
  int64_t taken_characters_ = 0;
  size_t taken_ = 0;
  std::vector<int64_t> offsets_;
  int64_t tokens_ = 0;
  bool is_stopped_ = false;
  bool is_ended_by_eod_ = false;
  bool is_finished_ = false;
};

}  // namespace meg::serving
