#pragma once

#include <cstdint>
#include <optional>

#include "libmeg/base/result.h"
#include "libmeg/checkpoint/container/torch_file/torch_file.h"
#include "libmeg/checkpoint/state/opaque.h"

namespace meg::checkpoint {

/// The value of a tensor that holds one float32; nullopt for other tensors.
Result<std::optional<float>> read_one_float(const TorchFile& file, const TensorView& tensor);

/// The `step` that torch's own Adam keeps with a parameter (LogicalParameter::other_state): an int
/// or a tensor of one float32. kCorruption for anything else.
Result<int64_t> parameter_step(const Opaque& value);

}  // namespace meg::checkpoint
