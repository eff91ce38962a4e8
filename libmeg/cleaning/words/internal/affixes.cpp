#include "libmeg/cleaning/words/internal/affixes.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/cleaning/words/internal/character_table.h"
#include "libmeg/text/utf8.h"

namespace meg::cleaning {

std::u32string decoded(std::string_view text) {
  std::u32string out;
  while (!text.empty()) {
    const text::DecodedCodePoint next = text::decode_code_point(text);
    out += next.code_point;
    text.remove_prefix(next.size);
  }
  return out;
}

namespace {

const std::vector<std::u32string>& unit_table() {
  static const std::vector<std::u32string> decoded_units = [] {
    std::vector<std::u32string> all;
    for (const std::string_view unit : english_tables().units) {
      all.push_back(decoded(unit));
    }
    return all;
  }();
  return decoded_units;
}

bool ends_with(CodePoints text, std::u32string_view end) {
  return text.size() >= end.size() &&
         std::equal(end.begin(), end.end(), text.end() - static_cast<std::ptrdiff_t>(end.size()));
}

bool begins_with(CodePoints text, std::u32string_view begin) {
  return text.size() >= begin.size() && std::equal(begin.begin(), begin.end(), text.begin());
}

size_t dots_at(CodePoints text, size_t at) {
  size_t count = 0;
  while (at + count < text.size() && text[at + count] == '.') ++count;
  return count;
}

constexpr std::u32string_view kDollars[] = {U"US$", U"C$", U"A$"};

}  // namespace

size_t find_prefix(CodePoints text) {
  const char32_t first = text.front();
  if (has(first, kPrefix)) return 1;
  if (first == '+') return text.size() == 1 || !is_digit(text[1]) ? 1 : 0;
  if (first == '.') return dots_at(text, 0) >= 2 ? dots_at(text, 0) : 0;
  for (const std::u32string_view dollars : kDollars) {
    if (begins_with(text, dollars)) return dollars.size();
  }
  return 0;
}

namespace {

/// Whether a dot at the end, after `before`, is split off.
bool splits_dot(CodePoints before) {
  if (before.empty()) return false;
  const char32_t last = before.back();
  if (has(last, kBeforeDot)) return true;
  if (before.size() < 2) return false;
  const char32_t last_but_one = before[before.size() - 2];
  constexpr std::u32string_view kDegrees = U"FfCcKk";
  return (has(last, kSpacyUpper) && has(last_but_one, kSpacyUpper)) ||
         (last_but_one == U'\u00b0' && kDegrees.find(last) != kDegrees.npos);
}

/// The longest unit or currency that stands after a digit at the end.
size_t find_unit(CodePoints text) {
  const auto follows_digit = [&](size_t size) {
    return text.size() > size && is_digit(text[text.size() - size - 1]);
  };
  size_t longest = 0;
  if (has(text.back(), kCurrency) && follows_digit(1)) longest = 1;
  for (const std::u32string_view dollars : kDollars) {
    if (ends_with(text, dollars) && follows_digit(dollars.size())) {
      longest = std::max(longest, dollars.size());
    }
  }
  if (!has(text.back(), kUnitEnd)) return longest;
  for (const std::u32string& unit : unit_table()) {
    if (ends_with(text, unit) && follows_digit(unit.size()))
      longest = std::max(longest, unit.size());
  }
  return longest;
}

}  // namespace

size_t find_suffix(CodePoints text) {
  if (text.empty()) return 0;
  const char32_t last = text.back();
  const char32_t before = text.size() > 1 ? text[text.size() - 2] : 0;
  if (last == '.') {
    size_t dots = 0;
    while (dots < text.size() && text[text.size() - 1 - dots] == '.') ++dots;
    if (dots >= 2) return dots;
    return splits_dot(text.first(text.size() - 1)) ? 1 : 0;
  }
  if (last == U'\u2026') return before == last ? 2 : 1;
  if ((last == 's' || last == 'S') && (before == '\'' || before == U'\u2019')) return 2;
  if (last == '+' && is_digit(before)) return 1;
  return std::max<size_t>(find_unit(text), has(last, kSuffix) ? 1 : 0);
}

namespace {

constexpr bool is_hyphen(char32_t c) {
  return c == '-' || c == U'\u2013' || c == U'\u2014' || c == '~';
}

}  // namespace

size_t find_infix(CodePoints text, size_t at) {
  const char32_t c = text[at];
  const char32_t before = at > 0 ? text[at - 1] : 0;
  const auto after = [&](size_t size) { return at + size < text.size() ? text[at + size] : 0; };
  if (c == '.') {
    if (const size_t dots = dots_at(text, at); dots >= 2) return dots;
    const bool is_end = has(before, kSpacyLower | kQuote) && has(after(1), kSpacyUpper | kQuote);
    return is_end ? 1 : 0;
  }
  if (has(c, kInfix)) return 1;
  constexpr std::u32string_view kSigns = U"+-*^", kOthers = U":<>=/";
  if (is_digit(before) && kSigns.find(c) != kSigns.npos &&
      (is_digit(after(1)) || after(1) == '-')) {
    return 1;
  }
  if (c == ',') return has(before, kSpacyAlpha) && has(after(1), kSpacyAlpha) ? 1 : 0;
  if (!has(before, kSpacyAlpha) && !is_digit(before)) return 0;
  if (is_hyphen(c)) {
    const size_t most = c == '-' ? 3 : c == U'\u2014' ? 2 : 1;
    for (size_t size = 1; size <= most && at + size <= text.size(); ++size) {
      if (text[at + size - 1] != c) break;
      if (has(after(size), kSpacyAlpha)) return size;
    }
    return 0;
  }
  return kOthers.find(c) != kOthers.npos && has(after(1), kSpacyAlpha) ? 1 : 0;
}

namespace {

// URLs.

constexpr bool is_host_character(char32_t c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= 0xa1 && c <= 0xffff);
}

/// Whether what follows a host is a port and a path.
bool is_port_and_path(CodePoints text) {
  if (!text.empty() && text.front() == ':') {
    size_t digits = 1;
    while (digits < text.size() && has(text[digits], kDigit)) ++digits;
    const size_t count = digits - 1;
    if (count < 2 || count > 5) return false;
    text = text.subspan(digits);
  }
  return text.empty() || text.front() == '/' || text.front() == '?' || text.front() == '#';
}

/// Whether `text` begins with a name and what may follow one.
bool is_named_host(CodePoints text) {
  size_t begin = 0;
  for (bool has_label = false;; has_label = true) {
    size_t end = begin;
    while (end < text.size() &&
           (is_host_character(text[end]) || text[end] == '_' || text[end] == '-')) {
      ++end;
    }
    if (end < text.size() && text[end] == '.') {
      const bool is_label = end > begin && end - begin <= 64 && is_host_character(text[begin]) &&
                            is_host_character(text[end - 1]);
      if (!is_label) return false;
      begin = end + 1;
      continue;
    }
    size_t top_level = begin;
    while (top_level < text.size() && has(text[top_level], kSpacyLower)) ++top_level;
    const size_t size = top_level - begin;
    return has_label && size >= 2 && size <= 63 && is_port_and_path(text.subspan(top_level));
  }
}

/// Whether `text` begins with a public IP address and what may follow one.
bool is_address(CodePoints text) {
  int octets[4] = {};
  for (int i = 0; i < 4; ++i) {
    size_t digits = 0;
    int value = 0;
    for (; digits < text.size() && digits < 4 && is_digit(text[digits]); ++digits) {
      value = value * 10 + static_cast<int>(text[digits] - '0');
    }
    const bool is_outer = i == 0 || i == 3;
    const bool leads_with_zero = digits > 0 && text.front() == '0';
    if (digits < 1 || digits > 3 || value > (i == 0 ? 223 : i == 3 ? 254 : 255)) return false;
    if (leads_with_zero && (is_outer || digits == 3)) return false;
    octets[i] = value;
    text = text.subspan(digits);
    if (i == 3) break;
    if (text.empty() || text.front() != '.') return false;
    text = text.subspan(1);
  }
  const bool is_private = octets[0] == 10 || octets[0] == 127 ||
                          (octets[0] == 169 && octets[1] == 254) ||
                          (octets[0] == 192 && octets[1] == 168) ||
                          (octets[0] == 172 && octets[1] >= 16 && octets[1] <= 31);
  return !is_private && is_port_and_path(text);
}

}  // namespace

bool is_url(CodePoints text) {
  if (std::find(text.begin(), text.end(), U'.') == text.end()) return false;
  const auto is_host = [](CodePoints rest) { return is_address(rest) || is_named_host(rest); };
  if (is_host(text)) return true;
  size_t scheme = 0;
  while (scheme < text.size() &&
         (has(text[scheme], kLetter | kDigit) || text[scheme] == '_' || text[scheme] == '+' ||
          text[scheme] == '-' || text[scheme] == '.')) {
    ++scheme;
  }
  constexpr std::u32string_view kSeparator = U"://";
  if (scheme >= 2 && begins_with(text.subspan(scheme), kSeparator) &&
      is_host(text.subspan(scheme + kSeparator.size()))) {
    return true;
  }
  for (size_t at = 1; at < text.size(); ++at) {
    if (text[at] == '@' && is_host(text.subspan(at + 1))) return true;
  }
  return false;
}

}  // namespace meg::cleaning
