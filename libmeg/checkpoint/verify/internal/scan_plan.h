#pragma once

#include <vector>

#include "libmeg/checkpoint/verify/internal/checkpoint_ranks.h"
#include "libmeg/checkpoint/verify/internal/tensor_scan.h"

namespace meg::checkpoint {

/// Groups every weight, master and moment of the readable ranks with those to which it must be
/// related: replicas of all tensor ranks, the embedding and its copy on the last stage, 16-bit
/// weights and their masters. Tensors whose shapes or dtypes contradict each other get groups of
/// their own.
std::vector<ScanGroup> plan_scan(const CheckpointRanks& ranks);

}  // namespace meg::checkpoint
