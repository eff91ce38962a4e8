#pragma once

#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/chat/internal/value.h"

namespace meg::chat {

/// a + b and the like of two numbers, as Python computes it: + - * / // % **. Errors: division by
/// zero; an integer beyond 64 bits.
Result<Value> arithmetic(std::string_view name, const Value& a, const Value& b);

}  // namespace meg::chat
