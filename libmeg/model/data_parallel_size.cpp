#include "libmeg/model/data_parallel_size.h"

namespace meg::model {

Result<int64_t> data_parallel_size(int64_t world_size, int64_t tensor, int64_t pipeline,
                                   int64_t context) {
  int64_t copy = tensor;
  const bool overflow =
      __builtin_mul_overflow(copy, pipeline, &copy) || __builtin_mul_overflow(copy, context, &copy);
  if (!overflow && world_size % copy == 0) return world_size / copy;
  return make_error(StatusCode::kInvalidArgument,
                    "world size: expected a multiple of tensor x pipeline x context parallel size "
                    "{} x {} x {}, found {}",
                    tensor, pipeline, context, world_size);
}

}  // namespace meg::model
