#include "libmeg/tokenizer/regex/internal/nested_brackets.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <utility>
#include <vector>

#include "libmeg/text/printable.h"
#include "libmeg/text/utf8.h"
#include "libmeg/tokenizer/regex/internal/escape_ranges.h"

namespace meg::tokenizer {
namespace {

constexpr char32_t kCodePoints = 0x110000;

/// A set of code points.
class CodePointSet {
 public:
  void add(char32_t first, char32_t last) {
    for (char32_t c = first; c <= last; ++c) has_[c] = true;
  }

  void unite(const CodePointSet& other) {
    for (char32_t c = 0; c < kCodePoints; ++c) has_[c] = has_[c] || other.has_[c];
  }

  void intersect(const CodePointSet& other) {
    for (char32_t c = 0; c < kCodePoints; ++c) has_[c] = has_[c] && other.has_[c];
  }

  void invert() { has_.flip(); }

  /// For brackets.
  std::string text() const {
    std::vector<CodePointRange> ranges;
    for (char32_t c = 0; c < kCodePoints; ++c) {
      if (has_[c] && (c < 0xD800 || c >= 0xE000)) ranges.push_back({c, c});
    }
    return ranges.empty() ? "^\\x{0}-\\x{10ffff}" : written(ranges);
  }

 private:
  std::vector<bool> has_ = std::vector<bool>(kCodePoints);
};

/// Classes that Oniguruma knows by names, as in `[[:space:]]`; [:upper:] and [:lower:], which are
/// made of derived properties, are left out.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kNamedClasses = {
    {{"space", R"(\s)"},
     {"digit", R"(\d)"},
     {"alpha", R"(\p{Alphabetic})"},
     {"alnum", R"(\p{Alphabetic}\d)"},
     {"word", R"(\w)"},
     {"blank", R"(\p{Zs}\t)"},
     {"cntrl", R"(\p{Cc})"},
     {"graph", R"([^\s\p{Cc}\p{Cn}])"},
     {"print", R"([^\s\p{Cc}\p{Cn}]\p{Zs})"},
     {"punct", R"(\p{P}\p{S})"},
     {"xdigit", R"(\h)"},
     {"ascii", R"(\x00-\x7f)"}}};

/// Reads one bracket expression.
class BracketReader {
 public:
  /// left: how many expressions a pattern may have, so that none takes long; counted down.
  BracketReader(std::string_view rest, const std::string& name, int& left)
      : rest_(rest), name_(name), left_(left) {}

  Result<CodePointSet> read() {
    if (--left_ < 0) return refuse("more than 64 nested brackets");
    rest_.remove_prefix(1);
    const bool is_negated = take("^");
    if (rest_.starts_with(']')) return refuse("] at the beginning of brackets");
    CodePointSet all;
    all.invert();
    do {
      CodePointSet part;
      if (ends_part()) return refuse("&& without a class at both sides");
      while (!ends_part()) MEG_RETURN_IF_ERROR(read_element(part));
      all.intersect(part);
    } while (take("&&"));
    if (!take("]")) return refuse("[ without ]");
    if (is_negated) all.invert();
    return all;
  }

  std::string_view rest() const { return rest_; }

 private:
  bool ends_part() const {
    return rest_.empty() || rest_.starts_with(']') || rest_.starts_with("&&");
  }

  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  Status refuse(std::string_view what) const {
    return make_error(StatusCode::kUnsupported, "{}: {} in a pattern is not supported", name_,
                      what);
  }

  /// Adds an expression within, a class, a character or a range of characters.
  Status read_element(CodePointSet& set) {
    if (rest_.starts_with("[:")) return read_named_class(set);
    if (rest_.starts_with('[')) {
      BracketReader inner(rest_, name_, left_);
      MEG_ASSIGN_OR_RETURN(const CodePointSet within, inner.read());
      rest_ = inner.rest();
      set.unite(within);
      return {};
    }
    if (const auto ranges = ranges_of_escape(element(), true)) {
      rest_.remove_prefix(element().size());
      for (const CodePointRange& range : *ranges) set.add(range.first, range.last);
      return {};
    }
    MEG_ASSIGN_OR_RETURN(const char32_t first, read_character());
    const bool is_range = rest_.size() > 1 && rest_[0] == '-' && rest_[1] != ']';
    if (!is_range) {
      set.add(first, first);
      return {};
    }
    rest_.remove_prefix(1);
    if (rest_.starts_with('[') || rest_.starts_with("&&") || ranges_of_escape(element(), true)) {
      return refuse("- in front of a class within brackets");
    }
    MEG_ASSIGN_OR_RETURN(const char32_t last, read_character());
    if (last < first) return refuse("a range that ends before it begins");
    set.add(first, last);
    return {};
  }

  /// Adds `[:space:]` or, negated, `[:^space:]`.
  Status read_named_class(CodePointSet& set) {
    const size_t end = std::min(rest_.find(":]"), rest_.size());
    std::string_view name = rest_.substr(2, end - 2);
    const bool is_negated = name.starts_with('^');
    if (is_negated) name.remove_prefix(1);
    for (const auto& [known, elements] : kNamedClasses) {
      if (name != known || end == rest_.size()) continue;
      rest_.remove_prefix(end + 2);
      const std::string brackets = fmt::format("[{}{}]", is_negated ? "^" : "", elements);
      MEG_ASSIGN_OR_RETURN(const CodePointSet named, BracketReader(brackets, name_, left_).read());
      set.unite(named);
      return {};
    }
    return refuse(fmt::format("[:{}:] within brackets", text::printable_name(name)));
  }

  std::string_view element() const {
    return rest_.empty() ? rest_ : rest_.substr(0, size_of_element(rest_));
  }

  Result<char32_t> read_character() {
    if (rest_.empty()) return refuse("[ without ]");
    if (rest_[0] != '\\') {
      const text::DecodedCodePoint character = text::decode_code_point(rest_);
      if (character.code_point == text::kInvalidCodePoint) return refuse("what is not UTF-8");
      rest_.remove_prefix(character.size);
      return character.code_point;
    }
    constexpr std::array<std::pair<char, char32_t>, 7> kControls = {{{'t', '\t'},
                                                                     {'n', '\n'},
                                                                     {'r', '\r'},
                                                                     {'f', '\f'},
                                                                     {'v', '\v'},
                                                                     {'a', '\a'},
                                                                     {'e', 0x1B}}};
    if (rest_.size() < 2) return refuse("\\ at the end");
    if (!name_of_property(element()).empty()) {
      return refuse("the property " + text::printable(element()));
    }
    const char kind = rest_[1];
    for (const auto& [letter, control] : kControls) {
      if (kind != letter) continue;
      rest_.remove_prefix(2);
      return control;
    }
    if (kind == 'u') return read_code(2, 4, 4);
    if (rest_.starts_with("\\x{")) return read_code(3, 1, 8);
    if (kind == 'x') return read_code(2, 1, 2);
    const bool is_letter_or_digit =
        (kind >= '0' && kind <= '9') || ((kind | 0x20) >= 'a' && (kind | 0x20) <= 'z');
    if (is_letter_or_digit || static_cast<unsigned char>(kind) >= 0x80) {
      return refuse(text::printable(rest_.substr(0, 2)) + " within nested brackets");
    }
    rest_.remove_prefix(2);
    return static_cast<char32_t>(kind);
  }

  /// A number of hexadecimal digits after `prefix` bytes, in braces if the prefix has one.
  Result<char32_t> read_code(size_t prefix, size_t fewest, size_t most) {
    const bool has_brace = rest_[prefix - 1] == '{';
    // Two digits alone are a byte, of which text outside ASCII has several a character.
    const char32_t limit = most == 2 ? 0x80 : kCodePoints;
    const std::string_view digits = rest_.substr(prefix, most);
    uint32_t code = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    const auto size = static_cast<size_t>(parsed.ptr - digits.data());
    const bool is_valid = parsed.ec == std::errc() && size >= fewest && code < limit &&
                          (!has_brace || rest_.substr(prefix + size).starts_with('}'));
    if (!is_valid) return refuse(text::printable(rest_.substr(0, prefix + size)));
    rest_.remove_prefix(prefix + size + (has_brace ? 1 : 0));
    return code;
  }

  std::string_view rest_;
  const std::string& name_;
  int& left_;
};

/// Bytes of the bracket expression that a pattern begins with; 0 if it holds another one or an
/// intersection.
size_t size_of_plain_brackets(std::string_view pattern) {
  size_t at = 1;
  while (at < pattern.size() && pattern[at] != ']') {
    if (pattern[at] == '[' || pattern.substr(at).starts_with("&&")) return 0;
    at += pattern[at] == '\\' ? 2 : 1;
  }
  return std::min(at + 1, pattern.size());
}

}  // namespace

Result<std::string> flatten_nested_brackets(std::string_view pattern, const std::string& name) {
  std::string flat;
  int left = 64;
  for (std::string_view rest = pattern; !rest.empty();) {
    const size_t size = rest[0] == '[' ? size_of_plain_brackets(rest) : size_of_element(rest);
    if (size > 0) {
      flat.append(rest.substr(0, size));
      rest.remove_prefix(size);
      continue;
    }
    BracketReader reader(rest, name, left);
    MEG_ASSIGN_OR_RETURN(const CodePointSet set, reader.read());
    flat.append("[").append(set.text()).append("]");
    rest = reader.rest();
  }
  return flat;
}

}  // namespace meg::tokenizer
