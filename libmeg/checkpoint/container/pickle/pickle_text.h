#pragma once

#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/text/utf8.h"

namespace meg::checkpoint {

/// The arguments that pickles hold as text or as encoded text. Errors are kCorruption.

/// Like decode_code_point, but surrogates are code points too (Python's errors="surrogatepass").
text::DecodedCodePoint decode_python_code_point(std::string_view text);

/// Returns `bytes` unchanged if they are UTF-8, which may include surrogates.
Result<std::string> decode_utf8(std::string_view bytes);

/// The line of UNICODE: Latin-1 with \uXXXX and \UXXXXXXXX (Python's raw-unicode-escape).
Result<std::string> decode_raw_unicode_escape(std::string_view line);

/// The line of STRING: a literal in quotes with the escapes of Python's bytes.
Result<std::string> decode_quoted_string(std::string_view line);

/// The line of FLOAT: a number, inf or nan.
Result<double> decode_float(std::string_view line);

}  // namespace meg::checkpoint
