#include "libmeg/text/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace meg::text {

size_t edit_distance(std::string_view a, std::string_view b) {
  // Levenshtein's table, one row at a time: row[j] is the distance of a's first i bytes to b's
  // first j.
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row[b.size()];
}

std::optional<size_t> nearest_name(std::string_view typed,
                                   std::span<const std::string_view> names) {
  std::optional<size_t> nearest;
  // With more edits than these a suggestion would be a guess.
  size_t best = std::max<size_t>(2, typed.size() / 4) + 1;
  for (size_t i = 0; i < names.size(); ++i) {
    // So many edits are needed for the length alone; a typed name may be very long.
    const size_t longer = std::max(typed.size(), names[i].size());
    if (longer - std::min(typed.size(), names[i].size()) >= best) continue;
    const size_t distance = edit_distance(typed, names[i]);
    if (distance < best) {
      best = distance;
      nearest = i;
    }
  }
  return nearest;
}

}  // namespace meg::text
