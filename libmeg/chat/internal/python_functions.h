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

// str's methods, which filters share. Letters change their case one by one: those that Python
// replaces by several are refused.
Result<std::string> upper(std::string_view text);
std::string lower(std::string_view text);
Result<std::string> capitalized(std::string_view text);
std::string_view stripped(std::string_view text, const std::optional<std::string>& characters,
                          bool at_begin, bool at_end);
std::vector<std::string_view> lines_of(std::string_view text, bool with_ends = false);
bool is_of_case(std::string_view text, bool is_upper);  ///< isupper(), islower()
std::string replaced(std::string_view text, std::string_view old, std::string_view by,
                     int64_t most);

/// text % argument (several are a tuple), with %s, %d, %i, %r, %f, %x and %%.
Result<std::string> percent_formatted(std::string_view text, const Value& argument);

/// text.format(...), with {}, {0} and {name} alone.
Result<std::string> brace_formatted(std::string_view text, const Arguments& arguments);

/// datetime.now().strftime(format).
Result<std::string> current_time(const std::string& format);

}  // namespace meg::chat
