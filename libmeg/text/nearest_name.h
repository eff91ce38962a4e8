#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace meg::text {

/// Insertions, deletions and replacements of bytes that make one text the other.
size_t edit_distance(std::string_view a, std::string_view b);

/// Index of the name nearest to `typed`, the first if several are equally near; empty if none is
/// within two edits, or within a quarter of the typed bytes if that is more.
std::optional<size_t> nearest_name(std::string_view typed, std::span<const std::string_view> names);

}  // namespace meg::text
