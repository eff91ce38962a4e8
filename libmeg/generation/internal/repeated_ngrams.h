#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace meg::generation {

/// The tokens that would complete a run of `size` (>= 1) tokens that `tokens` already contains, in
/// the order of those runs; a token may be repeated.
std::vector<int32_t> repeated_ngram_ends(std::span<const int32_t> tokens, int64_t size);

}  // namespace meg::generation
