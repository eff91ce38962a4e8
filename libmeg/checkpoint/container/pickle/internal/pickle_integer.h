#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"

namespace meg::checkpoint {

/// Python's integers as pickles hold them: two's complement, least byte first, any length; no
/// bytes at all mean 0.

/// Drops the bytes at the end that only repeat the sign; 0 becomes empty.
std::string_view shortest_twos_complement(std::string_view bytes);

/// bytes: at most 8 of them.
int64_t small_twos_complement(std::string_view bytes);

/// The shortest bytes that hold `value`, as CPython's pickler writes them (none for 0).
std::string twos_complement(int64_t value);

/// decimal: digits with a sign or none. kCorruption for anything else; kResourceExhausted past 4300
/// digits, which Python refuses as well.
Result<std::string> twos_complement_of_decimal(std::string_view decimal);

/// The decimal digits, for messages. The time it takes grows with the square of the size.
std::string decimal_of_twos_complement(std::string_view bytes);

}  // namespace meg::checkpoint
