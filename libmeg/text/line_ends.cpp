#include "libmeg/text/line_ends.h"

#include <string.h>

#include <algorithm>

// Python's universal newlines, by which Megatron reads its input: LF, CRLF and CR alone end a line.
// A CR at the end of a block is undecided, as an LF may be the next block's first byte, so it
// counts only where the text is known to end.

namespace meg::text {
namespace {

/// The first CR or LF of `text`. Searches blocks that grow, so that neither a file without LF nor
/// one without CR is searched to its end for every line.
size_t find_cr_or_lf(std::string_view text) {
  size_t begin = 0;
  for (size_t block = 512; begin < text.size(); begin += block, block *= 2) {
    const std::string_view part = text.substr(begin, block);
    const size_t lf = std::min(part.find('\n'), part.size());
    const size_t end = std::min(part.substr(0, lf).find('\r'), lf);
    if (end < part.size()) return begin + end;
  }
  return kNoLineEnd;
}

/// Bytes of `text` up to and with the last `c`; 0 where there is none.
size_t end_of_last(char c, std::string_view text) {
  const void* found = text.empty() ? nullptr : ::memrchr(text.data(), c, text.size());
  if (found == nullptr) return 0;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data()) + 1;
}

/// Bytes of the line end at `text[at]`, a CR or LF.
size_t line_end_size(std::string_view text, size_t at) {
  return text.substr(at, 2) == "\r\n" ? 2 : 1;
}

}  // namespace

size_t first_line_end(std::string_view text, bool is_end) {
  const size_t found = find_cr_or_lf(text);
  if (found == kNoLineEnd) return kNoLineEnd;
  const bool undecided = !is_end && text[found] == '\r' && found + 1 == text.size();
  return undecided ? kNoLineEnd : found + line_end_size(text, found);
}

size_t last_line_end(std::string_view text, bool is_end) {
  if (!is_end && text.ends_with('\r')) text.remove_suffix(1);
  const size_t after_lf = end_of_last('\n', text);
  const size_t end = after_lf + end_of_last('\r', text.substr(after_lf));
  return end == 0 ? kNoLineEnd : end;
}

bool take_line(std::string_view& lines, std::string_view& line) {
  if (lines.empty()) return false;
  const size_t end = std::min(find_cr_or_lf(lines), lines.size());
  line = lines.substr(0, end);
  lines.remove_prefix(end < lines.size() ? end + line_end_size(lines, end) : end);
  return true;
}

bool is_blank_line(std::string_view line) {
  return line.find_first_not_of(" \t") == std::string_view::npos;
}

}  // namespace meg::text
