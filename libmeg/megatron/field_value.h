#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace meg::megatron {

/// The value of one field of a configuration: Megatron's args, flags of a command line,
/// config.json. monostate: None; a list holds words as on a command line.
using FieldValue =
    std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<std::string>>;

/// The text that an error message shows: None, True, 0.1, "text", ["a", "b"].
std::string field_text(const FieldValue& value);

/// Compares as in Python: 10000 equals 10000.0, and True equals 1.
bool same_field(const FieldValue& a, const FieldValue& b);

/// Finds a field by Megatron's name; returns nothing if there is none.
using FieldLookup = std::function<std::optional<FieldValue>(std::string_view name)>;

}  // namespace meg::megatron
