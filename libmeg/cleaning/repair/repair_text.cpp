#include "libmeg/cleaning/repair/repair_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <new>
#include <unordered_map>
#include <utility>

#include "libmeg/cleaning/repair/mojibake.h"
#include "libmeg/cleaning/words/english_words.h"
#include "libmeg/cleaning/words/internal/english_tables.h"
#include "libmeg/text/utf8.h"

namespace meg::cleaning {
namespace {

constexpr std::string_view kRules[] = {"unescape_html",        "fix_encoding",
                                       "fix_c1_controls",      "fix_latin_ligatures",
                                       "fix_character_width",  "uncurl_quotes",
                                       "fix_line_breaks",      "remove_terminal_escapes",
                                       "remove_control_chars", "nfc"};

// A segment of ftfy: a line, or this many characters of a longer one.
constexpr size_t kLongestSegment = 1'000'000;

std::u32string_view letters_of_ligature(char32_t c) {
  static const std::unordered_map<char32_t, std::u32string_view> letters = {
      {0x132, U"IJ"},       {0x133, U"ij"},  {0x149, U"\u02bcn"}, {0x1f1, U"DZ"},
      {0x1f2, U"Dz"},       {0x1f3, U"dz"},  {0x1c4, U"D\u017d"}, {0x1c5, U"D\u017e"},
      {0x1c6, U"d\u017e"},  {0x1c7, U"LJ"},  {0x1c8, U"Lj"},      {0x1c9, U"lj"},
      {0x1ca, U"NJ"},       {0x1cb, U"Nj"},  {0x1cc, U"nj"},      {0xfb00, U"ff"},
      {0xfb01, U"fi"},      {0xfb02, U"fl"}, {0xfb03, U"ffi"},    {0xfb04, U"ffl"},
      {0xfb05, U"\u017ft"}, {0xfb06, U"st"}};
  const auto found = letters.find(c);
  return found == letters.end() ? std::u32string_view() : found->second;
}

constexpr bool is_width_form(char32_t c) { return c == 0x3000 || (c >= 0xff01 && c <= 0xffef); }

/// A halfwidth or fullwidth form as its usual characters.
void append_usual_width(char32_t c, std::u32string& out) {
  if (c == 0x3000) return out.push_back(U' ');
  std::array<utf8proc_int32_t, 32> parts{};
  int boundary = 0;
  constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_COMPAT | UTF8PROC_DECOMPOSE);
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(),
                                             parts.size(), kOptions, &boundary);
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    out.push_back(static_cast<char32_t>(parts[static_cast<size_t>(i)]));
  }
}

constexpr bool is_removed_control(char32_t c) {
  return c < 0x09 || c == 0x0b || (c >= 0x0e && c < 0x20) || c == 0x7f ||
         (c >= 0x206a && c < 0x2070) || c == 0xfeff || (c >= 0xfff9 && c < 0xfffd);
}

constexpr bool is_line_break(char32_t c) {
  return c == '\r' || c == 0x2028 || c == 0x2029 || c == 0x85;
}

/// Characters of an escape of a terminal, `ESC [ 1;2 m`, that begins at `at`; 0: none does.
size_t escape_size(std::u32string_view text, size_t at) {
  if (text.substr(at, 2) != U"\x1b[") return 0;
  size_t end = at + 2;
  while (end < text.size() && (text[end] == ';' || (character_flags(text[end]) & kDigit) != 0))
    ++end;
  if (end == text.size()) return 0;
  const bool is_letter =
      (text[end] >= 'a' && text[end] <= 'z') || (text[end] >= 'A' && text[end] <= 'Z');
  return is_letter ? end + 1 - at : 0;
}

}  // namespace

std::span<const std::string_view> repair_rules() { return kRules; }

TextRepair::TextRepair(const std::vector<std::string>& rules) {
  const auto has = [&rules](std::string_view rule) {
    return std::find(rules.begin(), rules.end(), rule) != rules.end();
  };
  unescape_html_ = has(kRules[0]);
  encoding_ = has(kRules[1]);
  c1_controls_ = has(kRules[2]);
  ligatures_ = has(kRules[3]);
  width_ = has(kRules[4]);
  quotes_ = has(kRules[5]);
  line_breaks_ = has(kRules[6]);
  escapes_ = has(kRules[7]);
  control_chars_ = has(kRules[8]);
  nfc_ = has(kRules[9]);
}

/// No rule changes printable ASCII but entities.
bool TextRepair::may_change(std::string_view text) const {
  return std::any_of(text.begin(), text.end(), [this](char c) {
    return (c < ' ' && c != '\n' && c != '\t') || c == '\x7f' ||  // Bytes of UTF-8 are negative.
           (c == '&' && unescape_html_);
  });
}

bool TextRepair::repair(std::string_view text, std::string& out) {
  if (!may_change(text)) return false;
  out.clear();
  std::string_view rest = text;
  bool has_html = false;  // Then entities are meant, from this line on.
  while (!rest.empty()) {
    std::string_view segment = rest.substr(0, rest.find('\n'));
    if (segment.size() < rest.size()) segment = rest.substr(0, segment.size() + 1);
    if (segment.size() > kLongestSegment) {
      size_t end = 0;
      for (size_t count = 0; count < kLongestSegment && end < segment.size(); ++count) {
        end += text::character_size(segment[end]);
      }
      segment = segment.substr(0, end);
    }
    rest.remove_prefix(segment.size());
    has_html = has_html || segment.find('<') != segment.npos;
    may_change(segment) ? repair_segment(segment, unescape_html_ && !has_html, out)
                        : static_cast<void>(out += segment);
  }
  return out != text;
}

void TextRepair::repair_segment(std::string_view segment, bool unescapes, std::string& out) {
  decode_utf8(segment, text_);
  std::u32string before;
  const auto replace_each = [this](auto&& append) {
    next_.clear();
    for (const char32_t c : text_) append(c);
    std::swap(text_, next_);
  };
  do {
    before = text_;
    if (unescapes) unescape_html(text_);
    if (encoding_) fix_encoding(text_);
    if (c1_controls_) {
      for (char32_t& c : text_) {
        if (c >= 0x80 && c < 0xa0 && windows_1252_of(c) != 0) c = windows_1252_of(c);
      }
    }
    if (ligatures_) {
      replace_each([this](char32_t c) {
        const std::u32string_view letters =
            c < 0x132 ? std::u32string_view() : letters_of_ligature(c);
        letters.empty() ? next_.push_back(c) : static_cast<void>(next_ += letters);
      });
    }
    if (width_) {
      replace_each([this](char32_t c) {
        is_width_form(c) ? append_usual_width(c, next_) : next_.push_back(c);
      });
    }
    if (quotes_) {
      for (char32_t& c : text_) {
        if (c == 0x2bc || (c >= 0x2018 && c <= 0x201b)) c = '\'';
        if (c >= 0x201c && c <= 0x201f) c = '"';
      }
    }
    if (line_breaks_) {
      next_.clear();
      for (size_t i = 0; i < text_.size(); ++i) {
        if (text_[i] == '\r' && i + 1 < text_.size() && text_[i + 1] == '\n') continue;
        next_.push_back(is_line_break(text_[i]) ? U'\n' : text_[i]);
      }
      std::swap(text_, next_);
    }
    if (escapes_) {
      next_.clear();
      for (size_t i = 0; i < text_.size();) {
        const size_t size = escape_size(text_, i);
        if (size == 0) next_.push_back(text_[i]);
        i += std::max<size_t>(size, 1);
      }
      std::swap(text_, next_);
    }
    if (control_chars_) std::erase_if(text_, is_removed_control);
    if (nfc_) normalize();
  } while (text_ != before);
  encode_utf8(text_, out);
}

void TextRepair::normalize() {
  if (std::all_of(text_.begin(), text_.end(), [](char32_t c) { return c < 0x300; })) return;
  std::string utf8;
  encode_utf8(text_, utf8);
  utf8proc_uint8_t* composed = nullptr;
  constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(utf8.data()),
                                 static_cast<utf8proc_ssize_t>(utf8.size()), &composed, kOptions);
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(composed, std::free);
  if (size < 0) throw std::bad_alloc();  // The only error that valid UTF-8 can have.
  decode_utf8({reinterpret_cast<const char*>(composed), static_cast<size_t>(size)}, text_);
}

}  // namespace meg::cleaning
