#include "libmeg/chat/internal/template_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "libmeg/text/printable.h"
#include "libmeg/text/python_text.h"
#include "libmeg/text/utf8.h"

namespace meg::chat {
namespace {

constexpr std::array<std::string_view, 6> kLongOperators = {"//", "**", "==", "!=", ">=", "<="};
constexpr std::string_view kOperators = "+-/*%~[](){}><=.:|,;";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

/// As Jinja reads its source: all line ends are \n, one at the end is dropped.
std::string normalized(std::string_view source) {
  std::string text;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string_view without_space_at_end(std::string_view text) {
  const std::string_view kept = text::python_strip(text);
  return kept.empty()
             ? text.substr(0, 0)
             : text.substr(0, static_cast<size_t>(kept.data() - text.data()) + kept.size());
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)) {}

  Result<std::vector<Token>> read() {
    MEG_RETURN_IF_ERROR(read_all());
    add(Token::Type::kEnd, "");
    return std::move(tokens_);
  }

 private:
  Status read_all() {
    while (at_ < source_.size()) {
      const size_t tag = find_tag();
      if (tag == std::string::npos) {
        add_data(rest());
        at_ = source_.size();
        return {};
      }
      const char kind = source_[tag + 1];
      size_t after = tag + 2;
      const char sign = after < source_.size() ? source_[after] : '\0';
      const bool has_sign = sign == '-' || (sign == '+' && kind != '{');
      if (has_sign) ++after;
      std::string_view data = rest().substr(0, tag - at_);
      data = stripped_before(data, sign == '-', kind != '{' && sign != '+');
      add_data(data);
      advance(after);
      if (kind == '#') {
        MEG_RETURN_IF_ERROR(skip_comment());
      } else if (kind == '%' && at_raw()) {
        MEG_RETURN_IF_ERROR(read_raw());
      } else {
        MEG_RETURN_IF_ERROR(read_tag(kind == '{'));
      }
      begins_line_ = at_ > 0 && source_[at_ - 1] == '\n';
    }
    return {};
  }

  std::string_view rest() const { return std::string_view(source_).substr(at_); }

  size_t find_tag() const {
    for (size_t at = source_.find('{', at_); at != std::string::npos;
         at = source_.find('{', at + 1)) {
      const char next = at + 1 < source_.size() ? source_[at + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return std::string::npos;
  }

  /// The text before a tag without what `-` or lstrip_blocks takes from its end.
  std::string_view stripped_before(std::string_view data, bool has_minus,
                                   bool strips_indent) const {
    if (has_minus) return without_space_at_end(data);
    const size_t line = data.rfind('\n') + 1;
    if (strips_indent && (line > 0 || begins_line_) &&
        text::python_strip(data.substr(line)).empty()) {
      return data.substr(0, line);
    }
    return data;
  }

  void add(Token::Type type, std::string_view text) {
    tokens_.push_back({type, std::string(text), line_});
  }

  void add_data(std::string_view data) {
    if (!data.empty()) add(Token::Type::kData, data);
  }

  void advance(size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  void skip_space() {
    const std::string_view left = rest();
    const std::string_view kept = text::python_strip(left);
    advance(kept.empty() ? source_.size() : at_ + static_cast<size_t>(kept.data() - left.data()));
  }

  Status error(std::string_view expected) const {
    const std::string_view found = rest().substr(0, rest().find('\n')).substr(0, 40);
    return make_error(StatusCode::kInvalidArgument, "line {}: expected {}, found {}", line_,
                      expected, found.empty() ? "the end" : text::printable(found));
  }

  /// After the characters that end a tag: what they take of the text behind it.
  void strip_after(char sign, bool is_block) {
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && is_block && at_ < source_.size() && source_[at_] == '\n') {
      advance(at_ + 1);
    }
  }

  /// Takes `-NAME` or `NAME`, the end of a tag, if it comes next.
  bool take_end(std::string_view end, bool is_block) {
    const std::string_view left = rest();
    if (left.starts_with(end)) {
      advance(at_ + end.size());
      strip_after('\0', is_block);
      return true;
    }
    const char sign = left.empty() ? '\0' : left[0];
    if ((sign == '-' || (sign == '+' && is_block)) && left.substr(1).starts_with(end)) {
      advance(at_ + 1 + end.size());
      strip_after(sign, is_block);
      return true;
    }
    return false;
  }

  Status skip_comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) return error("#} after a comment");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    advance(end + 2);
    strip_after(sign, /*is_block=*/true);
    return {};
  }

  /// Whether the tag that has begun is {% raw %}.
  bool at_raw() const {
    std::string_view left = rest();
    const auto skip = [&] {
      const std::string_view kept = text::python_strip(left);
      left = kept.empty() ? std::string_view()
                          : left.substr(static_cast<size_t>(kept.data() - left.data()));
    };
    skip();
    if (!left.starts_with("raw")) return false;
    left.remove_prefix(3);
    skip();
    return left.starts_with("%}") || left.starts_with("-%}");
  }

  Status read_raw() {
    const size_t end = source_.find("%}", at_);
    const bool has_minus = source_[end - 1] == '-';
    advance(end + 2);
    if (has_minus) skip_space();
    begins_line_ = source_[at_ - 1] == '\n';
    const size_t begin = at_;
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos;
         tag = source_.find("{%", tag + 2)) {
      advance(tag + 2);
      const char sign = at_ < source_.size() ? source_[at_] : '\0';
      if (sign == '-' || sign == '+') advance(at_ + 1);
      skip_space();
      if (!rest().starts_with("endraw")) continue;
      advance(at_ + 6);
      skip_space();
      const std::string_view data = std::string_view(source_).substr(begin, tag - begin);
      add_data(stripped_before(data, sign == '-', sign != '+'));
      return take_end("%}", /*is_block=*/true) ? Status() : error("%} after endraw");
    }
    return error("{% endraw %}");
  }

  Status read_tag(bool is_variable) {
    add(is_variable ? Token::Type::kVariableBegin : Token::Type::kBlockBegin, "");
    const std::string_view end = is_variable ? "}}" : "%}";
    std::string open;  // brackets
    for (;;) {
      skip_space();
      const int line = line_;
      if (open.empty() && take_end(end, !is_variable)) {
        tokens_.push_back(
            {is_variable ? Token::Type::kVariableEnd : Token::Type::kBlockEnd, "", line});
        return {};
      }
      if (at_ == source_.size()) return error(end);
      MEG_RETURN_IF_ERROR(read_token(open));
    }
  }

  Status read_token(std::string& open) {
    const char c = source_[at_];
    if (c == '"' || c == '\'') return read_string(c);
    if (is_digit(c)) return read_number();
    if (begins_name(c)) {
      size_t end = at_;
      while (end < source_.size() && (begins_name(source_[end]) || is_digit(source_[end]))) ++end;
      add(Token::Type::kName, std::string_view(source_).substr(at_, end - at_));
      advance(end);
      return {};
    }
    for (const std::string_view name : kLongOperators) {
      if (!rest().starts_with(name)) continue;
      add(Token::Type::kOperator, name);
      advance(at_ + 2);
      return {};
    }
    if (kOperators.find(c) == std::string_view::npos) return error("an expression");
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) return error("no closing bracket");
      open.pop_back();
    }
    add(Token::Type::kOperator, rest().substr(0, 1));
    advance(at_ + 1);
    return {};
  }

  /// Digits, single underscores between them.
  size_t end_of_digits(size_t at) const {
    while (at < source_.size() &&
           (is_digit(source_[at]) ||
            (source_[at] == '_' && at + 1 < source_.size() && is_digit(source_[at + 1])))) {
      ++at;
    }
    return at;
  }

  Status read_number() {
    size_t end = end_of_digits(at_);
    const auto next = [&](size_t at) { return at < source_.size() ? source_[at] : '\0'; };
    bool is_float = false;
    if (next(end) == '.' && is_digit(next(end + 1))) {
      end = end_of_digits(end + 1);
      is_float = true;
    }
    if (next(end) == 'e' || next(end) == 'E') {
      const size_t sign = next(end + 1) == '+' || next(end + 1) == '-' ? 1 : 0;
      if (is_digit(next(end + 1 + sign))) {
        end = end_of_digits(end + 1 + sign);
        is_float = true;
      }
    }
    if (begins_name(next(end))) return error("a decimal number");
    std::string digits = source_.substr(at_, end - at_);
    std::erase(digits, '_');
    add(is_float ? Token::Type::kFloat : Token::Type::kInteger, digits);
    advance(end);
    return {};
  }

  Status read_string(char quote) {
    const int line = line_;
    std::string text;
    for (size_t at = at_ + 1; at < source_.size();) {
      const char c = source_[at];
      if (c == quote) {
        tokens_.push_back({Token::Type::kString, std::move(text), line});
        advance(at + 1);
        return {};
      }
      if (c != '\\') {
        text += c;
        ++at;
        continue;
      }
      MEG_RETURN_IF_ERROR(read_escape(at, text));
    }
    return error("a string that ends");
  }

  /// Python's escapes, from the backslash at `at` on.
  Status read_escape(size_t& at, std::string& text) {
    constexpr std::string_view kNames = "abfnrtv\\'\"";
    constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
    const char c = at + 1 < source_.size() ? source_[at + 1] : '\0';
    if (const size_t name = kNames.find(c); c != '\0' && name != std::string_view::npos) {
      text += kMeanings[name];
      at += 2;
      return {};
    }
    if (c == '\n') {
      at += 2;
      return {};
    }
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t number = 0;
    if (digits > 0) {
      const std::string hex = source_.substr(std::min(at + 2, source_.size()), digits);
      if (hex.size() < digits ||
          hex.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
        return error("an escape of hexadecimal digits in this string");
      }
      number = static_cast<uint32_t>(std::stoul(hex, nullptr, 16));
      at += 2 + digits;
    } else if (c >= '0' && c <= '7') {
      size_t end = at + 1;
      for (; end < at + 4 && end < source_.size() && source_[end] >= '0' && source_[end] <= '7';
           ++end) {
        number = number * 8 + static_cast<uint32_t>(source_[end] - '0');
      }
      at = end;
    } else if (c == 'N') {
      return error("no \\N in this string");
    } else {
      text += '\\';
      ++at;
      return {};
    }
    if (number > 0x10FFFF || (number >= 0xD800 && number < 0xE000)) {
      return error("escapes of characters in this string");
    }
    text::append_code_point(number, text);
    return {};
  }

  const std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool begins_line_ = true;  ///< Whether nothing of its line is before at_.
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> read_tokens(std::string_view source) {
  const size_t invalid = text::find_invalid_utf8(source);
  if (invalid != std::string_view::npos) {
    return make_error(StatusCode::kInvalidArgument, "byte {}: expected UTF-8", invalid);
  }
  return Lexer(source).read();
}

}  // namespace meg::chat
