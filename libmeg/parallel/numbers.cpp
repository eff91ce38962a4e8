#include <ATen/ATen.h>

#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/parallel/process_group.h"

namespace meg::parallel {

Result<std::vector<double>> gather(ProcessGroup& group, std::vector<double> numbers) {
  const auto count = static_cast<int64_t>(numbers.size());
  std::vector<double> all(numbers.size() * static_cast<size_t>(group.size()));
  MEG_RETURN_IF_ERROR(libtorch::torch_guard([&] {
    return group.all_gather(at::from_blob(all.data(), {count * group.size()}, at::kDouble),
                            at::from_blob(numbers.data(), {count}, at::kDouble));
  }));
  return all;
}

Status broadcast(ProcessGroup& group, std::vector<int64_t>& numbers, int source) {
  if (group.size() == 1) return {};
  // The receivers do not know how many numbers come.
  return libtorch::torch_guard([&]() -> Status {
    const at::Tensor count = at::full({1}, std::ssize(numbers), at::kLong);
    MEG_RETURN_IF_ERROR(group.broadcast(count, source));
    numbers.resize(static_cast<size_t>(count.item<int64_t>()));
    if (numbers.empty()) return {};
    return group.broadcast(at::from_blob(numbers.data(), {std::ssize(numbers)}, at::kLong), source);
  });
}

}  // namespace meg::parallel
