#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libmeg/base/dtype.h"
#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"
#include "libmeg/dataset/little_endian_array.h"
#include "libmeg/io/file_descriptor.h"
#include "libmeg/io/mapped_file.h"

namespace meg::dataset {

/// The arrays of an .idx file whose entries may be anything.
struct IndexArrays {
  LittleEndianArray<int32_t> sequence_lengths;
  LittleEndianArray<int64_t> sequence_pointers;
  LittleEndianArray<int64_t> document_indices;
};

/// The first item of .bin that fails a check, and how many do.
struct BadItems {
  int64_t count = 0;
  int64_t first = -1;      ///< The item's number in .bin, or the document's in find_missing_eod.
  std::string found = {};  ///< That item.
};

/// How a scan of .bin runs.
struct ItemScan {
  DType dtype = DType::kInt32;  ///< An integer type.
  int workers = 1;
  ProgressCallback progress = {};  ///< Bytes; may be empty. False ends the scan with kCancelled.
};

/// Items outside [0, vocab_size). Reads the whole of `bin`, 1 MiB a worker at a time.
Result<BadItems> find_ids_outside(const io::FileDescriptor& bin, int64_t vocab_size,
                                  const ItemScan& scan);

/// Documents with sequences whose last item is not `eod`; damaged entries are left out. Touches the
/// pages of `bin` that hold documents' ends, and keeps neither those nor the pages of `idx`. A
/// document counts as its share of the bytes in `scan.progress`.
Result<BadItems> find_missing_eod(const io::MappedFile& idx, const IndexArrays& arrays,
                                  const io::MappedFile& bin, int64_t eod, const ItemScan& scan);

/// An item of the given integer type as text.
std::string item_text(DType dtype, const std::byte* item);

}  // namespace meg::dataset
