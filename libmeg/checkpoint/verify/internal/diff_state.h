#pragma once

#include "libmeg/checkpoint/verify/checkpoint_diff.h"

namespace meg::checkpoint {

/// Compares what is no tensor of a parameter: iteration, the model's shape, args that change what
/// it computes, and unless compare_optimizer is false learning rate, steps, scheduler, loss scaler
/// and in equal layouts the states of random number generators.
void diff_state(const MegatronCheckpoint& a, const MegatronCheckpoint& b, bool compare_optimizer,
                CheckpointDiff* diff);

}  // namespace meg::checkpoint
