#include "libmeg/checkpoint/verify/checkpoint_problem.h"

namespace meg::checkpoint {

Problem problem_of(std::string_view check, const std::string& file, const Status& error) {
  std::string_view text = error.message();
  const std::string prefix = file + ": ";
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  return {.check = check, .file = file, .found = std::string(text)};
}

std::vector<int64_t> index_of(int64_t place, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    index[i] = place % shape[i];
    place /= shape[i];
  }
  return index;
}

}  // namespace meg::checkpoint
