#pragma once

#include <string>
#include <string_view>

namespace meg::io {

/// 32 lower-case hexadecimal digits of the text's MD5: an identifier of a text, not a protection.
std::string md5_hex(std::string_view text);

}  // namespace meg::io
