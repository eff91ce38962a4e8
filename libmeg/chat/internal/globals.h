#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "libmeg/chat/internal/value.h"

namespace meg::chat {

/// What every template sees: Jinja's range, dict and namespace, transformers' raise_exception and
/// strftime_now. nullptr for other names.
const Value* find_global(std::string_view name);

/// `loop` at item number i of a loop. last_changed: what loop.changed() was given before.
Value loop_state(const std::vector<Value>& items, size_t i,
                 const std::shared_ptr<std::vector<Value>>& last_changed);

}  // namespace meg::chat
