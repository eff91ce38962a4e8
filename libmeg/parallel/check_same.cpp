#include "libmeg/parallel/check_same.h"

#include <sstream>

// Compares settings line by line with the first rank's, so that a run started with different flags
// or data on some ranks ends with the line that differs and not with a collective that hangs.

namespace meg::parallel {
namespace {

Status compare(std::string_view what, const std::string& own, const std::string& first) {
  std::istringstream own_lines(own);
  std::istringstream first_lines(first);
  std::string found;
  std::string expected;
  // Lines have the same names in the same order on all ranks, which run one program.
  while (std::getline(own_lines, found) && std::getline(first_lines, expected)) {
    if (found == expected) continue;
    return make_error(StatusCode::kInvalidArgument, "{}: expected {} as on rank 0, found {}", what,
                      expected, found);
  }
  return {};
}

}  // namespace

Status check_same(std::string_view what, const std::string& lines, const ParallelState& ranks) {
  if (ranks.mesh().world_size() == 1) return {};
  MEG_ASSIGN_OR_RETURN(const std::string first, ranks.of_first_rank(lines));
  // agree() gives all ranks the first differing rank's line, also those that are as rank 0.
  return ranks.agree(compare(what, lines, first));
}

}  // namespace meg::parallel
