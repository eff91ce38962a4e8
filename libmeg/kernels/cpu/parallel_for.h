#pragma once

#include <cstdint>
#include <functional>

namespace meg::kernels {

/// Calls body(begin, end) on parts of [0, count), which have at least `grain` (> 0) elements except
/// for the last one, and returns when all are done. If bodies throw, one of the exceptions is
/// rethrown. The threads are OpenMP's and thus LibTorch's: as many as set by at::set_num_threads,
/// and inside another parallel region only the calling one. (at::parallel_for itself is a plain
/// loop in code that is not compiled for OpenMP.)
void parallel_for(int64_t count, int64_t grain,
                  const std::function<void(int64_t begin, int64_t end)>& body);

}  // namespace meg::kernels
