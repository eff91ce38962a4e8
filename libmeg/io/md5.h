#pragma once

#include <string>
#include <string_view>

namespace meg::io {

/// 32 lower-case hexadecimal digits of the text's MD5: a name for a text, no protection.
std::string md5_hex(std::string_view text);

}  // namespace meg::io
