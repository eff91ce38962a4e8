#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace meg::model {

/// The largest parallel size an error proposes.
inline constexpr int64_t kLargestProposal = 64;

/// The sizes up to kLargestProposal that `fits` accepts, as "1, 2, 4".
template <class Fits>
std::string proposals(Fits fits) {
  std::string text;
  for (int64_t size = 1; size <= kLargestProposal; ++size) {
    if (fits(size)) text += fmt::format("{}{}", text.empty() ? "" : ", ", size);
  }
  return text.empty() ? "none" : text;
}

}  // namespace meg::model
