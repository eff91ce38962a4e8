#include "libmeg/cleaning/internal/quality/quality_text.h"

#include <algorithm>

#include "libmeg/cleaning/words/english_words.h"
#include "libmeg/cleaning/words/internal/english_tables.h"
#include "libmeg/text/utf8.h"

namespace meg::cleaning {
namespace {

/// Bytes of the line end that `text` begins with, for str.splitlines(); 0 where it does not.
size_t line_end_size(std::string_view text) {
  const char first = text.front();
  if (first == '\r') return text.starts_with("\r\n") ? 2 : 1;
  if ((first >= '\n' && first <= '\f') || (first >= '\x1c' && first <= '\x1e')) return 1;
  if (text.starts_with("\xc2\x85")) return 2;
  return text.starts_with("\xe2\x80\xa8") || text.starts_with("\xe2\x80\xa9") ? 3 : 0;
}

/// Whether line_end_size() is to be asked about a byte.
constexpr bool may_end_line(char c) {
  return (c >= '\n' && c <= '\x1e') || c == '\xc2' || c == '\xe2';
}

constexpr uint64_t kLowBits = 0x0101010101010101, kHighBits = 0x8080808080808080;

/// Of 8 bytes: false only if none may end a line.
bool any_may_end_line(const char* at) {
  const uint64_t word = load_word(at);
  const uint64_t below = (word - kLowBits * 0x1f) & ~word;
  return ((word | below) & kHighBits) != 0;
}

}  // namespace

bool any_has(std::string_view text, uint32_t flags) {
  while (!text.empty()) {
    const text::DecodedCodePoint next = text::decode_code_point(text);
    if ((character_flags(next.code_point) & flags) != 0) return true;
    text.remove_prefix(next.size);
  }
  return false;
}

void split_lines(std::string_view text, std::vector<std::string_view>& lines) {
  lines.clear();
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    if (at + kLoadedBytes <= text.size() && !any_may_end_line(text.data() + at)) {
      at += kLoadedBytes;
      continue;
    }
    if (!may_end_line(text[at])) {
      ++at;
      continue;
    }
    const size_t size = line_end_size(text.substr(at));
    if (size > 0) {
      lines.push_back(text.substr(begin, at - begin));
      begin = at + size;
    }
    at += std::max<size_t>(size, 1);
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
}

void split_at_newlines(std::string_view text, size_t least, std::vector<std::string_view>& parts) {
  parts.clear();
  size_t begin = 0;
  for (size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at)) {
    const size_t end = std::min(text.find_first_not_of('\n', at), text.size());
    if (end - at >= least) {
      parts.push_back(text.substr(begin, at - begin));
      begin = end;
    }
    at = end;
  }
  parts.push_back(text.substr(begin));
}

Repeated count_repeated(const std::vector<std::string_view>& parts, DigestCounts& counts) {
  Repeated repeated;
  counts.restart(parts.size());
  for (const std::string_view part : parts) {
    if (counts.add(part, 0).count == 1) continue;
    ++repeated.count;
    repeated.characters += count_characters(part);
  }
  return repeated;
}

}  // namespace meg::cleaning
