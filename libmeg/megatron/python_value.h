#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "libmeg/megatron/field_value.h"

namespace meg::megatron {

/// What Python reads `literal` as: None, True, 12, 1e-5, 'text', ['a', 'b'], (1, 2). Items of lists
/// become words ("1"). Nothing if it is not such a literal.
std::optional<FieldValue> parse_python_value(std::string_view literal);

}  // namespace meg::megatron
