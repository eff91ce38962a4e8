#include "libmeg/serving/internal/answer_text.h"

#include <algorithm>
#include <string_view>

#include "libmeg/text/utf8.h"

namespace meg::serving {
namespace {

int64_t count_characters(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return !text::is_continuation_byte(c); });
}

}  // namespace

Status AnswerText::begin(std::span<const int32_t> prompt, bool echo) {
  if (!echo) return stream_.add(prompt).status();
  for (const int32_t token : prompt) {
    offsets_.push_back(characters_);
    MEG_ASSIGN_OR_RETURN(const std::string piece, stream_.add(token));
    text_ += piece;
    characters_ += count_characters(piece);
  }
  answer_begin_ = text_.size();
  return {};
}

Status AnswerText::add(int32_t token) {
  if (is_stopped_) return {};
  offsets_.push_back(characters_);
  ++tokens_;
  is_ended_by_eod_ = token == eod_;
  if (is_ended_by_eod_) return {};
  MEG_ASSIGN_OR_RETURN(const std::string piece, stream_.add(token));
  append(piece);
  return {};
}

Status AnswerText::finish() {
  is_finished_ = true;
  if (is_stopped_) return {};
  MEG_ASSIGN_OR_RETURN(const std::string piece, stream_.finish());
  append(piece);
  return {};
}

std::string AnswerText::take() {
  const size_t end = text_.size() - (is_finished_ || is_stopped_ ? 0 : held_back());
  std::string piece = text_.substr(taken_, end - taken_);
  taken_ = end;
  taken_characters_ += count_characters(piece);
  return piece;
}

size_t AnswerText::begun_tokens() const {
  if (is_finished_ && !is_stopped_) return offsets_.size();
  return static_cast<size_t>(std::ranges::lower_bound(offsets_, taken_characters_) -
                             offsets_.begin());
}

void AnswerText::append(const std::string& piece) {
  const size_t before = text_.size();
  text_ += piece;
  characters_ += count_characters(piece);
  size_t cut = std::string::npos;
  for (const std::string& stop : stops_) {
    // One that ended before this piece would have been found then.
    const size_t from = before - std::min(before, stop.size() - 1);
    cut = std::min(cut, text_.find(stop, std::max(from, answer_begin_)));
  }
  if (cut == std::string::npos) return;
  text_.resize(cut);
  characters_ = count_characters(text_);
  is_stopped_ = true;
}

/// The bytes at the end that a stop string could begin with.
size_t AnswerText::held_back() const {
  const std::string_view answer = std::string_view(text_).substr(std::max(answer_begin_, taken_));
  size_t held = 0;
  for (const std::string_view stop : stops_) {
    for (size_t size = std::min(stop.size() - 1, answer.size()); size > held; --size) {
      if (answer.ends_with(stop.substr(0, size))) held = size;
    }
  }
  return held;
}

}  // namespace meg::serving
