#include "libmeg/kernels/cpu/parallel_for.h"

#include <omp.h>

#include <algorithm>
#include <exception>

namespace meg::kernels {

void parallel_for(int64_t count, int64_t grain,
                  const std::function<void(int64_t begin, int64_t end)>& body) {
  const int64_t max_shares = (count + grain - 1) / grain;
  if (max_shares <= 1 || omp_in_parallel() != 0 || omp_get_max_threads() == 1) {
    if (count > 0) body(0, count);
    return;
  }
  // An exception must not leave a parallel region; one of them is carried over its end.
  std::exception_ptr thrown;
  // Set no num_threads(): another number of threads each time would cost the pool its threads.
#pragma omp parallel
  {
    // The region may have got fewer threads than were requested.
    const int64_t shares = std::min<int64_t>(omp_get_num_threads(), max_shares);
    const int64_t share = omp_get_thread_num();
    const int64_t begin = count * share / shares;
    const int64_t end = count * (share + 1) / shares;
    try {
      if (share < shares && begin < end) body(begin, end);
    } catch (...) {
#pragma omp critical(meg_parallel_for)
      thrown = std::current_exception();
    }
  }
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

}  // namespace meg::kernels
