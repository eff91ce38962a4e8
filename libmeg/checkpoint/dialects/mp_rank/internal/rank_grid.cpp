#include "libmeg/checkpoint/dialects/mp_rank/internal/rank_grid.h"

namespace meg::checkpoint {

// Processes are numbered with the tensor-parallel rank (or an expert's) as the fastest dimension,
// so process r of a stage has tensor-parallel rank r mod tensor_size, and among the first
// expert_size * expert_tensor_size processes the expert-parallel rank r / expert_tensor_size.

Result<RankGrid> RankGrid::create(int64_t tensor_size, int64_t expert_size,
                                  int64_t expert_tensor_size) {
  constexpr int64_t kMost = 1 << 20;
  for (const int64_t size : {tensor_size, expert_size, expert_tensor_size}) {
    if (size >= 1 && size <= kMost) continue;
    return make_error(StatusCode::kInvalidArgument,
                      "expected parallel sizes from 1 to {}, found tensor {}, expert {}, expert "
                      "tensor {}",
                      kMost, tensor_size, expert_size, expert_tensor_size);
  }
  if (expert_tensor_size > kMost / expert_size) {
    return make_error(StatusCode::kInvalidArgument,
                      "expected at most {} ranks of a stage, found {} times {}", kMost, expert_size,
                      expert_tensor_size);
  }
  RankGrid grid;
  grid.tensor_size_ = tensor_size;
  grid.expert_size_ = expert_size;
  grid.expert_tensor_size_ = expert_tensor_size;
  if (expert_tensor_size > tensor_size) {
    return make_error(StatusCode::kUnsupported,
                      "expert_tensor_parallel_size {} above tensor_model_parallel_size {}: expert "
                      "tensor ranks would save rank files of the same name",
                      expert_tensor_size, tensor_size);
  }
  if (grid.size() % tensor_size != 0) {
    return make_error(
        StatusCode::kUnsupported,
        "expert_tensor_parallel_size {} times expert_model_parallel_size {}: expected "
        "a multiple of tensor_model_parallel_size {}, because only so many ranks save "
        "rank files",
        expert_tensor_size, expert_size, tensor_size);
  }
  return grid;
}

RankPlace RankGrid::place(int64_t index) const {
  const int64_t files = files_of_tensor_rank();
  const int64_t process = index / files + index % files * tensor_size_;
  return {.tensor_rank = process % tensor_size_,
          .expert_rank = process / expert_tensor_size_,
          .expert_tensor_rank = process % expert_tensor_size_};
}

int64_t RankGrid::index_of(int64_t expert_rank, int64_t expert_tensor_rank) const {
  const int64_t process = expert_rank * expert_tensor_size_ + expert_tensor_rank;
  return process % tensor_size_ * files_of_tensor_rank() + process / tensor_size_;
}

}  // namespace meg::checkpoint
