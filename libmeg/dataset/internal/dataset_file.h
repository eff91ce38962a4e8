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

/// Maps a whole file beside .bin. An object is first copied to this machine: into the folder
/// `cache`, as CACHE/BUCKET/KEY beside its ETag, which the next call compares, or, if `cache` is
/// empty, into an unnamed temporary file ($TMPDIR, /tmp).
/// Errors: those of MappedFile::open and ObjectStore::open, kInvalidArgument for a key that would
/// lead out of the cache, and those of writing the copy.
/// Mirrors Megatron-LM megatron/core/datasets/object_storage_utils.py: cache_index_file.
Result<io::MappedFile> map_dataset_file(const std::string& path, const std::string& cache = {});

/// The same without a cache; nullopt where there is no such file or object.
Result<std::optional<io::MappedFile>> map_if_there(const std::string& path);

}  // namespace meg::dataset
