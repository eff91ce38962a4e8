#pragma once

#include <string>
#include <string_view>

#include "libmeg/core/result.h"

namespace meg {

/// The arguments that pickles hold as text or as encoded text. Errors are kCorruption.

/// bytes as they are where they are UTF-8 in which surrogates may stand (Python's
/// errors="surrogatepass").
Result<std::string> decode_utf8(std::string_view bytes);

/// The line of UNICODE: Latin-1 with \uXXXX and \UXXXXXXXX (Python's raw-unicode-escape).
Result<std::string> decode_raw_unicode_escape(std::string_view line);

/// The line of STRING: a literal in quotes with the escapes of Python's bytes.
Result<std::string> decode_quoted_string(std::string_view line);

/// The line of FLOAT: a number, inf or nan.
Result<double> decode_float(std::string_view line);

}  // namespace meg
