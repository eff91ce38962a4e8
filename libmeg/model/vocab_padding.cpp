#include "libmeg/model/vocab_padding.h"

namespace meg::model {

Result<int64_t> padded_vocab_size(int64_t vocab_size, int64_t divisible_by,
                                  int64_t tensor_model_parallel_size) {
  if (vocab_size <= 0 || divisible_by <= 0 || tensor_model_parallel_size <= 0) {
    return make_error(
        StatusCode::kInvalidArgument,
        "padded vocabulary: expected positive sizes, found vocabulary {}, divisible by "
        "{}, tensor-model-parallel-size {}",
        vocab_size, divisible_by, tensor_model_parallel_size);
  }
  int64_t multiple = 0;
  int64_t padded = 0;
  if (__builtin_mul_overflow(divisible_by, tensor_model_parallel_size, &multiple) ||
      __builtin_mul_overflow((vocab_size - 1) / multiple + 1, multiple, &padded)) {
    return make_error(
        StatusCode::kOutOfRange,
        "padded vocabulary: {} rounded up to a multiple of {} * {} does not fit 64 bits",
        vocab_size, divisible_by, tensor_model_parallel_size);
  }
  return padded;
}

}  // namespace meg::model
