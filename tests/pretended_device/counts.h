#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace meg::pretended {

/// What was asked of the pretended device. Its work is done at once and costs nothing; these are
/// the numbers that say what it would cost a real one.
struct Counts {
  /// Kernels by the name of their function, without template arguments; matrix products and
  /// attention graphs of CUDA's libraries by the name of the call.
  std::map<std::string, int64_t> kernels;
  int64_t copies = 0;           ///< cudaMemcpy*, of any direction.
  int64_t fills = 0;            ///< cudaMemset*
  int64_t host_waits = 0;       ///< Calls that keep the host until work under way is done.
  int64_t allocated_bytes = 0;  ///< cudaMalloc, whether given back or not.
  int64_t to_device_bytes = 0;
  int64_t to_host_bytes = 0;
  int64_t exchanged_bytes = 0;  ///< Given to NCCL; calls of it count as kernels, too.

  /// Everything that a stream runs: kernels, products, copies and fills.
  int64_t operations() const;

  int64_t nccl_calls() const;
};

/// Returns the counts since the last call, and resets them.
Counts take_counts();

}  // namespace meg::pretended
