#include "tools/common/byte_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <system_error>

namespace meg::tools {
namespace {

constexpr std::string_view kPrefixes = "kmgt";

/// What one unit counts; nothing for an unknown one.
std::optional<double> unit_size(std::string unit) {
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (unit.empty() || unit == "b") return 1;
  const size_t prefix = kPrefixes.find(unit[0]);
  if (prefix == std::string_view::npos) return std::nullopt;
  const std::string rest = unit.substr(1);
  if (rest != "" && rest != "b" && rest != "ib") return std::nullopt;
  // Only with a `b` of its own is the prefix decimal, as dd and docker have it.
  return std::pow(rest == "b" ? 1000.0 : 1024.0, static_cast<double>(prefix + 1));
}

}  // namespace

Result<int64_t> parse_byte_size(std::string_view text) {
  // Just below 2^63, which a double would round up to.
  constexpr double kMost = 9e18;
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, number);
  const std::optional<double> unit = unit_size(std::string(text.substr(digits)));
  if (digits == 0 || error != std::errc() || end != text.data() + digits || !unit.has_value() ||
      number * *unit > kMost) {
    return make_error(StatusCode::kInvalidArgument,
                      "expected a size such as 512MiB or 2GiB, found {}", text);
  }
  return static_cast<int64_t>(number * *unit);
}

std::string byte_size_text(int64_t bytes) {
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  double amount = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  constexpr std::string_view kUnits = "kMGT";
  while (amount >= 999.5 && unit + 1 < kUnits.size()) {
    amount /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}B", amount, amount < 10 ? 2 : amount < 100 ? 1 : 0, kUnits[unit]);
}

std::string written_text(std::string_view what, std::span<const std::string> files) {
  std::optional<int64_t> bytes;
  for (const std::string& file : files) {
    // Pipes and devices have no size, and another process may remove an output at once.
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error)) continue;
    const uintmax_t size = std::filesystem::file_size(file, error);
    if (!error) bytes = bytes.value_or(0) + static_cast<int64_t>(size);
  }
  if (!bytes.has_value()) return fmt::format("wrote {}", what);
  return fmt::format("wrote {} ({})", what, byte_size_text(*bytes));
}

}  // namespace meg::tools
