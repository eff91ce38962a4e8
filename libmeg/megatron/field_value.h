#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace meg {

/// The value of one field of a configuration: Megatron's args, flags of a command line,
/// config.json. monostate: None.
using FieldValue = std::variant<std::monostate, bool, int64_t, double, std::string>;

/// Finds a field by Megatron's name; nothing where there is none.
using FieldLookup = std::function<std::optional<FieldValue>(std::string_view name)>;

}  // namespace meg
