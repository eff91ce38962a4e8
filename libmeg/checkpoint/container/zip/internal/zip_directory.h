#pragma once

#include <cstdint>

#include "libmeg/base/result.h"
#include "libmeg/io/file_slice.h"

namespace meg::checkpoint {

/// The position of a zip archive's directory, which lies right before the end records. Offsets
/// count from the archive's first byte.
struct ZipDirectory {
  uint64_t entries = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
};

/// Reads the end records, including those of zip64, which must agree with each other and with the
/// file's size.
Result<ZipDirectory> find_zip_directory(const io::FileSlice& file);

}  // namespace meg::checkpoint
