#pragma once

#include <cstddef>
#include <string_view>

namespace meg::text {

/// U+FEFF in UTF-8, which some editors put before a text.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// Returned if a text contains no line end.
inline constexpr size_t kNoLineEnd = std::string_view::npos;

/// Bytes up to and with the first line end (LF, CRLF, CR) of `text`. A CR as its last byte counts
/// only where `is_end`, because an LF might follow.
size_t first_line_end(std::string_view text, bool is_end);

/// Bytes up to and with the last line end of `text`, by the same rule.
size_t last_line_end(std::string_view text, bool is_end);

/// Removes the first line from `lines` and returns it without its end (LF, CRLF or CR). False if
/// none is left.
bool take_line(std::string_view& lines, std::string_view& line);

/// Whether a line holds nothing, or only spaces and tabs.
bool is_blank_line(std::string_view line);

}  // namespace meg::text
