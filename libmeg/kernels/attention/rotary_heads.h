#pragma once

#include <cstdint>

#include "libmeg/kernels/cuda_access.h"
#include "libmeg/kernels/float_type.h"

struct CUstream_st;

namespace meg::kernels {

/// The strides, in elements, of the heads of attention in an array of (rows, tokens, groups, heads
/// of a group, channels). Channels are dense.
struct HeadStrides {
  int64_t row = 0, token = 0, group = 0, head = 0;
};

/// Heads that are copied from one array to another.
struct HeadCopy {
  const void* from = nullptr;
  HeadStrides from_strides;
  void* to = nullptr;  ///< Must not overlap arrays that are read.
  HeadStrides to_strides;
  int64_t heads = 0;  ///< of a group
  bool is_turned = false;
};

/// Copies queries, keys and values between the array that the product with linear_qkv's weight
/// returns and separate arrays, and applies rotary embedding to queries and keys: a pair of
/// channels (a, b) becomes (a cos - b sin, b cos + a sin). Arithmetic in fp32, rounded once to the
/// arrays' type. As many passes over memory as a copy, where Megatron's operators take five and a
/// concatenation in the backward pass. Mirrors Megatron-LM
/// megatron/core/models/common/embeddings/rope_utils.py: _apply_rotary_pos_emb_bshd.
struct RotaryHeads {
  static constexpr int kMaxCopies = 3;

  FloatType type = FloatType::kFloat32;  ///< of all arrays
  HeadCopy copies[kMaxCopies];           ///< Those without `to` do nothing.
  const void* cosine =
      nullptr;                 ///< (tokens, rotated), dense; both channels of a pair have the same
  const void* sine = nullptr;  ///< (tokens, rotated), dense
  int64_t rows = 0;
  int64_t tokens = 0;  ///< of a row
  int64_t groups = 0;
  int64_t channels = 0;      ///< of a head
  int64_t turned = 0;        ///< The first channels of a head, even, at most all; 0: none.
  bool interleaved = false;  ///< Pairs are adjacent; otherwise one channel of each half.
  bool turns_back = false;   ///< Rotates by the negative angles, as for gradients.
};

/// Processes tokens [begin, end) of all rows * tokens, so that the caller can divide them over
/// threads; results do not depend on the division.
void rotary_heads_cpu(const RotaryHeads& call, int64_t begin, int64_t end);

/// All on a GPU: device pointers, queued on `stream` (a cudaStream_t) without waiting. Returns the
/// CUDA runtime's error code of the launch, 0 for success. kBuiltWithoutCuda in a build without
/// CUDA.
int rotary_heads_cuda(const RotaryHeads& call, CUstream_st* stream,
                      CudaAccess access = CudaAccess::kVectorized);

}  // namespace meg::kernels
