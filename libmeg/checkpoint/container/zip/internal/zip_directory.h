#pragma once

#include <cstdint>

#include "libmeg/base/result.h"
#include "libmeg/io/file_slice.h"

namespace meg::checkpoint {

/// Where the directory of a zip archive lies: right before the end records. Offsets count from the
/// archive's first byte.
struct ZipDirectory {
  uint64_t entries = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
};

/// Reads the end records, the zip64 ones too, which must agree with each other and the file's size.
Result<ZipDirectory> find_zip_directory(const io::FileSlice& file);

}  // namespace meg::checkpoint
