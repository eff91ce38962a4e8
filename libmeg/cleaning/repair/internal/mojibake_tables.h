#pragma once

#include <string_view>

namespace meg::cleaning {

/// mojibake.txt, line by line a kind and what belongs to it, with tabs between them. Characters are
/// numbers in base 16.
///   sign: an RE2 that occurs in a text that was read in a wrong encoding
///   encoding: a name, the characters of the bytes 80 to FF
///   clue: a name, characters that bytes of UTF-8 become in such encodings
///   reference: a first and a last number, what these mean in HTML in place of that character
///   entity: a name, its characters
std::string_view mojibake_text();

}  // namespace meg::cleaning
