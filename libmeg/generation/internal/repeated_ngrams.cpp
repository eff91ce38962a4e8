#include "libmeg/generation/internal/repeated_ngrams.h"

#include <algorithm>

namespace meg::generation {

std::vector<int32_t> repeated_ngram_ends(std::span<const int32_t> tokens, int64_t size) {
  std::vector<int32_t> ends;
  const auto before = static_cast<size_t>(size - 1);
  if (tokens.size() <= before) return ends;
  const std::span<const int32_t> last = tokens.last(before);
  for (size_t i = 0; i + before < tokens.size(); ++i) {
    if (std::ranges::equal(tokens.subspan(i, before), last)) ends.push_back(tokens[i + before]);
  }
  return ends;
}

}  // namespace meg::generation
