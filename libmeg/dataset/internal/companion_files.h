#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/internal/libmeg_file.h"
#include "libmeg/io/atomic_file.h"

namespace meg::dataset {

/// Removes PREFIX.libmeg and PREFIX.provenance, which describe the dataset that is about to be
/// replaced: called before the new pair appears, so that they are never beside it. The caller holds
/// the dataset's lock. prefix: may end in ".bin" or ".idx".
Status remove_companion_files(const std::string& prefix);

/// A complete PREFIX.libmeg, to be committed with the pair; nullopt if it would be empty. The
/// caller holds the dataset's lock.
Result<std::optional<io::AtomicFile>> create_libmeg_file(const std::string& prefix,
                                                         const LibmegFile& content);

/// The tokenizer of all datasets; nullopt where one does not say or they disagree, which is noted.
Result<std::optional<DatasetTokenizer>> common_tokenizer(std::span<const std::string> prefixes,
                                                         std::vector<std::string>& notes);

}  // namespace meg::dataset
