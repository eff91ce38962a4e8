#pragma once

#include <string>
#include <vector>

#include "libmeg/base/status.h"
#include "libmeg/preprocess/sources/input_options.h"
#include "libmeg/preprocess/sources/internal/text_chunk.h"

namespace meg::preprocess {

/// Fills the chunk with the first documents of an input, as TextSource would read them; with none
/// where the first is long, and of what can be read only once or has no documents to judge (whole
/// plain texts). Of local files of columns only the schema is looked at. Errors are those that
/// TextSource::next() would give for this beginning.
Status read_first_documents(const std::string& path, const InputOptions& options,
                            const std::vector<std::string>& keys, TextChunk& chunk);

}  // namespace meg::preprocess
