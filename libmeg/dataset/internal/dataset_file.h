#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/io/mapped_file.h"

namespace meg::dataset {

/// kUnsupported for addresses that datasets are not read from, such as msc:// (s3:// is one that
/// they are).
Status check_is_readable(std::string_view prefix);

/// A whole file beside .bin, mapped. An object is copied to this machine before: into folder
/// `cache`, as CACHE/BUCKET/KEY beside its ETag, which the next call compares; where that is empty,
/// into a temporary file without a name ($TMPDIR, /tmp).
/// Errors: those of MappedFile::open and ObjectStore::open, kInvalidArgument for a key that would
/// lead out of the cache, and those of writing the copy.
/// Mirrors Megatron-LM megatron/core/datasets/object_storage_utils.py: cache_index_file.
Result<io::MappedFile> map_dataset_file(const std::string& path, const std::string& cache = {});

/// The same without a cache; nullopt where there is no such file or object.
Result<std::optional<io::MappedFile>> map_if_there(const std::string& path);

}  // namespace meg::dataset
