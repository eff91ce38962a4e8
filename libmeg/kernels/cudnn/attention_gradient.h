#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string_view>

#include "libmeg/base/result.h"
#include "libmeg/base/status.h"
#include "libmeg/kernels/float_type.h"

struct CUstream_st;

namespace meg::kernels {

/// Causal self-attention whose queries, keys and values are in one dense array of (rows, tokens,
/// heads, 3, channels): the output of linear_qkv if every head has a key of its own.
struct AttentionGradientShape {
  FloatType type = FloatType::kBFloat16;  ///< fp16 or bf16, of all arrays but the statistics
  int64_t rows = 0;
  int64_t tokens = 0;  ///< of a row
  int64_t heads = 0;
  int64_t channels = 0;  ///< of a head
  float scale = 1;       ///< of the scores
  float dropout = 0;     ///< of the probabilities, [0, 1)
  bool deterministic = false;

  auto operator<=>(const AttentionGradientShape&) const = default;
};

/// The arrays of one call, on the GPU; none overlaps one that is written.
struct AttentionGradientArrays {
  const void* mixed = nullptr;        ///< (rows, tokens, heads, 3, channels)
  const void* output = nullptr;       ///< (rows, tokens, heads, channels), the forward pass's
  const void* grad_output = nullptr;  ///< like output
  const void* statistics = nullptr;   ///< (rows, heads, tokens) of fp32: log-sum-exp of the scores
  const void* seed = nullptr;         ///< int64, of the forward pass's dropout; null without
  const void* seed_offset = nullptr;  ///< like seed
  void* grad_mixed = nullptr;         ///< like mixed
  void* workspace = nullptr;          ///< workspace_size() bytes
};

/// The gradient of attention by cuDNN. It differs from LibTorch's own call only in its outputs:
/// LibTorch makes three arrays, which have to be copied into one for the next product's gradient;
/// this writes that one array directly.
class CudnnAttentionGradient {
 public:
  /// Creates cuDNN's plan for this shape on the current device, for use on that device only. Fails
  /// if cuDNN is not loaded (LibTorch's CUDA half loads it) or does not support the shape, and in a
  /// build without cuDNN's headers.
  static Result<std::unique_ptr<CudnnAttentionGradient>> create(
      const AttentionGradientShape& shape);

  /// Fails if cuDNN does not support the shape on a GPU, which need not be in this machine.
  /// properties: what cuDNN calls CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION; sm_version: 90 for
  /// compute capability 9.0.
  static Status check_support(const AttentionGradientShape& shape, std::string_view properties,
                              int sm_version);

  virtual ~CudnnAttentionGradient() = default;

  /// Bytes of GPU memory that a call uses as workspace.
  virtual int64_t workspace_size() const = 0;

  /// Queued on `stream` (a cudaStream_t of the device that was current in create()) without
  /// waiting.
  virtual Status run(const AttentionGradientArrays& arrays, CUstream_st* stream) const = 0;
};

}  // namespace meg::kernels
