#pragma once

#include "libmeg/dataset/samples/micro_batch.h"

namespace meg::train {

/// Page-locked memory, from which a GPU copies without waiting for the CPU. Only where LibTorch has
/// a GPU.
BatchMemory pinned_memory();

}  // namespace meg::train
