#pragma once

#include "libmeg/samples/batches/micro_batch.h"

namespace meg::train {

/// Page-locked memory, from which a GPU copies without waiting for the CPU. Only where LibTorch has
/// a GPU.
samples::BatchMemory pinned_memory();

}  // namespace meg::train
