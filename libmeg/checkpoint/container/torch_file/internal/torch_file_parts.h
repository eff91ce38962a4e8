#pragma once

#include <vector>

#include "libmeg/checkpoint/container/pickle/pickle_graph.h"
#include "libmeg/checkpoint/container/torch_file/internal/torch_tensors.h"
#include "libmeg/checkpoint/container/torch_file/pickle_budget.h"
#include "libmeg/checkpoint/container/zip/zip_archive.h"
#include "libmeg/io/file_slice.h"
#include "libmeg/io/mapped_file.h"

namespace meg::checkpoint {

/// The result of opening a file of either form; every storage lies inside the file.
struct TorchFileParts {
  PickleGraph graph;
  PickleId root = 0;
  TorchTensors tensors;
  std::vector<ZipEntry> entries;  ///< Entries of the archive; empty for legacy files.
  bool is_legacy = false;
  bool has_crcs = false;
  bool is_byte_swapped = false;
};

/// Reads the zip form. Offsets in the result count from the first byte of the file, not of the
/// slice. check_crc: kCorruption where the archive's CRC-32 of the pickle is another.
Result<TorchFileParts> read_torch_archive(const io::FileSlice& file, PickleBudget* budget,
                                          bool check_crc = true);

/// Reads the form of torch < 1.6: pickles of a magic number, a protocol number, the machine, the
/// value and the list of storage keys; then each storage, a 64-bit count of elements and the
/// elements.
Result<TorchFileParts> read_legacy_torch_file(const io::MappedFile& file, PickleBudget* budget);

}  // namespace meg::checkpoint
