#pragma once

#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/verify/checkpoint_problem.h"

namespace meg::checkpoint {

/// Compares the CRC-32s of a file's entries that are not storages (data.pkl and the small ones).
/// Finds nothing in files without CRCs.
std::vector<Problem> check_entry_crcs(const TorchFile& file);

}  // namespace meg::checkpoint
