#include "libmeg/parallel/check_same.h"

#include <algorithm>

// Compares settings line by line with the first rank's, so that a run started with different flags
// or data on some ranks ends with the line that differs and not with a collective that hangs.

namespace meg::parallel {
namespace {

/// Of a long line, such as a list of a thousand datasets, what stands around the first difference.
constexpr size_t kMostShown = 240;
constexpr size_t kShownBefore = 80;

/// The line of `lines` that has the byte at `difference`.
std::string line_around(std::string_view lines, size_t difference) {
  // The last line may end before it, where the other text has one line more.
  difference = std::min(difference, lines.size());
  const size_t end = std::min(lines.find('\n', difference), lines.size());
  const size_t before = difference == 0 ? lines.npos : lines.rfind('\n', difference - 1);
  const size_t begin = before == lines.npos ? 0 : before + 1;
  const std::string_view line = lines.substr(begin, end - begin);
  if (line.empty()) return "nothing";
  if (line.size() <= kMostShown) return std::string(line);
  const std::string_view name = line.substr(0, line.find(' '));
  const size_t at = difference - begin;
  const size_t from = at > kShownBefore ? at - kShownBefore : 0;
  const std::string_view part = line.substr(from, kMostShown);
  return fmt::format("{}{}{}", from == 0 ? "" : fmt::format("{} ...", name), part,
                     from + part.size() == line.size() ? "" : "...");
}

Status compare(std::string_view what, std::string_view own, std::string_view first) {
  if (own == first) return {};
  const auto difference = static_cast<size_t>(std::ranges::mismatch(own, first).in1 - own.begin());
  return make_error(StatusCode::kInvalidArgument, "{}: expected {} as on rank 0, found {}", what,
                    line_around(first, difference), line_around(own, difference));
}

}  // namespace

Status check_same(std::string_view what, const std::string& lines, const ParallelState& ranks) {
  if (ranks.mesh().world_size() == 1) return {};
  MEG_ASSIGN_OR_RETURN(const std::string first, ranks.of_first_rank(lines));
  // agree() gives all ranks the first differing rank's line, also those that are as rank 0.
  return ranks.agree(compare(what, lines, first));
}

}  // namespace meg::parallel
