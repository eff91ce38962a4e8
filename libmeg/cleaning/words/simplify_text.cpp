#include "libmeg/cleaning/words/simplify_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "libmeg/cleaning/words/english_words.h"
#include "libmeg/cleaning/words/internal/english_tables.h"
#include "libmeg/preprocess/sentences/python_lower.h"
#include "libmeg/text/ascii.h"
#include "libmeg/text/python_text.h"
#include "libmeg/text/utf8.h"

namespace meg::cleaning {
namespace {

/// Lower case, `0` for a run of digits, a space for what is no part of a word.
constexpr std::array<char, 128> kAscii = [] {
  std::array<char, 128> map{};
  for (size_t c = 0; c < 128; ++c) {
    const auto byte = static_cast<char>(c);
    const bool is_word = text::is_ascii_letter(byte) || text::is_ascii_digit(byte);
    map[c] = is_word ? text::ascii_lower(byte) : ' ';
  }
  return map;
}();

void simplify_ascii(std::string_view text, std::string& out) {
  out.resize(text.size());  // What is appended byte by byte is checked byte by byte.
  char* const begin = out.data();
  char* end = begin;
  bool after_space = true;  // The front's is dropped.
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = kAscii[static_cast<unsigned char>(text[at])];
    if (text::is_ascii_digit(c)) {
      const auto skip_digits = [&] {
        while (at < text.size() && text::is_ascii_digit(text[at])) ++at;
      };
      skip_digits();
      const bool has_fraction = at + 1 < text.size() && (text[at] == '.' || text[at] == ',') &&
                                text::is_ascii_digit(text[at + 1]);
      if (has_fraction) ++at, skip_digits();
      --at;
      *end++ = '0';
      after_space = false;
    } else {
      // Without a branch, which would be wrong at every other word.
      const bool is_space = c == ' ';
      *end = c;
      end += is_space && after_space ? 0 : 1;
      after_space = is_space;
    }
  }
  out.resize(static_cast<size_t>(end - begin));
}

bool is_separator(char32_t c) {
  return c == '.' || c == ',' || c == 0x60c || c == 0x66b || (c >= 0x2396 && c <= 0x2398);
}

/// Characters of a text, decomposed: marks are dropped or brought into their order.
class Decomposer {
 public:
  explicit Decomposer(std::string& out) : out_(out) {}

  void add_ascii(char c) {
    if (!marks_.empty()) finish();
    out_ += c;
  }

  void add(char32_t c) {
    std::array<utf8proc_int32_t, 32> parts{};
    int boundary = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(),
                                               parts.size(), UTF8PROC_DECOMPOSE, &boundary);
    if (count <= 0 || count > std::ssize(parts))
      return add_decomposed(static_cast<utf8proc_int32_t>(c));
    for (utf8proc_ssize_t i = 0; i < count; ++i) add_decomposed(parts[static_cast<size_t>(i)]);
  }

  void finish() {
    std::stable_sort(marks_.begin(), marks_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [order, mark] : marks_) append(mark);
    marks_.clear();
  }

 private:
  void add_decomposed(utf8proc_int32_t c) {
    const int order = c < 0x300 ? 0 : utf8proc_get_property(c)->combining_class;
    if (order > 0) return marks_.emplace_back(order, static_cast<char32_t>(c)), void();
    if (!marks_.empty()) finish();
    append(static_cast<char32_t>(c));
  }

  void append(char32_t c) {
    if (c < 0x80) {
      out_ += static_cast<char>(c);
    } else if ((character_flags(c) & kNonspacingMark) == 0) {
      text::append_code_point(c, out_);
    }
  }

  std::string& out_;
  std::vector<std::pair<int, char32_t>> marks_;  // by their class
};

void simplify_unicode(std::string_view text, std::string& out) {
  const std::string lowered = preprocess::lower(text);
  std::string_view rest = lowered;
  Decomposer decomposer(out);
  bool has_space = true;  // The front's is dropped.
  const auto add = [&](char32_t c, bool is_space) {
    if (is_space) {
      if (!has_space) decomposer.add_ascii(' ');
    } else if (c < 0x80) {
      decomposer.add_ascii(static_cast<char>(c));
    } else {
      decomposer.add(c);
    }
    has_space = is_space;
  };
  const auto skip_digits = [&rest] {
    while (!rest.empty()) {
      const text::DecodedCodePoint next = text::decode_code_point(rest);
      if ((character_flags(next.code_point) & kDigit) == 0) return;
      rest.remove_prefix(next.size);
    }
  };
  while (!rest.empty()) {
    // Most characters of most texts.
    if (const auto byte = static_cast<unsigned char>(rest.front()); byte < kAscii.size()) {
      const char c = kAscii[byte];
      if (!text::is_ascii_digit(c)) {
        rest.remove_prefix(1);
        add(static_cast<char32_t>(c), c == ' ');
        continue;
      }
    }
    const text::DecodedCodePoint next = text::decode_code_point(rest);
    const uint32_t flags = character_flags(next.code_point);
    if ((flags & kDigit) == 0) {
      rest.remove_prefix(next.size);
      add(next.code_point, (flags & (kPunctuation | kSpace)) != 0);
      continue;
    }
    skip_digits();
    add(U'0', false);
    if (rest.empty()) break;
    const text::DecodedCodePoint separator = text::decode_code_point(rest);
    const std::string_view after = rest.substr(separator.size);
    const bool has_fraction =
        is_separator(separator.code_point) && !after.empty() &&
        (character_flags(text::decode_code_point(after).code_point) & kDigit) != 0;
    if (!has_fraction) continue;
    rest = after;
    skip_digits();
  }
  decomposer.finish();
}

}  // namespace

void simplify_text(std::string_view text, std::string& out) {
  out.clear();
  text::is_ascii(text) ? simplify_ascii(text, out) : simplify_unicode(text, out);
  const std::string_view stripped = text::python_strip(out);
  const auto begin = static_cast<size_t>(stripped.data() - out.data());
  if (stripped.empty()) return out.clear();
  out.resize(begin + stripped.size());
  out.erase(0, begin);
}

}  // namespace meg::cleaning
