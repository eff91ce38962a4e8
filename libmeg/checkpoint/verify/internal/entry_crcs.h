#pragma once

#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/verify/checkpoint_problem.h"

namespace meg::checkpoint {

/// Compares the CRC-32s of a file's entries that are no storages (data.pkl and the small ones).
/// Nothing for files that claim none.
std::vector<Problem> check_entry_crcs(const TorchFile& file);

}  // namespace meg::checkpoint
