#include "libmeg/tokenizer/steps/internal/normalizer.h"

#include <algorithm>
#include <vector>

#include "libmeg/text/printable.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/models/internal/bpe/byte_alphabet.h"
#include "libmeg/tokenizer/regex/internal/regex_matcher.h"
#include "libmeg/tokenizer/steps/internal/precompiled.h"
#include "libmeg/tokenizer/steps/internal/replace_byte.h"
#include "libmeg/tokenizer/steps/internal/unicode_form.h"
#include "libmeg/tokenizer/unicode/internal/character_class.h"
#include "libmeg/tokenizer/unicode/internal/lower_case.h"
#include "libmeg/tokenizer/unicode/internal/normalization_class.h"
#include "libmeg/tokenizer/unicode/internal/step_class.h"

// Normalizers of tokenizer.json. keeps() says cheaply that a text would stay as it is: most do, and
// are then not copied.

namespace meg::tokenizer {
namespace {

bool begins_character(char byte) { return !text::is_continuation_byte(byte); }

/// Appends each character of text as `change` has it.
template <class Change>
void change_characters(std::string& text, size_t& front, const Change& change) {
  std::string changed;
  changed.reserve(text.size());
  size_t changed_front = 0;
  for (size_t at = 0; at < text.size();) {
    const text::DecodedCodePoint next = text::decode_code_point(std::string_view(text).substr(at));
    change(next.code_point, changed);
    if (at < front) changed_front = changed.size();
    at += next.size;
  }
  text = std::move(changed);
  front = changed_front;
}

class Lowercase : public Normalizer {
 public:
  bool keeps(std::string_view text) const override {
    return std::none_of(text.begin(), text.end(), [](char c) {
      return (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
    });
  }

  Status apply(std::string& text, size_t& front) const override {
    change_characters(text, front, [](char32_t c, std::string& changed) {
      constexpr char32_t kCapitalIWithDot = 0x130;  // the one that becomes two
      if (c == kCapitalIWithDot) {
        changed += "i\xCC\x87";
      } else {
        text::append_code_point(lower_case(c), changed);
      }
    });
    return {};
  }
};

/// Changes each character for itself.
class ChangeCharacters : public Normalizer {
 public:
  /// change: appends what becomes of a character.
  explicit ChangeCharacters(void (*change)(char32_t c, std::string& changed)) : change_(change) {}

  Status apply(std::string& text, size_t& front) const override {
    change_characters(text, front, change_);
    return {};
  }

 private:
  void (*change_)(char32_t c, std::string& changed);
};

void strip_accent(char32_t c, std::string& changed) {
  if (!is_stripped_accent(c)) text::append_code_point(c, changed);
}

/// SentencePiece's rules "nmt": without controls, with spaces for separators and marks of format.
void change_as_nmt(char32_t c, std::string& changed) {
  const auto is_in = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  if (is_in(1, 8) || c == 0xB || is_in(0xE, 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F) return;
  const bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                     is_in(0x200B, 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == 0xFFFD;
  text::append_code_point(space ? U' ' : c, changed);
}

void write_in_byte_alphabet(char32_t c, std::string& changed) {
  std::string bytes;
  text::append_code_point(c, bytes);
  append_byte_characters(bytes, changed);
}

// The steps of BertNormalizer.

void clean(char32_t c, std::string& changed) {
  if (!is_of(StepClass::kControl, c)) text::append_code_point(is_space(c) ? U' ' : c, changed);
}

void space_out_chinese(char32_t c, std::string& changed) {
  const auto is_in = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  const bool chinese = is_in(0x4E00, 0x9FFF) || is_in(0x3400, 0x4DBF) || is_in(0x20000, 0x2A6DF) ||
                       is_in(0x2A700, 0x2B73F) || is_in(0x2B740, 0x2B81F) ||
                       is_in(0x2B920, 0x2CEAF) || is_in(0xF900, 0xFAFF) || is_in(0x2F800, 0x2FA1F);
  if (chinese) changed += ' ';
  text::append_code_point(c, changed);
  if (chinese) changed += ' ';
}

void strip_nonspacing_mark(char32_t c, std::string& changed) {
  if (!is_of(StepClass::kNonspacingMark, c)) text::append_code_point(c, changed);
}

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}

  Status apply(std::string& text, size_t& front) const override {
    size_t begin = 0;
    size_t end = text.size();
    const auto at = [&](size_t place) {
      return text::decode_code_point(std::string_view(text).substr(place));
    };
    while (left_ && begin < end && is_space(at(begin).code_point)) begin += at(begin).size;
    while (right_ && end > begin) {
      size_t last = end - 1;
      while ((static_cast<unsigned char>(text[last]) & 0xc0) == 0x80) --last;
      if (!is_space(at(last).code_point)) break;
      end = last;
    }
    front = std::min(front, end) - std::min(front, begin);
    text = text.substr(begin, end - begin);
    return {};
  }

 private:
  bool left_, right_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string text) : prefix_(std::move(text)) {}

  Status apply(std::string& text, size_t& front) const override {
    if (text.empty()) return {};
    if (front > 0) front += prefix_.size();
    text.insert(0, prefix_);
    return {};
  }

 private:
  std::string prefix_;
};

/// Replaces matches in a text, from left to right.
class Replacement {
 public:
  Replacement(std::string& text, size_t& front) : text_(text), front_(front) {
    changed_.reserve(text.size());
  }

  void replace(size_t begin, size_t end, std::string_view with) {
    keep_to(begin);
    changed_ += with;
    at_ = end;
    // In tokenizers it stems from the last character that it replaces.
    if (end <= front_) changed_front_ = changed_.size();
  }

  void finish() && {
    keep_to(text_.size());
    text_ = std::move(changed_);
    front_ = changed_front_;
  }

 private:
  void keep_to(size_t end) {
    if (at_ < front_) changed_front_ = changed_.size() + std::min(end, front_) - at_;
    changed_.append(text_, at_, end - at_);
    at_ = end;
  }

  std::string& text_;
  size_t& front_;
  std::string changed_;
  size_t changed_front_ = 0;
  size_t at_ = 0;
};

class ReplaceText : public Normalizer {
 public:
  ReplaceText(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}

  bool keeps(std::string_view text) const override {
    return text.find(from_) == std::string_view::npos;
  }

  Status apply(std::string& text, size_t& front) const override {
    if (from_.size() == 1 && to_.size() <= kMostReplacingBytes) {
      std::string changed;
      append_replacing_byte(std::string_view(text).substr(0, front), from_[0], to_, changed);
      const size_t changed_front = changed.size();
      append_replacing_byte(std::string_view(text).substr(front), from_[0], to_, changed);
      text = std::move(changed);
      front = changed_front;
      return {};
    }
    Replacement replacement(text, front);
    size_t at = 0;
    for (size_t found; (found = text.find(from_, at)) != std::string::npos;) {
      at = found + from_.size();
      replacement.replace(found, at, to_);
    }
    std::move(replacement).finish();
    return {};
  }

 private:
  std::string from_, to_;
};

class ReplacePattern : public Normalizer {
 public:
  ReplacePattern(RegexMatcher from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}

  Status apply(std::string& text, size_t& front) const override {
    Replacement replacement(text, front);
    size_t at = 0;
    while (true) {
      MEG_ASSIGN_OR_RETURN(const auto found, from_.find(text, at));
      if (!found) break;
      replacement.replace(found->first, found->second, to_);
      at = found->second;
    }
    std::move(replacement).finish();
    return {};
  }

 private:
  RegexMatcher from_;
  std::string to_;
};

class Sequence : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Normalizer>> steps) : steps_(std::move(steps)) {}

  bool keeps(std::string_view text) const override {
    return std::all_of(steps_.begin(), steps_.end(),
                       [text](const auto& step) { return step->keeps(text); });
  }

  Status apply(std::string& text, size_t& front) const override {
    for (const auto& step : steps_) MEG_RETURN_IF_ERROR(step->apply(text, front));
    return {};
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

using Made = Result<std::unique_ptr<Normalizer>>;

template <class Kind, class... Values>
Made make(Values&&... values) {
  return std::unique_ptr<Normalizer>(std::make_unique<Kind>(std::forward<Values>(values)...));
}

Made read_replace(const JsonPart& part) {
  MEG_RETURN_IF_ERROR(part.allow_only({"type", "pattern", "content"}));
  MEG_ASSIGN_OR_RETURN(const JsonPart pattern, part.member("pattern"));
  MEG_ASSIGN_OR_RETURN(const std::string to, part.text("content", ""));
  MEG_RETURN_IF_ERROR(pattern.allow_only({"String", "Regex"}));
  if (const std::optional<JsonPart> regex = pattern.find("Regex")) {
    MEG_ASSIGN_OR_RETURN(const std::string_view text, regex->text());
    MEG_ASSIGN_OR_RETURN(RegexMatcher from, RegexMatcher::compile(text, regex->place()));
    return make<ReplacePattern>(std::move(from), to);
  }
  MEG_ASSIGN_OR_RETURN(const std::string from, pattern.text("String", ""));
  if (from.empty()) return pattern.unsupported("an empty pattern");
  return make<ReplaceText>(from, to);
}

Made read_strip(const JsonPart& part) {
  MEG_RETURN_IF_ERROR(part.allow_only({"type", "strip_left", "strip_right"}));
  MEG_ASSIGN_OR_RETURN(const bool left, part.boolean("strip_left", true));
  MEG_ASSIGN_OR_RETURN(const bool right, part.boolean("strip_right", true));
  return make<Strip>(left, right);
}

Made read_prepend(const JsonPart& part) {
  MEG_RETURN_IF_ERROR(part.allow_only({"type", "prepend"}));
  MEG_ASSIGN_OR_RETURN(const std::string text, part.text("prepend", ""));
  return make<Prepend>(text);
}

Made read_bert(const JsonPart& part) {
  MEG_RETURN_IF_ERROR(part.allow_only(
      {"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"}));
  MEG_ASSIGN_OR_RETURN(const bool cleans, part.boolean("clean_text", true));
  MEG_ASSIGN_OR_RETURN(const bool chinese, part.boolean("handle_chinese_chars", true));
  MEG_ASSIGN_OR_RETURN(const bool lowercase, part.boolean("lowercase", true));
  MEG_ASSIGN_OR_RETURN(const bool strips, part.boolean("strip_accents", lowercase));
  std::vector<std::unique_ptr<Normalizer>> steps;
  if (cleans) steps.push_back(std::make_unique<ChangeCharacters>(clean));
  if (chinese) steps.push_back(std::make_unique<ChangeCharacters>(space_out_chinese));
  if (strips) {
    steps.push_back(new_unicode_form(false, false));
    steps.push_back(std::make_unique<ChangeCharacters>(strip_nonspacing_mark));
  }
  if (lowercase) steps.push_back(std::make_unique<Lowercase>());
  return make<Sequence>(std::move(steps));
}

Made read_sequence(const JsonPart& part) {
  MEG_RETURN_IF_ERROR(part.allow_only({"type", "normalizers"}));
  MEG_ASSIGN_OR_RETURN(const JsonPart list, part.member("normalizers"));
  MEG_ASSIGN_OR_RETURN(const std::vector<JsonPart> items, list.items());
  std::vector<std::unique_ptr<Normalizer>> steps;
  for (const JsonPart& item : items) {
    MEG_ASSIGN_OR_RETURN(std::unique_ptr<Normalizer> step, read_normalizer(item));
    steps.push_back(std::move(step));
  }
  return make<Sequence>(std::move(steps));
}

}  // namespace

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

size_t size_of_characters(std::string_view text, size_t count) {
  size_t size = 0;
  for (; size < text.size(); ++size) {
    if (begins_character(text[size]) && count-- == 0) break;
  }
  return size;
}

Made read_normalizer(const JsonPart& part) {
  MEG_ASSIGN_OR_RETURN(const std::string_view type, part.type());
  if (type == "Sequence") return read_sequence(part);
  if (type == "Replace") return read_replace(part);
  if (type == "Strip") return read_strip(part);
  if (type == "Prepend") return read_prepend(part);
  if (type == "NFC") return new_unicode_form(true, false);
  if (type == "NFD") return new_unicode_form(false, false);
  if (type == "NFKC") return new_unicode_form(true, true);
  if (type == "NFKD") return new_unicode_form(false, true);
  if (type == "Lowercase") return make<Lowercase>();
  if (type == "StripAccents") return make<ChangeCharacters>(strip_accent);
  if (type == "Nmt") return make<ChangeCharacters>(change_as_nmt);
  if (type == "ByteLevel") return make<ChangeCharacters>(write_in_byte_alphabet);
  if (type == "BertNormalizer") return read_bert(part);
  if (type == "Precompiled") return read_precompiled(part);
  return part.unsupported(text::printable_name(type));
}

}  // namespace meg::tokenizer
