#pragma once

#include <span>
#include <string>

namespace meg::samples {

/// A one-dimensional array of finite doubles as numpy prints it (str): 8 digits after the point,
/// one width, lines of up to 75 characters, `...` in the middle of more than 1000 elements.
std::string numpy_array_text(std::span<const double> values);

}  // namespace meg::samples
