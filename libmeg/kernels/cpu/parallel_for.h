#pragma once

#include <cstdint>
#include <functional>

namespace meg::kernels {

/// Calls body(begin, end) on shares of [0, count), at least `grain` (> 0) elements each but the
/// last, and returns when all are done; one of the exceptions that bodies throw is thrown on. The
/// threads are OpenMP's and so LibTorch's: as many as at::set_num_threads said, and inside of
/// another parallel region just this one. (at::parallel_for itself is a plain loop in code that is
/// not compiled for OpenMP.)
void parallel_for(int64_t count, int64_t grain,
                  const std::function<void(int64_t begin, int64_t end)>& body);

}  // namespace meg::kernels
