#include "libmeg/io/md5.h"

#include <md5.h>

#include <array>

namespace meg::io {

std::string md5_hex(std::string_view text) {
  std::array<char, MD5_DIGEST_STRING_LENGTH> digits = {};
  MD5Data(reinterpret_cast<const uint8_t*>(text.data()), text.size(), digits.data());
  return digits.data();
}

}  // namespace meg::io
