#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "libmeg/base/dtype.h"
#include "libmeg/base/progress.h"
#include "libmeg/base/result.h"
#include "libmeg/dataset/bin_file.h"
#include "libmeg/dataset/index_arrays.h"
#include "libmeg/io/mapped_file.h"

namespace meg::dataset {

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

/// A .bin that is read from begin to end, in pieces by several threads.
struct BinPieces {
  std::string path;
  int64_t bytes = 0;
  size_t piece_bytes = 0;  ///< Size of every piece but the last; a multiple of 8.
  /// Fills a piece and returns the bytes read, which are fewer only if the file has become shorter.
  std::function<Result<size_t>(int64_t offset, std::span<std::byte> into)> read_at;
};

/// Items outside [0, vocab_size). Reads the whole of `bin`, a piece a worker at a time.
Result<BadItems> find_ids_outside(const BinPieces& bin, int64_t vocab_size, const ItemScan& scan);

/// Documents with sequences whose last item is not `eod`; damaged entries are ignored. Reads only
/// the parts of .bin with the documents' ends, and releases them and the pages of `idx`. A document
/// counts as its share of the bytes in `scan.progress`.
Result<BadItems> find_missing_eod(const io::MappedFile& idx, const IndexArrays& arrays,
                                  const BinFile& bin, int64_t eod, const ItemScan& scan);

/// An item of the given integer type as text.
std::string item_text(DType dtype, const std::byte* item);

}  // namespace meg::dataset
