#pragma once

#include "libmeg/nn/gpt_options.h"
#include "libmeg/parallel/parallel_state.h"

namespace meg::nn {

/// The part of a model that a rank holds, from the sizes of its groups: the first chunk of its
/// pipeline stage, without splitting sequences.
ModelPart part_of_rank(const parallel::ParallelState& ranks);

}  // namespace meg::nn
