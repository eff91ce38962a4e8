#pragma once

#include <string_view>

namespace meg::tools {

/// The names of every flag that Megatron-LM's trainer has or had, v2.6 to core_v0.19.0, parted by
/// blanks. Lists take any number of values, none too.
/// Mirrors Megatron-LM megatron/training/arguments.py.
std::string_view megatron_switches();
std::string_view megatron_values();
std::string_view megatron_lists();

}  // namespace meg::tools
