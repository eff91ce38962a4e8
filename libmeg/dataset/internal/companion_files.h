#pragma once

#include <optional>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/dataset/dataset_tokenizer.h"
#include "libmeg/io/atomic_file.h"

namespace meg::dataset {

/// Removes PREFIX.libmeg and PREFIX.provenance, which speak of the dataset that is about to be
/// replaced: called before the new pair appears, so that they never stand beside it. The caller
/// holds the dataset's lock. prefix: may end in ".bin" or ".idx".
Status remove_companion_files(const std::string& prefix);

/// PREFIX.libmeg, whole, to be committed with the pair; nullopt without a tokenizer. The caller
/// holds the dataset's lock.
Result<std::optional<io::AtomicFile>> tokenizer_file(
    const std::string& prefix, const std::optional<DatasetTokenizer>& tokenizer);

}  // namespace meg::dataset
