#pragma once

#include <string>
#include <string_view>

#include "libmeg/base/result.h"

namespace meg::cleaning {

enum class Packing { kNone, kGzip, kZstd };

/// What the ending of a file's name asks for.
Packing packing_of(std::string_view path);

/// `text` as one gzip member or zstd frame, which may be joined with others; unchanged for kNone.
Result<std::string> packed(std::string text, Packing packing);

}  // namespace meg::cleaning
