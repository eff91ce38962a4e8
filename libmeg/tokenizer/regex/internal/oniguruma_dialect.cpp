#include "libmeg/tokenizer/regex/internal/oniguruma_dialect.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

namespace meg::tokenizer {
namespace {

/// flags: what stands after `(?`, such as `i:'s)`.
bool has_other_flag(std::string_view flags) {
  const size_t end =
      flags.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-");
  if (end == std::string_view::npos || (flags[end] != ':' && flags[end] != ')')) return false;
  return flags.substr(0, end).find_first_not_of("i-") != std::string_view::npos;
}

/// Some escapes; of flags all but i; and a `]` right at the beginning of brackets.
Status check_elements(std::string_view pattern, const std::string& name) {
  constexpr std::string_view kEscapes = "XyYKvNOQEo";
  constexpr std::string_view kPlaces = "bBR";  // within brackets they are others
  const auto refuse = [&](std::string_view what) {
    return make_error(StatusCode::kUnsupported, "{}: {} in a pattern is not supported", name, what);
  };
  bool in_brackets = false;
  for (size_t at = 0; at < pattern.size(); ++at) {
    const std::string_view rest = pattern.substr(at);
    if (rest.size() > 1 && rest.front() == '\\') {
      const bool is_refused = kEscapes.find(rest[1]) != kEscapes.npos ||
                              (in_brackets && kPlaces.find(rest[1]) != kPlaces.npos);
      if (is_refused) return refuse(rest.substr(0, 2));
      const bool is_property = rest[1] == 'p' || rest[1] == 'P';
      if (is_property && !rest.substr(2).starts_with('{')) return refuse("\\p without braces");
      ++at;
    } else if (!in_brackets && rest.front() == '[') {
      in_brackets = true;
      if (rest.starts_with("[^")) ++at;
      if (pattern.substr(at + 1).starts_with(']')) return refuse("] at the beginning of brackets");
    } else if (!in_brackets && rest.starts_with("(?#")) {
      return refuse("a comment");
    } else if (!in_brackets && rest.starts_with("(?") && has_other_flag(rest.substr(2))) {
      return refuse("a flag besides i");
    } else if (rest.front() == ']') {
      in_brackets = false;
    }
  }
  return {};
}

/// `{1}` or `{1,1}` at the beginning of text, which Oniguruma leaves out; 0 where there is none.
size_t size_of_once(std::string_view text) {
  const bool is_once = text.starts_with("{1}") || text.starts_with("{1,1}");
  return is_once ? interval_at(text).size : 0;
}

/// Whether what stands in front of `behind` is repeated or may be missing.
bool is_repeated(std::string_view behind) {
  const Interval interval = interval_at(behind);
  if (size_of_once(behind) > 0) return is_repeated(behind.substr(interval.size));
  return interval.size > 0 || behind.starts_with('*') || behind.starts_with('+') ||
         behind.starts_with('?');
}

/// Whether the element that begins `rest`, of `size` bytes, is a character as it stands.
bool is_text(std::string_view rest, size_t size) {
  if (is_repeated(rest.substr(size))) return false;
  constexpr std::string_view kOperators = ".^$*+?{[]|";
  constexpr std::string_view kClassesAndPlaces = "sSdDwWhHpPbBRAzZGkg0123456789";
  return size == 2 ? kClassesAndPlaces.find(rest[1]) == std::string_view::npos
                   : kOperators.find(rest[0]) == std::string_view::npos;
}

size_t size_of_character(std::string_view rest) {
  return std::min<size_t>(rest.starts_with('\\') ? 2 : 1, rest.size());
}

/// Tells for each parenthesis whether Oniguruma joins the text in front of it with that after it,
/// as if it were not there: that of a group that says nothing but (?:, is not repeated and is no
/// choice, and a closing one only where text is all that the group holds.
std::vector<bool> joining_parentheses(std::string_view pattern) {
  struct Group {
    size_t begin;
    bool is_joined;
    bool is_text = true;
  };

  std::vector<bool> joins(pattern.size());
  std::vector<Group> open;
  bool in_brackets = false;
  for (size_t at = 0; at < pattern.size();) {
    const size_t begin = at;
    const std::string_view rest = pattern.substr(begin);
    const bool is_plain = rest.starts_with("(?:");
    const size_t size = std::max(size_of_once(rest), size_of_character(rest));
    at += is_plain && !in_brackets ? 3 : size;
    if (in_brackets) {
      in_brackets = rest[0] != ']';
    } else if (rest[0] == '(') {
      open.push_back({begin, is_plain});
    } else if (open.empty()) {
      in_brackets = rest[0] == '[';
    } else if (rest[0] == ')') {
      const Group group = open.back();
      open.pop_back();
      joins[group.begin] = group.is_joined && !is_repeated(rest.substr(1));
      const bool is_empty = begin == group.begin + 3;
      joins[begin] = joins[group.begin] && group.is_text && !is_empty;
      if (!open.empty() && !joins[begin]) open.back().is_text = false;
    } else {
      in_brackets = rest[0] == '[';
      if (rest[0] == '|') open.back().is_joined = false;
      if (size_of_once(rest) == 0 && !is_text(rest, size)) open.back().is_text = false;
    }
  }
  return joins;
}

/// Walks over a pattern's elements outside of brackets and tells where the flag i holds.
class CaseScope {
 public:
  bool is_caseless() const { return scopes_.back(); }

  /// rest: from the element on. Returns its size where it begins, ends or switches a scope, else 0.
  size_t enter(std::string_view rest) {
    if (rest.starts_with(')')) {
      if (scopes_.size() > 1) scopes_.pop_back();
      return 1;
    }
    if (!rest.starts_with('(')) return 0;
    const size_t end = rest.starts_with("(?") ? rest.find_first_not_of("i-", 2) : 2;
    const bool is_flag = end != std::string_view::npos && end < rest.size() && end > 2;
    const std::string_view flags = is_flag ? rest.substr(2, end - 2) : std::string_view();
    const bool holds = is_flag ? flags.find('i') < flags.find('-') : is_caseless();
    if (is_flag && rest[end] == ')') {
      scopes_.back() = holds;
      return end + 1;
    }
    scopes_.push_back(holds);
    return is_flag ? end + 1 : rest.starts_with("(?:") ? 3 : size_of_name(rest);
  }

 private:
  /// Bytes of `(?<name>`; 1 if the group has no name.
  static size_t size_of_name(std::string_view rest) {
    const bool has_name = rest.starts_with("(?<") && !rest.starts_with("(?<=") &&
                          !rest.starts_with("(?<!") && rest.find('>') != std::string_view::npos;
    return has_name ? rest.find('>') + 1 : 1;
  }

  std::vector<bool> scopes_ = {false};  // of the groups that are open, the innermost last
};

/// What Oniguruma folds otherwise than PCRE2 where case does not matter: it takes a character for
/// several (`(?i)ss` for the German sharp s) and several for one, also in brackets, and leaves
/// properties as they are (`(?i)\p{Ll}` is no capital).
Status check_folding(std::string_view pattern, const std::string& name) {
  constexpr std::array<std::string_view, 5> kFolded = {"ss", "ff", "fi", "fl", "st"};
  const auto refuse = [&](std::string_view what) {
    return make_error(StatusCode::kUnsupported, "{}: {} under (?i) in a pattern is not supported",
                      name, what);
  };
  const std::vector<bool> joins = joining_parentheses(pattern);
  CaseScope scope;
  bool in_brackets = false;
  char previous = 0;  // letter of the same text, in lower case
  for (size_t at = 0; at < pattern.size();) {
    const std::string_view rest = pattern.substr(at);
    const size_t once = in_brackets ? 0 : size_of_once(rest);
    const size_t entered = in_brackets ? 0 : scope.enter(rest);
    const size_t size = std::max({once, entered, size_of_character(rest)});
    if (entered > 0 && !joins[at]) previous = 0;
    at += size;
    if (once > 0 || entered > 0) continue;
    if (rest[0] == '[') in_brackets = true;
    if (rest[0] == ']') in_brackets = false;
    if (!scope.is_caseless()) continue;
    if (static_cast<unsigned char>(rest[0]) >= 0x80) return refuse("a character outside ASCII");
    if (size == 2 && std::string_view("pPxu01234567").find(rest[1]) != std::string_view::npos) {
      return refuse(rest.substr(0, 2));
    }
    if (in_brackets && size == 2 && std::string_view("SDwWH").find(rest[1]) != rest.npos) {
      return refuse(fmt::format("{} within brackets", rest.substr(0, 2)));
    }
    const bool is_letter = size == 1 && !in_brackets && std::isalpha(rest[0]) != 0;
    const char letter = is_letter && is_text(rest, size) ? static_cast<char>(rest[0] | 0x20) : '\0';
    const std::array<char, 2> both = {previous, letter};
    const std::string_view text(both.data(), both.size());
    if (std::ranges::count(kFolded, text) != 0) {
      return refuse(fmt::format("{}, which also matches one character,", text));
    }
    previous = letter;
  }
  return {};
}

}  // namespace

Interval interval_at(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  if (!text.starts_with('{')) return {};
  const size_t comma = text.find_first_not_of(kDigits, 1);
  if (comma == std::string_view::npos) return {};
  const bool is_exact = text[comma] == '}';
  const size_t end = is_exact ? comma : text.find_first_not_of(kDigits, comma + 1);
  const bool is_whole = end != std::string_view::npos && text[end] == '}' &&
                        (is_exact || text[comma] == ',') && end > (is_exact ? 1 : 2);
  return is_whole ? Interval{end + 1, is_exact} : Interval{};
}

Status check_oniguruma_dialect(std::string_view pattern, const std::string& name) {
  MEG_RETURN_IF_ERROR(check_elements(pattern, name));
  return check_folding(pattern, name);
}

}  // namespace meg::tokenizer
