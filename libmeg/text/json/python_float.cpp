#include "libmeg/text/json/python_float.h"

#include <array>
#include <charconv>
#include <cmath>

#include "libmeg/text/whitespace.h"

namespace meg::text {
namespace {

// repr() has digits alone where the first one's decimal exponent is within these, else `1e-05` or
// `1e+16`. Both languages write exponents with at least two digits and a sign.
constexpr int kLeastPositional = -4;
constexpr int kMaxPositional = 15;

std::string formatted(double value, std::chars_format format) {
  std::array<char, 64> buffer = {};
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format);
  return std::string(buffer.data(), end);
}

int decimal_exponent(const std::string& scientific) {
  return std::stoi(scientific.substr(scientific.find('e') + 1));
}

}  // namespace

std::optional<double> parse_python_float(std::string_view text) {
  text = trimmed(text);
  // std::from_chars takes no plus, float() takes one.
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // float() also takes nan and inf, which nobody who asks for a number here can use.
  const bool whole = end == text.data() + text.size() && !text.empty();
  if (error != std::errc() || !whole || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string python_float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const std::string scientific = formatted(value, std::chars_format::scientific);
  const int exponent = decimal_exponent(scientific);
  if (value != 0 && (exponent < kLeastPositional || exponent > kMaxPositional)) return scientific;
  std::string text = formatted(value, std::chars_format::fixed);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace meg::text
