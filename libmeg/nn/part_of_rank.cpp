#include "libmeg/nn/part_of_rank.h"

namespace meg::nn {

ModelPart part_of_rank(const parallel::ParallelState& ranks) {
  return {.sizes = {.tensor_model_parallel_size = ranks.tensor()->size(),
                    .pipeline_model_parallel_size = ranks.pipeline()->size()},
          .tensor_rank = ranks.tensor()->rank(),
          .pipeline_rank = ranks.pipeline()->rank(),
          .tensor_parallel = {.group = ranks.tensor()}};
}

}  // namespace meg::nn
