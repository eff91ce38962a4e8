#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/chat/internal/interpreter.h"
#include "libmeg/chat/internal/value.h"

namespace meg::chat {

/// value | name(arguments).
using Filter = Result<Value> (*)(Interpreter&, const Value&, Arguments);

/// By name.
using Filters = std::map<std::string, Filter, std::less<>>;

/// Those of lists, dicts and other values that have items.
const Filters& list_filters();

/// nullptr where there is none of this name.
const Filter* find_filter(std::string_view name);

}  // namespace meg::chat
