#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>

#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"

namespace meg::cleaning {

struct DuplicateGroupsSummary {
  int64_t lines = 0;   ///< Of pairs.
  int64_t groups = 0;  ///< Of two URLs or more.
  int64_t urls = 0;    ///< In these.
};

/// Joins the URLs of find_duplicate_pairs()'s lines whose similarity is `least` or more into
/// groups, and writes lines `{"0": [URL, ...]}`, with the numbers that Megatron-LM's
/// group_duplicate_url.py gives them. URLs are in the order in which they appeared. Memory: all
/// URLs. kCorruption names a line that is not one of pairs.
Result<DuplicateGroupsSummary> group_duplicates(const std::string& input, const std::string& output,
                                                double least, const ProgressCallback& progress);

/// Of lines that group_duplicates() writes: all URLs of each group but the first.
Result<std::unordered_set<std::string>> read_grouped_urls(const std::string& path);

}  // namespace meg::cleaning
