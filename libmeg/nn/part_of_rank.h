#pragma once

#include "libmeg/nn/gpt_options.h"
#include "libmeg/parallel/parallel_state.h"

namespace meg::nn {

/// What a rank holds of a model that is cut by the sizes of its groups: the first chunk of its
/// pipeline stage, sequences not split.
ModelPart part_of_rank(const parallel::ParallelState& ranks);

}  // namespace meg::nn
