#include "libmeg/nn/part_of_rank.h"

namespace meg::nn {

ModelPart part_of_rank(const parallel::ParallelState& ranks) {
  const int split = ranks.expert_mesh().size(parallel::Axis::kTensor);
  return {.sizes = {.tensor_model_parallel_size = ranks.tensor()->size(),
                    .pipeline_model_parallel_size = ranks.pipeline()->size(),
                    .expert_model_parallel_size = ranks.expert_mesh().size(parallel::Axis::kExpert),
                    .expert_tensor_parallel_size = split},
          .tensor_rank = ranks.tensor()->rank(),
          .pipeline_rank = ranks.pipeline()->rank(),
          .tensor_parallel = {.group = ranks.tensor()},
          .expert_parallel = {.group = ranks.experts(), .tensor_size = split}};
}

}  // namespace meg::nn
