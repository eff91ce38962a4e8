#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libmeg/checkpoint/container/torch_file/torch_file.h"

namespace meg::checkpoint {

/// Whether a top-level key holds random number generators' states: `rng_state`, or one of the five
/// keys that files from before 2022 have instead.
bool is_rng_key(std::string_view key);

/// The states of random number generators in a rank's file: name ("rng_state[0].torch_rng_state")
/// and node, in the file's order. Those of before
/// 2022, which stand beside the model, go by today's names.
std::vector<std::pair<std::string, PickleId>> rng_entries(const TorchFile& file);

}  // namespace meg::checkpoint
