#pragma once

#include <string>
#include <string_view>

namespace meg::cleaning {

/// Undoes that UTF-8 was read in another encoding, once or several times, where a text looks like
/// it, in the whole or in parts; there, control characters U+0080 to U+009F become what
/// Windows-1252 has. Mirrors ftfy 6.3.1's fix_encoding.
void fix_encoding(std::u32string& text);

/// Replaces HTML entities and character references that end in a semicolon. Mirrors ftfy 6.3.1's
/// unescape_html.
void unescape_html(std::u32string& text);

/// What Windows-1252 has in place of a control character U+0080 to U+009F; 0 where it has nothing.
char32_t windows_1252_of(char32_t control);

void decode_utf8(std::string_view text, std::u32string& out);

/// Appends.
void encode_utf8(std::u32string_view text, std::string& out);

}  // namespace meg::cleaning
