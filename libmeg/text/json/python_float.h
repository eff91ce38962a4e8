#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace meg::text {

/// Parses a finite number as Python's float() does; nullopt for other texts.
std::optional<double> parse_python_float(std::string_view text);

/// Like Python's repr(): the shortest digits from which the same number is read.
std::string python_float_text(double value);

}  // namespace meg::text
