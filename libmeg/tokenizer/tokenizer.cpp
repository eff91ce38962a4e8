#include "libmeg/tokenizer/tokenizer.h"

namespace meg {

DType optimal_dtype(int64_t vocab_size) {
  return vocab_size < 65500 ? DType::kUint16 : DType::kInt32;
}

}  // namespace meg
