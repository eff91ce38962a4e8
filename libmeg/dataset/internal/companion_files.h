#pragma once

#include <optional>
#include <string>

#include "libmeg/base/result.h"
#include "libmeg/dataset/internal/libmeg_file.h"
#include "libmeg/io/atomic_file.h"

namespace meg::dataset {

/// Removes PREFIX.libmeg and PREFIX.provenance, which speak of the dataset that is about to be
/// replaced: called before the new pair appears, so that they never stand beside it. The caller
/// holds the dataset's lock. prefix: may end in ".bin" or ".idx".
Status remove_companion_files(const std::string& prefix);

/// PREFIX.libmeg, whole, to be committed with the pair; nullopt where it would say nothing. The
/// caller holds the dataset's lock.
Result<std::optional<io::AtomicFile>> create_libmeg_file(const std::string& prefix,
                                                         const LibmegFile& content);

}  // namespace meg::dataset
