#pragma once

#include <string>
#include <vector>

#include "libmeg/base/result.h"

namespace meg::checkpoint {

/// Names of a folder's files that say how texts become tokens and are generated: what a converter
/// copies along.
Result<std::vector<std::string>> find_tokenizer_files(const std::string& folder);

/// Copies these files of a folder into another one, which is made where there are any. Links are
/// followed.
Status copy_tokenizer_files(const std::string& from, const std::vector<std::string>& names,
                            const std::string& to);

}  // namespace meg::checkpoint
