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

/// Causal self-attention whose queries, keys and values lie in one array of (rows, tokens, heads,
/// 3, channels), dense, as the product with linear_qkv's weight gives them where every head has a
/// key of its own.
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

/// The gradient of attention by cuDNN, in which LibTorch's own call differs by its outputs only:
/// that one makes three arrays, which then have to be copied into one for the next product's
/// gradient; this one writes there.
class CudnnAttentionGradient {
 public:
  /// What cuDNN computes this shape with on the current device, which the caller keeps for it.
  /// Fails where cuDNN is not loaded (LibTorch's CUDA half brings it) or has nothing for the shape,
  /// and in a build without cuDNN's headers.
  static Result<std::unique_ptr<CudnnAttentionGradient>> create(
      const AttentionGradientShape& shape);

  /// Fails where cuDNN has nothing for the shape on a GPU that need not be in this machine.
  /// properties: what cuDNN calls CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION; sm_version: 90 for
  /// compute capability 9.0.
  static Status check_support(const AttentionGradientShape& shape, std::string_view properties,
                              int sm_version);

  virtual ~CudnnAttentionGradient() = default;

  /// Bytes on the GPU that a call writes to meanwhile.
  virtual int64_t workspace_size() const = 0;

  /// Queued on `stream` (a cudaStream_t of the device that was current in create()) without
  /// waiting.
  virtual Status run(const AttentionGradientArrays& arrays, CUstream_st* stream) const = 0;
};

}  // namespace meg::kernels
