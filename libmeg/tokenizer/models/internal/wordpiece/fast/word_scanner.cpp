#include "libmeg/tokenizer/models/internal/wordpiece/fast/word_scanner.h"

#include <algorithm>
#include <string>

#include "libmeg/text/ascii.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/models/internal/wordpiece/bert_characters.h"

namespace meg::tokenizer::wordpiece::fast {

namespace {

/// Whether the first character from `at` to `end`, by steps to the left or right, that decides on
/// the form of a sigma is a cased one.
template <class Step>
bool meets_cased(const char* at, const char* end, const Step& step) {
  while (at != end) {
    const std::string_view character = step(at);
    const CharacterProperties properties(text::decode_code_point(character).code_point);
    const CharacterKind kind = properties.kind();
    if (kind == CharacterKind::kSpace || kind == CharacterKind::kChinese) return false;
    if (kind == CharacterKind::kRemoved || properties.case_ignorable()) continue;
    return properties.cased();
  }
  return false;
}

}  // namespace

WordScanner::WordScanner(bool lower_case) : lower_case_(lower_case) {
  for (size_t byte = 0; byte < rows_.size(); ++byte) {
    rows_[byte] = {ByteClass::kNotAscii, 0};
    if (byte >= 128) continue;
    const auto c = static_cast<char>(byte);
    // ASCII is decided by one table; everything else goes through read_character().
    rows_[byte].lower = lower_case ? text::ascii_lower(c) : c;
    switch (CharacterProperties(static_cast<char32_t>(byte)).kind()) {
      case CharacterKind::kRemoved:
        rows_[byte].byte_class = ByteClass::kRemoved;
        break;
      case CharacterKind::kSpace:
        rows_[byte].byte_class = ByteClass::kSpace;
        break;
      case CharacterKind::kPunctuation:
        rows_[byte].byte_class = ByteClass::kAlone;
        break;
      default:
        rows_[byte].byte_class = ByteClass::kWord;
    }
  }
}

void WordScanner::begin(std::string_view text) {
  token_ = at_ = text.data();
  end_ = at_ + text.size();
  // Room for all of the text at once, so that bytes that stay as they are need no check.
  if (word_.size() < text.size() + kWordPadding) word_.resize(text.size() + kWordPadding);
}

/// Reads the character at at_ and says what is to be done with added_, what becomes of it.
WordScanner::Action WordScanner::read_character() {
  const char* const start = at_;
  const text::DecodedCodePoint read =
      text::decode_code_point({start, static_cast<size_t>(end_ - start)});
  at_ += read.size;
  added_.clear();
  const CharacterProperties properties(read.code_point);
  starts_ = properties.starting_mark();
  if (properties.kind() == CharacterKind::kRemoved) return Action::kNothing;
  if (properties.kind() == CharacterKind::kSpace) return Action::kPutAlone;
  if (!lower_case_) {
    added_.push_back(read.code_point);
  } else if (read.code_point == kCapitalSigma) {
    added_.push_back(is_final_sigma(start, at_) ? kFinalSigma : kSmallSigma);
  } else {
    append_folded(read.code_point, added_);
  }
  const bool alone = properties.kind() == CharacterKind::kChinese;
  return alone ? Action::kPutAlone : Action::kPut;
}

/// Whether it is after a cased character and before none, in the characters between two spaces.
bool WordScanner::is_final_sigma(const char* sigma, const char* after) const {
  const auto left = [](const char*& at) {
    const char* const end = at;
    do --at;
    while (text::is_continuation_byte(*at));
    return std::string_view(at, static_cast<size_t>(end - at));
  };
  const auto right = [this](const char*& at) {
    const std::string_view rest(at, static_cast<size_t>(end_ - at));
    at += text::decode_code_point(rest).size;
    return rest;
  };
  return meets_cased(sigma, token_, left) && !meets_cased(after, end_, right);
}

void WordScanner::append(char32_t code_point) {
  if (lower_case_ && CharacterProperties(code_point).ordered()) return append_ordered(code_point);
  std::string bytes;
  text::append_code_point(code_point, bytes);
  replace_end(size_, bytes);
  run_ = size_;
}

/// Puts bytes, which are one character more than those from `from` on, in their place. Room for
/// what is left of the text stays.
void WordScanner::replace_end(size_t from, std::string_view bytes) {
  const size_t needed = from + bytes.size() + static_cast<size_t>(end_ - at_) + kWordPadding;
  if (needed > word_.size()) word_.resize(2 * needed);
  std::copy(bytes.begin(), bytes.end(), word_.begin() + static_cast<std::ptrdiff_t>(from));
  continuing_bytes_ += from + bytes.size() - size_ - 1;
  size_ = from + bytes.size();
}

/// Appends a character of a combining class, before those of higher ones at the end of the word.
void WordScanner::append_ordered(char32_t code_point) {
  std::string tail(word_.data() + run_, size_ - run_);
  std::u32string ordered;
  for (std::string_view rest = tail; !rest.empty();) {
    const text::DecodedCodePoint next = text::decode_code_point(rest);
    ordered += next.code_point;
    rest.remove_prefix(next.size);
  }
  const auto before = [](char32_t a, char32_t b) {
    return combining_class(a) < combining_class(b);
  };
  ordered.insert(std::upper_bound(ordered.begin(), ordered.end(), code_point, before), code_point);
  tail.clear();
  for (const char32_t character : ordered) text::append_code_point(character, tail);
  replace_end(run_, tail);
}

bool WordScanner::is_alone(char32_t code_point) {
  return CharacterProperties(code_point).kind() == CharacterKind::kPunctuation;
}

}  // namespace meg::tokenizer::wordpiece::fast
