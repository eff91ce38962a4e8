#include "libmeg/checkpoint/container/pickle/internal/pickle_integer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "libmeg/text/printable.h"

namespace meg::checkpoint {

namespace {

/// Python's own limit for reading integers as text (sys.int_info.default_max_str_digits): turning
/// digits into bits takes quadratic time, which a hostile pickle would use.
constexpr size_t kMaxDigits = 4300;

bool is_negative(std::string_view bytes) {
  return !bytes.empty() && (static_cast<unsigned char>(bytes.back()) & 0x80u) != 0;
}

/// Two's complement of the same length.
void negate(std::string& bytes) {
  unsigned carry = 1;
  for (char& byte : bytes) {
    const unsigned sum = (~static_cast<unsigned>(byte) & 0xFFu) + carry;
    byte = static_cast<char>(sum & 0xFFu);
    carry = sum >> 8;
  }
}

}  // namespace

std::string_view shortest_twos_complement(std::string_view bytes) {
  const bool negative = is_negative(bytes);
  const char filler = negative ? '\xff' : '\0';
  while (!bytes.empty() && bytes.back() == filler) {
    const std::string_view shorter = bytes.substr(0, bytes.size() - 1);
    if (is_negative(shorter) != negative) break;
    bytes = shorter;
  }
  return bytes;
}

int64_t small_twos_complement(std::string_view bytes) {
  uint64_t value = is_negative(bytes) ? ~uint64_t{0} : 0;
  for (size_t at = bytes.size(); at-- > 0;) {
    value = (value << 8) | static_cast<unsigned char>(bytes[at]);
  }
  return static_cast<int64_t>(value);
}

std::string twos_complement(int64_t value) {
  std::string bytes;
  for (size_t at = 0; at < sizeof(value); ++at) {
    bytes.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * at)));
  }
  return std::string(shortest_twos_complement(bytes));
}

Result<std::string> twos_complement_of_decimal(std::string_view decimal) {
  std::string_view digits = decimal;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) {
    return make_error(StatusCode::kCorruption, "integer: expected decimal digits, found {}",
                      text::printable(decimal));
  }
  if (digits.size() > kMaxDigits) {
    return make_error(StatusCode::kResourceExhausted,
                      "integer: expected at most {} digits, found {}", kMaxDigits, digits.size());
  }
  std::string bytes;
  for (const char digit : digits) {
    unsigned carry = static_cast<unsigned>(digit - '0');
    for (char& byte : bytes) {
      carry += static_cast<unsigned char>(byte) * 10u;
      byte = static_cast<char>(carry & 0xFFu);
      carry >>= 8;
    }
    if (carry != 0) bytes.push_back(static_cast<char>(carry));
  }
  // A sign byte, as the digits' highest bit is part of the number.
  bytes.push_back('\0');
  if (negative) negate(bytes);
  return std::string(shortest_twos_complement(bytes));
}

std::string decimal_of_twos_complement(std::string_view bytes) {
  std::string rest(bytes);
  const bool negative = is_negative(rest);
  if (negative) {
    // One byte more, so that the negative of the lowest value of this length fits.
    rest.push_back('\xff');
    negate(rest);
  }
  // Nine digits a division; the remainder shifted by a byte still fits 64 bits.
  constexpr uint64_t kGroup = 1'000'000'000;
  std::vector<uint64_t> groups;  // of nine digits, the last first
  while (!rest.empty()) {
    uint64_t remainder = 0;
    for (size_t at = rest.size(); at-- > 0;) {
      remainder = (remainder << 8) | static_cast<unsigned char>(rest[at]);
      rest[at] = static_cast<char>(remainder / kGroup);
      remainder %= kGroup;
    }
    groups.push_back(remainder);
    while (!rest.empty() && rest.back() == '\0') rest.pop_back();
  }
  if (groups.empty()) return "0";
  std::string decimal = fmt::format("{}{}", negative ? "-" : "", groups.back());
  for (size_t at = groups.size() - 1; at-- > 0;) decimal += fmt::format("{:09}", groups[at]);
  return decimal;
}

}  // namespace meg::checkpoint
