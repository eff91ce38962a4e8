#include "libmeg/megatron/python_value.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <system_error>

// Literals as the argument table and command lines have them. What is not understood is no value,
// never a guess.

namespace meg::megatron {
namespace {

/// Reads the literal at the front of a text and takes it away; nothing where there is none.
class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : text_(text) {}

  std::optional<FieldValue> value() {
    skip_blanks();
    if (text_.starts_with('[')) return list(']');
    if (text_.starts_with('(')) return list(')');
    return field();
  }

  bool at_end() {
    skip_blanks();
    return text_.empty();
  }

 private:
  void skip_blanks() { text_.remove_prefix(std::min(text_.find_first_not_of(' '), text_.size())); }

  bool take(char c) {
    skip_blanks();
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }

  std::optional<FieldValue> list(char end) {
    text_.remove_prefix(1);
    std::vector<std::string> words;
    while (!take(end)) {
      std::optional<std::string> word = item();
      if (!word || (!take(',') && !text_.starts_with(end))) return std::nullopt;
      words.push_back(*std::move(word));
    }
    return words;
  }

  /// An item of a list as a command line would say it.
  std::optional<std::string> item() {
    skip_blanks();
    const std::string_view before = text_;
    std::optional<FieldValue> value = field();
    if (!value) return std::nullopt;
    if (auto* text = std::get_if<std::string>(&*value)) return std::move(*text);
    // Return it as written, not as printed again: 1e-5 stays 1e-5.
    return std::string(before.substr(0, before.size() - text_.size()));
  }

  std::optional<FieldValue> field() {
    if (text_.starts_with('\'') || text_.starts_with('"')) return quoted();
    const std::string_view word = text_.substr(0, text_.find_first_of(" ,)]"));
    text_.remove_prefix(word.size());
    if (word == "None") return FieldValue();
    if (word == "True" || word == "False") return word == "True";
    // A sign and a point may stand before the first digit.
    if (word.find_first_of("0123456789") > 2) return std::nullopt;  // inf and nan are no literals
    if (const auto integer = number<int64_t>(word)) return *integer;
    if (const auto real = number<double>(word)) return *real;
    return std::nullopt;
  }

  template <class T>
  static std::optional<T> number(std::string_view word) {
    T value;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
    return value;
  }

  /// Understands two escapes only: that of the quote and that of the backslash.
  std::optional<FieldValue> quoted() {
    const char quote = text_[0];
    std::string text;
    for (size_t i = 1; i < text_.size(); ++i) {
      if (text_[i] == quote) {
        text_.remove_prefix(i + 1);
        return text;
      }
      // Any other escape is no literal here: better no value than a wrong one.
      if (text_[i] == '\\' && ++i < text_.size() && text_[i] != quote && text_[i] != '\\') break;
      if (i < text_.size()) text += text_[i];
    }
    return std::nullopt;
  }

  std::string_view text_;
};

}  // namespace

std::optional<FieldValue> parse_python_value(std::string_view literal) {
  LiteralReader reader(literal);
  std::optional<FieldValue> value = reader.value();
  return reader.at_end() ? value : std::nullopt;
}

}  // namespace meg::megatron
