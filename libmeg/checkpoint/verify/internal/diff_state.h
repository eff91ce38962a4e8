#pragma once

#include "libmeg/checkpoint/verify/checkpoint_diff.h"

namespace meg::checkpoint {

/// Compares everything but the tensors of parameters: iteration, the model's shape, args that
/// change what it computes, and, if compare_optimizer is true, learning rate, steps, scheduler,
/// loss scaler and, in equal layouts, the states of random number generators.
void diff_state(const MegatronCheckpoint& a, const MegatronCheckpoint& b, bool compare_optimizer,
                CheckpointDiff* diff);

}  // namespace meg::checkpoint
