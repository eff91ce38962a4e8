#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "libmeg/base/progress.h"
#include "libmeg/checkpoint/state/tensor_sink.h"
#include "libmeg/checkpoint/state/tensor_source.h"

namespace meg::checkpoint {

/// A tensor on its way: all of a source's elements, in their order, fill a sink.
struct TensorCopy {
  std::shared_ptr<const TensorSource> source;
  DType target_dtype = DType::kFloat32;  ///< Differs only among float16, bfloat16 and float32.

  uint64_t target_bytes() const {
    return static_cast<uint64_t>(source->elements() * dtype_size(target_dtype));
  }
};

struct CopyOptions {
  int64_t buffer_bytes = int64_t{256} << 20;  ///< Of all threads together.
  int workers = 0;                            ///< Threads; 0: one a processor.
  ProgressCallback progress;                  ///< bytes: of sinks written.
};

/// Fills sinks[i] with copies[i], several at once. On error what was written so far is left.
Status run_copies(std::span<const TensorCopy> copies,
                  std::span<const std::unique_ptr<TensorSink>> sinks, const CopyOptions& options);

}  // namespace meg::checkpoint
