#pragma once

#include <string>
#include <string_view>

#include "libmeg/base/result.h"

namespace meg::tokenizer {

/// An Oniguruma pattern in which each bracket expression that holds others, or an intersection
/// (`[\p{L}&&[^\p{Han}]]`), is written as ranges of code points, which every dialect has. Others
/// stay as they are. kUnsupported for an element that libmeg has no set of. name: for messages.
Result<std::string> flatten_nested_brackets(std::string_view pattern, const std::string& name);

}  // namespace meg::tokenizer
