#pragma once

#include <string>
#include <vector>

#include "libmeg/base/status.h"
#include "libmeg/preprocess/sources/input_options.h"
#include "libmeg/preprocess/sources/internal/text_source.h"

namespace meg::preprocess {

/// Reads the first document of every input of `source`, so that a file that is no data ends the
/// work before it begins, not after everything before it. Errors are those of the document, with a
/// pattern that leaves the file out.
Status check_first_documents(const TextSource& source, const InputOptions& options,
                             const std::vector<std::string>& keys);

}  // namespace meg::preprocess
