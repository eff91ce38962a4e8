#include "libmeg/hub/internal/byte_range.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "libmeg/text/ascii.h"
#include "libmeg/text/whitespace.h"

namespace meg::hub {
namespace {

/// Digits only; more than a number holds are the largest one.
std::optional<uint64_t> number(std::string_view digits) {
  if (digits.empty() || !std::ranges::all_of(digits, text::is_ascii_digit)) return std::nullopt;
  uint64_t value = 0;
  const auto [_, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc() ? value : std::numeric_limits<uint64_t>::max();
}

}  // namespace

RangeAnswer read_range(std::string_view header, uint64_t size) {
  const RangeAnswer whole{200, {0, size}};
  constexpr std::string_view kUnit = "bytes=";
  if (!header.starts_with(kUnit)) return whole;
  const std::string_view range = text::trimmed(header.substr(kUnit.size()));
  const size_t dash = range.find('-');
  if (dash == std::string_view::npos) return whole;
  const std::string_view begin = range.substr(0, dash), end = range.substr(dash + 1);
  if (begin.empty()) {
    const auto last = number(end);
    if (!last) return whole;
    const uint64_t count = std::min(*last, size);
    return count == 0 ? RangeAnswer{416, {}} : RangeAnswer{206, {size - count, count}};
  }
  const auto first = number(begin);
  const auto last = end.empty() ? std::optional(size) : number(end);
  if (!first || !last || (*last < *first && !end.empty())) return whole;
  if (*first >= size) return {416, {}};
  return {206, {*first, std::min(*last, size - 1) - *first + 1}};
}

}  // namespace meg::hub
