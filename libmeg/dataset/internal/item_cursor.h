#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libmeg/base/result.h"
#include "libmeg/dataset/bin_file.h"

namespace meg::dataset {

/// Reads single items of a .bin, usually in ascending order, in bounded memory. For use by one
/// thread.
class ItemCursor {
 public:
  /// bin: must outlive the cursor.
  explicit ItemCursor(const BinFile& bin) : bin_(bin) {}

  ItemCursor(const ItemCursor&) = delete;
  ItemCursor& operator=(const ItemCursor&) = delete;
  ~ItemCursor();

  /// The `size` bytes at `offset`, which must be inside the file; valid until the next call.
  Result<const std::byte*> item(int64_t offset, int64_t size);

 private:
  const std::byte* mapped_item(int64_t offset);

  const BinFile& bin_;
  int64_t begin_ = 0;  // of a file: pages before it are let go; of an object: where fetched_ begins
  int64_t window_ = 0;  // bytes that the last request asked for
  std::vector<std::byte> fetched_;
};

}  // namespace meg::dataset
