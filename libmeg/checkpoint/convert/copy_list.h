#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "libmeg/checkpoint/state/tensor_sink.h"
#include "libmeg/checkpoint/state/tensor_source.h"
#include "libmeg/checkpoint/transfer/transfer_executor.h"

namespace meg::checkpoint {

/// A tensor to be copied: all elements of a source, in their order, fill a sink.
struct TensorCopy {
  std::shared_ptr<const TensorSource> source;
  DType target_dtype = DType::kFloat32;  ///< Differs only among float16, bfloat16 and float32.

  uint64_t target_bytes() const {
    return static_cast<uint64_t>(source->elements() * dtype_size(target_dtype));
  }
};

/// Fills sinks[i] with copies[i]; see run_transfers.
Status run_copies(std::span<const TensorCopy> copies,
                  std::span<const std::unique_ptr<TensorSink>> sinks,
                  const TransferOptions& options);

}  // namespace meg::checkpoint
