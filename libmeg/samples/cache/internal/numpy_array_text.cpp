#include "libmeg/samples/cache/internal/numpy_array_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

// The descriptions of blends at 6ef5bdc hold str() of an array, so this follows
// numpy/core/arrayprint.py with its default options (precision 8, threshold 1000, edgeitems 3,
// linewidth 75): the limits below are numpy's, and all elements that are shown share one format.

namespace meg::samples {
namespace {

constexpr int kDigits = 8;
constexpr size_t kLineWidth = 74;  // and the bracket that may close it
constexpr size_t kMaxElements = 1000;
constexpr size_t kEdgeElements = 3;

// Numbers outside these limits are all written with exponents.
constexpr double kMaxPositional = 1e8;
constexpr double kLeastPositional = 1e-4;
constexpr double kMaxRatio = 1000;

/// Mantissa and exponent, the mantissa cut at the point.
struct Number {
  std::string whole;
  std::string fraction;
  std::string exponent;  ///< Such as "e-04"; empty in positional form.
};

bool needs_exponents(std::span<const double> values) {
  double least = 0;
  double most = 0;
  for (const double value : values) {
    const double size = std::abs(value);
    if (size == 0) continue;
    least = least == 0 ? size : std::min(least, size);
    most = std::max(most, size);
  }
  if (most == 0) return false;
  return most >= kMaxPositional || least < kLeastPositional || most / least > kMaxRatio;
}

Number formatted(double value, bool exponents) {
  std::string text =
      exponents ? fmt::format("{:.{}e}", value, kDigits) : fmt::format("{:.{}f}", value, kDigits);
  Number number;
  if (const size_t e = text.find('e'); e != std::string::npos) {
    number.exponent = text.substr(e);
    text.resize(e);
  }
  const size_t point = text.find('.');
  number.whole = text.substr(0, point);
  number.fraction = text.substr(point + 1);
  number.fraction.resize(number.fraction.find_last_not_of('0') + 1);
  return number;
}

/// All of one width: spaces on the left; on the right spaces, or zeros before exponents.
std::vector<std::string> of_one_width(const std::vector<Number>& numbers) {
  size_t whole = 0;
  size_t fraction = 0;
  for (const Number& number : numbers) {
    whole = std::max(whole, number.whole.size());
    fraction = std::max(fraction, number.fraction.size());
  }
  std::vector<std::string> words;
  for (const Number& number : numbers) {
    const char fill = number.exponent.empty() ? ' ' : '0';
    words.push_back(std::string(whole - number.whole.size(), ' ') + number.whole + "." +
                    number.fraction + std::string(fraction - number.fraction.size(), fill) +
                    number.exponent);
  }
  return words;
}

}  // namespace

std::string numpy_array_text(std::span<const double> values) {
  const bool cut = values.size() > kMaxElements;
  std::vector<double> shown;
  for (size_t i = 0; i < values.size(); ++i) {
    const bool edge = i < kEdgeElements || i + kEdgeElements >= values.size();
    if (edge || !cut) shown.push_back(values[i]);
  }
  // Look only at what is shown: elements that the dots stand for have no say in the format.
  const bool exponents = needs_exponents(shown);
  std::vector<Number> numbers;
  for (const double value : shown) numbers.push_back(formatted(value, exponents));
  std::vector<std::string> words = of_one_width(numbers);
  if (cut) words.insert(words.begin() + kEdgeElements, "...");

  std::string text;
  std::string line = "[";
  for (size_t i = 0; i < words.size(); ++i) {
    if (line.size() + words[i].size() > kLineWidth && line.size() > 1) {
      line.resize(line.find_last_not_of(' ') + 1);
      text += line + "\n";
      line = " ";
    }
    line += words[i];
    if (i + 1 < words.size()) line += " ";
  }
  return text + line + "]";
}

}  // namespace meg::samples
