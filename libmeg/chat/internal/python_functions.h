#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/chat/internal/value.h"

namespace meg::chat {

/// The arguments of a call by the names of its parameters; undefined where none was given, which
/// the first `required` ones must be.
Result<std::vector<Value>> bound(std::string_view function, Arguments arguments,
                                 std::initializer_list<std::string_view> parameters,
                                 size_t required = 0);

/// The argument as an integer, or `otherwise` where it was not given.
Result<int64_t> integer_or(std::string_view function, const Value& argument, int64_t otherwise);

/// The result of a method or filter that takes no arguments.
Result<Value> text_made(std::string_view function, Arguments arguments, Result<std::string> text);

/// Python's method of a str, list or dict, bound to `of`; nothing where there is none of this name.
/// Those that would change a value are refused when they are called, as in Jinja's immutable
/// sandbox.
std::optional<Value> find_method(const Value& of, const std::string& name);

/// datetime.now().strftime(format).
Result<std::string> current_time(const std::string& format);

}  // namespace meg::chat
