#include "libmeg/cleaning/repair/mojibake.h"

#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libmeg/cleaning/repair/internal/mojibake_tables.h"
#include "libmeg/text/line_ends.h"
#include "libmeg/text/utf8.h"

namespace meg::cleaning {
namespace {

constexpr char32_t kReplacement = 0xfffd;
constexpr char kLost = '\x1a';  // stands for a byte that became U+FFFD

/// A one-byte encoding as which UTF-8 may have been read; bytes below 0x80 are ASCII.
struct Encoding {
  std::string name;
  std::array<char32_t, 128> characters{};
  std::unordered_map<char32_t, char> bytes;

  /// Of the encodings in which no byte is undefined because one was defined for it.
  bool is_sloppy() const { return name.starts_with("sloppy"); }
};

/// The classes of characters that bytes of UTF-8 become.
enum Clue : uint8_t {
  kFirstOf2 = 1,
  kFirstOf3 = 2,
  kFirstOf4 = 4,
  kContinuation = 8,  // a space is one too
  kStrictContinuation = 16,
};

struct Reference {
  char32_t first = 0, last = 0;
  std::u32string text;
};

struct MojibakeTables {
  std::vector<Encoding> encodings;  // in the order in which they are tried
  std::unordered_map<char32_t, uint8_t> clues;
  std::vector<Reference> references;
  std::unordered_map<std::string, std::u32string> entities;
  std::unique_ptr<re2::RE2> signs;

  uint8_t clue(char32_t c) const {
    const auto found = clues.find(c);
    return found == clues.end() ? 0 : found->second;
  }
};

/// What stands before the next `mark`, which is taken away with it.
std::string_view take(std::string_view& text, char mark) {
  const std::string_view taken = text.substr(0, text.find(mark));
  text.remove_prefix(std::min(taken.size() + 1, text.size()));
  return taken;
}

char32_t code_of(std::string_view digits) {
  uint32_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  return number;
}

std::u32string characters_of(std::string_view numbers) {
  std::u32string characters;
  while (!numbers.empty()) characters += code_of(take(numbers, ' '));
  return characters;
}

uint8_t clue_of(std::string_view name) {
  if (name == "utf8_first_of_2") return kFirstOf2;
  if (name == "utf8_first_of_3") return kFirstOf3;
  if (name == "utf8_first_of_4") return kFirstOf4;
  return name == "utf8_continuation" ? kContinuation : kStrictContinuation;
}

MojibakeTables read_mojibake_tables() {
  MojibakeTables tables;
  std::string signs;
  std::string_view text = mojibake_text(), line;
  while (text::take_line(text, line)) {
    const std::string_view kind = take(line, '\t');
    if (kind == "sign") {
      signs.append(signs.empty() ? "" : "|").append(line);
    } else if (kind == "encoding") {
      Encoding& encoding = tables.encodings.emplace_back();
      encoding.name = take(line, '\t');
      const std::u32string characters = characters_of(line);
      for (size_t i = 0; i < std::min<size_t>(characters.size(), 128); ++i) {
        encoding.characters[i] = characters[i];
        encoding.bytes.emplace(characters[i], static_cast<char>(0x80 + i));
      }
    } else if (kind == "clue") {
      const uint8_t clue = clue_of(take(line, '\t'));
      for (const char32_t c : characters_of(line)) tables.clues[c] |= clue;
    } else if (kind == "reference") {
      const char32_t first = code_of(take(line, '\t'));
      const char32_t last = code_of(take(line, '\t'));
      tables.references.push_back({first, last, characters_of(line)});
    } else if (kind == "entity") {
      const std::string_view name = take(line, '\t');
      tables.entities.emplace(name, characters_of(line));
    }
  }
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(int64_t{64} << 20);
  tables.signs = std::make_unique<re2::RE2>(signs, options);
  return tables;
}

const MojibakeTables& mojibake_tables() {
  static const MojibakeTables read = read_mojibake_tables();
  return read;
}

/// Whether a text looks as if it was read in a wrong encoding.
bool is_bad(std::u32string_view text) {
  std::string utf8;
  encode_utf8(text, utf8);
  return re2::RE2::PartialMatch(utf8, *mojibake_tables().signs);
}

/// False where the text has a character that the encoding does not have.
bool encode(std::u32string_view text, const Encoding& encoding, std::string& out) {
  out.clear();
  for (const char32_t c : text) {
    if (c < 0x80) {
      if (c == kLost && encoding.is_sloppy()) return false;
      out += static_cast<char>(c);
    } else if (c == kReplacement && encoding.is_sloppy()) {
      out += kLost;
    } else {
      const auto found = encoding.bytes.find(c);
      if (found == encoding.bytes.end()) return false;
      out += found->second;
    }
  }
  return true;
}

/// The bytes from `at` on; 0 behind the end, which is part of no sequence.
class BytesAt {
 public:
  BytesAt(std::string_view bytes, size_t at) : rest_(bytes.substr(at)) {}

  uint8_t operator[](size_t i) const {
    return i < rest_.size() ? static_cast<uint8_t>(rest_[i]) : 0;
  }

  bool is_in(size_t i, uint8_t first, uint8_t last) const {
    return (*this)[i] >= first && (*this)[i] <= last;
  }

  bool is_continuation(size_t i) const { return is_in(i, 0x80, 0xbf); }

 private:
  std::string_view rest_;
};

/// The size of a sequence at `at` that would be UTF-8 if one space were the byte A0; 0: there is
/// none.
size_t altered_size(std::string_view bytes, size_t at) {
  const BytesAt all(bytes, at);
  const uint8_t lead = all[0];
  constexpr std::string_view kLeadsOf2 = "\xc2\xc3\xc5\xce\xd0\xd9";
  if (kLeadsOf2.find(static_cast<char>(lead)) != kLeadsOf2.npos && all[1] == ' ') return 2;
  // Neither another A0 nor 85, which stands for an ellipsis.
  const auto is_clear = [&all](size_t i) {
    return all.is_continuation(i) && all[i] != 0x85 && all[i] != 0xa0;
  };
  if ((lead == 0xe2 || lead == 0xe3) && all[1] == ' ' && is_clear(2)) return 3;
  if (lead >= 0xe0 && lead <= 0xe3 && is_clear(1) && all[2] == ' ') return 3;
  if (lead != 0xf0) return 0;
  int spaces = 0;
  for (size_t i = 1; i < 4; ++i) {
    if (all[i] == ' ') {
      ++spaces;
    } else if (!all.is_continuation(i)) {
      return 0;
    }
  }
  return spaces == 1 ? 4 : 0;
}

/// Puts bytes A0 back that have become spaces.
void restore_byte_a0(std::string& bytes) {
  bool has_any = false;
  for (size_t at = 0; at < bytes.size() && !has_any; ++at) {
    has_any = altered_size(bytes, at) > 0;
  }
  if (!has_any) return;
  // A word of its own, `a` with a grave accent, has lost the space behind it.
  std::string words;
  for (size_t at = 0; at < bytes.size(); ++at) {
    words += bytes[at];
    if (bytes[at] != '\xc3' || at + 1 == bytes.size() || bytes[at + 1] != ' ') continue;
    const std::string_view rest = std::string_view(bytes).substr(at + 2);
    constexpr std::string_view kNoWords[] = {" ", "quele", "quela", "quilo", "s "};
    const bool is_word =
        std::none_of(std::begin(kNoWords), std::end(kNoWords),
                     [rest](std::string_view follows) { return rest.starts_with(follows); });
    if (is_word) words += '\xa0';
  }
  for (size_t at = 0; at < words.size();) {
    const size_t size = altered_size(words, at);
    std::replace(words.begin() + static_cast<std::ptrdiff_t>(at),
                 words.begin() + static_cast<std::ptrdiff_t>(at + size), ' ', '\xa0');
    at += std::max<size_t>(size, 1);
  }
  bytes = std::move(words);
}

/// The size of a sequence of UTF-8 at `at` of which bytes are lost; 0: there is none.
size_t lossy_size(std::string_view bytes, size_t at) {
  const BytesAt all(bytes, at);
  const auto is_lost = [&all](size_t i) { return all[i] == kLost || all[i] == '?'; };
  const auto may_follow = [&](size_t i) { return is_lost(i) || all.is_continuation(i); };
  if (all.is_in(0, 0xc2, 0xdf) && all[1] == kLost) return 2;
  if (all.is_in(0, 0xc2, 0xc3) && all[1] == '?') return 2;
  // A character outside the BMP as two surrogates.
  if (all[0] == 0xed && all.is_in(1, 0xa0, 0xaf) && all[3] == 0xed && all.is_in(4, 0xb0, 0xbf) &&
      may_follow(2) && may_follow(5) && (is_lost(2) || is_lost(5))) {
    return 6;
  }
  const size_t size = all.is_in(0, 0xe0, 0xef) ? 3 : all.is_in(0, 0xf0, 0xf4) ? 4 : 0;
  int lost = 0, question_marks = 0;
  bool is_whole = size > 0;
  for (size_t i = 1; i < size && is_whole; ++i) {
    is_whole = may_follow(i);
    lost += is_lost(i) ? 1 : 0;
    question_marks += all[i] == '?' ? 1 : 0;
  }
  if (is_whole && lost > 0 && question_marks < 2) return size;
  return all[0] == kLost ? 1 : 0;
}

void replace_lossy_sequences(std::string& bytes) {
  std::string out;
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = lossy_size(bytes, at);
    if (size > 0) {
      out += "\xef\xbf\xbd";
    } else {
      out += bytes[at];
    }
    at += std::max<size_t>(size, 1);
  }
  bytes = std::move(out);
}

/// Decodes UTF-8, also with characters as two surrogates (CESU-8) and with U+0000 as C0 80 (Java);
/// false where it is none.
bool decode_variants(std::string_view bytes, std::u32string& out) {
  out.clear();
  for (size_t at = 0; at < bytes.size();) {
    const BytesAt all(bytes, at);
    if (all[0] == 0xc0 && all[1] == 0x80) {
      out += U'\0';
      at += 2;
      continue;
    }
    if (all[0] == 0xed && all.is_in(1, 0xa0, 0xaf) && all.is_continuation(2) && all[3] == 0xed &&
        all.is_in(4, 0xb0, 0xbf) && all.is_continuation(5)) {
      const char32_t high = ((all[1] & 0x0fU) << 6) | (all[2] & 0x3fU);
      const char32_t low = ((all[4] & 0x0fU) << 6) | (all[5] & 0x3fU);
      out += 0x10000 + (high << 10) + low;
      at += 6;
      continue;
    }
    const text::DecodedCodePoint next = text::decode_code_point(bytes.substr(at));
    if (next.code_point == text::kInvalidCodePoint) return false;
    out += next.code_point;
    at += next.size;
  }
  return true;
}

/// The text as UTF-8 that was read in one of the encodings.
std::optional<std::u32string> decoded_again(std::u32string_view text) {
  std::string bytes;
  std::u32string decoded;
  for (const Encoding& encoding : mojibake_tables().encodings) {
    if (!encode(text, encoding, bytes)) continue;
    // In MacRoman it would be a dash before a space.
    if (encoding.name != "macroman") restore_byte_a0(bytes);
    if (encoding.is_sloppy()) replace_lossy_sequences(bytes);
    if (decode_variants(bytes, decoded)) return decoded;
  }
  return std::nullopt;
}

/// The characters from `at` on that look like UTF-8 read in another encoding, and as bytes that
/// belong together; 0: there are none.
size_t clued_size(std::u32string_view text, size_t at) {
  const MojibakeTables& all = mojibake_tables();
  if (at > 0 && (all.clue(text[at - 1]) & kStrictContinuation) != 0) return 0;
  size_t end = at;
  while (end < text.size()) {
    const uint8_t lead = all.clue(text[end]);
    size_t follow = 1;
    while (follow < 4 && end + follow < text.size() &&
           (all.clue(text[end + follow]) & kContinuation) != 0) {
      ++follow;
    }
    if ((lead & kFirstOf2) != 0 && follow >= 2) {
      end += 2;
    } else if ((lead & kFirstOf3) != 0 && follow >= 3) {
      end += 3;
    } else if ((lead & kFirstOf4) != 0 && follow >= 4) {
      end += 4;
    } else {
      break;
    }
  }
  return end - at;
}

/// Fixes parts of a text on their own.
std::u32string decoded_in_parts(std::u32string_view text) {
  std::u32string out;
  for (size_t at = 0; at < text.size();) {
    const size_t size = clued_size(text, at);
    std::u32string part(text.substr(at, std::max<size_t>(size, 1)));
    // What is no shorter would come back here.
    if (size > 0 && size < text.size() && is_bad(part)) fix_encoding(part);
    out += part;
    at += std::max<size_t>(size, 1);
  }
  return out;
}

bool is_c1_control(char32_t c) { return c >= 0x80 && c < 0xa0; }

/// One step; the same text where there is nothing to fix.
std::u32string fixed_once(const std::u32string& text) {
  const bool is_ascii = std::all_of(text.begin(), text.end(), [](char32_t c) { return c < 0x80; });
  if (is_ascii || !is_bad(text)) return text;
  if (std::optional<std::u32string> decoded = decoded_again(text)) return std::move(*decoded);
  std::u32string fixed = decoded_in_parts(text);
  if (fixed != text) return fixed;
  // Latin-1 that was Windows-1252.
  for (char32_t& c : fixed) {
    if (is_c1_control(c) && windows_1252_of(c) != 0) c = windows_1252_of(c);
  }
  return fixed;
}

bool is_ascii_alphanumeric(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// What a numeric reference means, of which this stands between `&#` and `;`.
std::optional<std::u32string> reference_text(std::string_view digits) {
  int base = 10;
  if (digits.starts_with('x') || digits.starts_with('X')) {
    digits.remove_prefix(1);
    base = 16;
  }
  uint64_t number = 0;  // up to 24 digits may be too many
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (digits.empty() || parsed.ptr != digits.data() + digits.size()) return std::nullopt;
  const bool is_character = parsed.ec == std::errc() && number < 0x110000;
  if (!is_character || (number >= 0xd800 && number < 0xe000)) {
    return std::u32string(1, kReplacement);
  }
  const auto code = static_cast<char32_t>(number);
  if (code == U';') return std::nullopt;
  for (const Reference& reference : mojibake_tables().references) {
    if (code >= reference.first && code <= reference.last) return reference.text;
  }
  return std::u32string(1, code);
}

/// What an entity means, of which this stands between `&` and `;`.
std::optional<std::u32string> entity_text(std::string_view name) {
  if (name.starts_with('#')) return reference_text(name.substr(1));
  const auto found = mojibake_tables().entities.find(std::string(name));
  if (found == mojibake_tables().entities.end()) return std::nullopt;
  return found->second;
}

}  // namespace

char32_t windows_1252_of(char32_t control) {
  // 0x80 and on.
  constexpr std::array<char32_t, 32> kCharacters = {
      0x20ac, 0,      0x201a, 0x192,  0x201e, 0x2026, 0x2020, 0x2021, 0x2c6,  0x2030, 0x160,
      0x2039, 0x152,  0,      0x17d,  0,      0,      0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
      0x2013, 0x2014, 0x2dc,  0x2122, 0x161,  0x203a, 0x153,  0,      0x17e,  0x178};
  return kCharacters[(control - 0x80) % kCharacters.size()];
}

void decode_utf8(std::string_view text, std::u32string& out) {
  out.clear();
  while (!text.empty()) {
    const text::DecodedCodePoint next = text::decode_code_point(text);
    out.push_back(next.code_point);
    text.remove_prefix(next.size);
  }
}

void encode_utf8(std::u32string_view text, std::string& out) {
  for (const char32_t c : text) text::append_code_point(c, out);
}

void fix_encoding(std::u32string& text) {
  while (true) {
    std::u32string fixed = fixed_once(text);
    if (fixed == text) return;
    text = std::move(fixed);
  }
}

void unescape_html(std::u32string& text) {
  constexpr size_t kLongestName = 24;
  if (text.find(U'&') == text.npos) return;
  std::u32string out;
  std::string name;
  for (size_t at = 0; at < text.size(); ++at) {
    out += text[at];
    if (text[at] != U'&') continue;
    name.clear();
    size_t end = at + 1;
    if (end < text.size() && text[end] == U'#') name += static_cast<char>(text[end++]);
    const size_t begin = end;
    while (end < text.size() && end - begin < kLongestName && is_ascii_alphanumeric(text[end])) {
      name += static_cast<char>(text[end++]);
    }
    if (end == begin || end == text.size() || text[end] != U';') continue;
    if (const std::optional<std::u32string> meant = entity_text(name)) {
      out.pop_back();
      out += *meant;
      at = end;
    }
  }
  text = std::move(out);
}

}  // namespace meg::cleaning
