#include <algorithm>

#include "libmeg/kernels/dropout_add_norm.h"
#include "libmeg/kernels/internal/cuda_floats.cuh"
#include "libmeg/kernels/internal/cuda_launch.cuh"

namespace meg::kernels {
namespace {

constexpr int kWarp = 32;
constexpr int kMaxThreads = 1024;
/// Threads that the backward pass keeps at work, each for its columns of many rows: enough for the
/// memory of any GPU. Fixed, so that sums have the same order on all of them.
constexpr int64_t kBackwardThreads = 131072;
/// Rows that a block of the backward pass takes at least, so that its parts are a fraction of them.
constexpr int64_t kRowsOfBlock = 8;

struct Totals {
  float first, second;
};

/// All threads' parts put together in a fixed order, in every thread. of_warps: one for each warp,
/// in shared memory, which no thread reads any more. blockDim.x is a multiple of 32.
__device__ Totals totals_in_block(Totals part, Totals* of_warps) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    part.first += __shfl_xor_sync(0xffffffffu, part.first, distance);
    part.second += __shfl_xor_sync(0xffffffffu, part.second, distance);
  }
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = part;
  __syncthreads();
  Totals totals = {0.0f, 0.0f};
  for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) {
    totals.first += of_warps[warp].first;
    totals.second += of_warps[warp].second;
  }
  return totals;
}

/// What normalized elements are multiplied with.
template <class T>
__device__ float factor(T weight, bool is_1p) {
  return is_1p ? to_float(from_float<T>(to_float(weight) + 1.0f)) : to_float(weight);
}

/// The pack's elements times what dropout does to them; `first`: the first one's place in the
/// array.
template <int kSize>
__device__ void drop(Pack<float, kSize>& values, const DropoutFactors& dropout, int64_t first) {
  if (dropout.keeps_all()) return;
  if constexpr (kSize == 1) {
    values.values[0] *= dropout.of_element(first);
  } else {
#pragma unroll
    for (int k = 0; k < kSize; k += 4) {
      const PhiloxWords decisions = dropout.words_of((first + k) / 4);
#pragma unroll
      for (int j = 0; j < 4; ++j) values.values[k + j] *= dropout.of_word(decisions.words[j]);
    }
  }
}

template <class T, int kSize>
__device__ Pack<float, kSize> widened(const Pack<T, kSize> pack) {
  Pack<float, kSize> values;
#pragma unroll
  for (int k = 0; k < kSize; ++k) values.values[k] = to_float(pack.values[k]);
  return values;
}

template <class T, int kSize>
__device__ Pack<T, kSize> narrowed(const Pack<float, kSize> values) {
  Pack<T, kSize> pack;
#pragma unroll
  for (int k = 0; k < kSize; ++k) pack.values[k] = from_float<T>(values.values[k]);
  return pack;
}

template <class T, int kSize>
__device__ const Pack<T, kSize>* packs_of(const void* array) {
  return static_cast<const Pack<T, kSize>*>(array);
}

template <class T, int kSize>
__device__ Pack<T, kSize>* packs_of(void* array) {
  return static_cast<Pack<T, kSize>*>(array);
}

/// Pack i of residual + dropout(branch), written where it is wanted.
template <class T, class R, int kSize>
__device__ Pack<R, kSize> summed(const DropoutAddNormForward& call, const DropoutFactors& dropout,
                                 int64_t i) {
  const Pack<R, kSize> residual = packs_of<R, kSize>(call.residual)[i];
  if (call.branch == nullptr) return residual;
  Pack<float, kSize> values = widened(packs_of<T, kSize>(call.branch)[i]);
  drop(values, dropout, i * kSize);
#pragma unroll
  for (int k = 0; k < kSize; ++k) values.values[k] += to_float(residual.values[k]);
  const Pack<R, kSize> sum = narrowed<R>(values);
  packs_of<R, kSize>(call.sum)[i] = sum;
  return sum;
}

// A block a row. A thread keeps its first pack of the row, and reads the others, of rows longer
// than a block is wide, again where it or the residual's author wrote them.
template <class T, class R, int kSize>
__global__ void forward_kernel(DropoutAddNormForward call) {
  __shared__ Totals of_warps[2][kMaxThreads / kWarp];
  const DropoutFactors dropout(call.dropout);
  const int64_t packs = call.columns / kSize;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * packs;
  const auto columns = static_cast<float>(call.columns);
  Pack<R, kSize> first = {};
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < packs; i += blockDim.x) {
    const Pack<R, kSize> x = summed<T, R, kSize>(call, dropout, row + i);
    if (i == threadIdx.x) first = x;
#pragma unroll
    for (int k = 0; k < kSize; ++k) sum += to_float(x.values[k]);
  }
  if (call.weight == nullptr) return;
  const Pack<R, kSize>* const sums =
      packs_of<R, kSize>(call.branch == nullptr ? call.residual : call.sum) + row;
  const auto own = [&](int64_t i) { return i == threadIdx.x ? first : sums[i]; };
  float mean = 0.0f;
  if (!call.is_rms_norm) mean = totals_in_block({sum, 0.0f}, of_warps[0]).first / columns;
  float squares = 0.0f;
  for (int64_t i = threadIdx.x; i < packs; i += blockDim.x) {
    const Pack<R, kSize> x = own(i);
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      const float distance = to_float(x.values[k]) - mean;
      squares += distance * distance;
    }
  }
  squares = totals_in_block({squares, 0.0f}, of_warps[1]).first;
  const float rstd = rsqrtf(squares / columns + call.epsilon);
  for (int64_t i = threadIdx.x; i < packs; i += blockDim.x) {
    const Pack<R, kSize> x = own(i);
    const Pack<T, kSize> weight = packs_of<T, kSize>(call.weight)[i];
    Pack<float, kSize> y = {};
    if (!call.is_rms_norm) y = widened(packs_of<T, kSize>(call.bias)[i]);
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      y.values[k] += (to_float(x.values[k]) - mean) * rstd * factor(weight.values[k], call.is_1p);
    }
    packs_of<T, kSize>(call.normalized)[row + i] = narrowed<T>(y);
  }
  if (threadIdx.x != 0) return;
  if (!call.is_rms_norm) call.means[blockIdx.x] = mean;
  call.rstds[blockIdx.x] = rstd;
}

/// Of one pack of columns, over a block's rows.
template <int kSize>
struct ColumnSums {
  Pack<float, kSize> weight, bias;
};

/// A row's pack on its way back: the gradient of what was normalized, and the normalized itself,
/// before weight and bias.
template <int kSize>
struct NormPack {
  Pack<float, kSize> gradient, x;
};

template <class T, class R, int kSize>
__device__ NormPack<kSize> norm_pack(const DropoutAddNormBackward& call, int64_t i, float mean,
                                     float rstd) {
  NormPack<kSize> pack = {widened(packs_of<T, kSize>(call.grad_normalized)[i]),
                          widened(packs_of<R, kSize>(call.sum)[i])};
#pragma unroll
  for (int k = 0; k < kSize; ++k) pack.x.values[k] = (pack.x.values[k] - mean) * rstd;
  return pack;
}

/// By all threads: the row's sums of gradient * weight, and of that times x; column sums on the
/// way. A thread's first pack and its sums stay in registers; the sums of others are in `parts`.
template <class T, class R, int kSize>
__device__ Totals taken_in(const DropoutAddNormBackward& call, int64_t row, float mean, float rstd,
                           NormPack<kSize>& first, ColumnSums<kSize>& own,
                           ColumnSums<kSize>* parts) {
  const int64_t packs = call.columns / kSize;
  const bool begins = row == blockIdx.x;
  Totals totals = {0.0f, 0.0f};
  for (int64_t i = threadIdx.x; i < packs; i += blockDim.x) {
    const bool is_first = i == threadIdx.x;
    const NormPack<kSize> pack = norm_pack<T, R, kSize>(call, row * packs + i, mean, rstd);
    const Pack<T, kSize> weight = packs_of<T, kSize>(call.weight)[i];
    ColumnSums<kSize> sums = {};
    if (!begins) sums = is_first ? own : parts[i];
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      const float weighted = pack.gradient.values[k] * factor(weight.values[k], call.is_1p);
      totals.first += weighted;
      totals.second += weighted * pack.x.values[k];
      sums.weight.values[k] += pack.gradient.values[k] * pack.x.values[k];
      sums.bias.values[k] += pack.gradient.values[k];
    }
    if (is_first) {
      first = pack;
      own = sums;
    } else {
      parts[i] = sums;
    }
  }
  return totals;
}

// Each block takes every gridDim.x-th row and leaves its part of the weight's and bias's gradients
// in its row of `parts`.
template <class T, class R, int kSize>
__global__ void backward_kernel(DropoutAddNormBackward call, ColumnSums<kSize>* parts) {
  __shared__ Totals of_warps[2][kMaxThreads / kWarp];  // in turn, so that a barrier a row is enough
  const DropoutFactors dropout(call.dropout);
  const int64_t packs = call.columns / kSize;
  const auto columns = static_cast<float>(call.columns);
  const bool has_norm = call.grad_normalized != nullptr;
  ColumnSums<kSize> own = {};
  parts += blockIdx.x * packs;
  int turn = 0;
  for (int64_t row = blockIdx.x; row < call.rows; row += gridDim.x, turn = 1 - turn) {
    NormPack<kSize> first = {};
    float mean = 0.0f, rstd = 0.0f;
    Totals totals = {0.0f, 0.0f};
    if (has_norm) {
      if (!call.is_rms_norm) mean = call.means[row];
      rstd = call.rstds[row];
      totals = taken_in<T, R, kSize>(call, row, mean, rstd, first, own, parts);
      totals = totals_in_block(totals, of_warps[turn]);
    }
    const float of_mean = call.is_rms_norm ? 0.0f : totals.first / columns;
    const float of_rstd = totals.second / columns;
    for (int64_t i = threadIdx.x; i < packs; i += blockDim.x) {
      const int64_t place = row * packs + i;
      Pack<float, kSize> gradient = {};
      if (call.grad_sum != nullptr) gradient = widened(packs_of<R, kSize>(call.grad_sum)[place]);
      if (has_norm) {
        const NormPack<kSize> pack =
            i == threadIdx.x ? first : norm_pack<T, R, kSize>(call, place, mean, rstd);
        const Pack<T, kSize> weight = packs_of<T, kSize>(call.weight)[i];
#pragma unroll
        for (int k = 0; k < kSize; ++k) {
          const float weighted = pack.gradient.values[k] * factor(weight.values[k], call.is_1p);
          gradient.values[k] += rstd * (weighted - of_mean - pack.x.values[k] * of_rstd);
        }
      }
      packs_of<R, kSize>(call.grad_residual)[place] = narrowed<R>(gradient);
      if (call.grad_branch == nullptr) continue;
      drop(gradient, dropout, place * kSize);
      packs_of<T, kSize>(call.grad_branch)[place] = narrowed<T>(gradient);
    }
  }
  if (has_norm && threadIdx.x < packs) parts[threadIdx.x] = own;
}

/// Columns that a block sums, a lane each; its warps share the parts.
constexpr int kSummedColumns = kWarp;

// parts: `count` rows of ColumnSums<kSize>. Blocks of the weight's gradient, then of the bias's.
template <class T, int kSize>
__global__ void column_kernel(const float* parts, int64_t count, int64_t columns, bool adds,
                              void* grad_weight, void* grad_bias) {
  constexpr int kWarps = kMaxThreads / kWarp;
  __shared__ float of_warps[kWarps][kSummedColumns];
  const int64_t column_blocks = (columns + kSummedColumns - 1) / kSummedColumns;
  const bool is_bias = blockIdx.x >= column_blocks;
  const int64_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t column = (blockIdx.x - (is_bias ? column_blocks : 0)) * kSummedColumns + lane;
  const int64_t place = column / kSize * 2 * kSize + (is_bias ? kSize : 0) + column % kSize;
  float sum = 0.0f;
  if (column < columns) {
    for (int64_t i = warp; i < count; i += kWarps) sum += parts[i * 2 * columns + place];
  }
  of_warps[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= columns) return;
  for (int i = 1; i < kWarps; ++i) sum += of_warps[i][lane];
  void* const gradient = is_bias ? grad_bias : grad_weight;
  if (adds) {
    static_cast<float*>(gradient)[column] += sum;
  } else {
    static_cast<T*>(gradient)[column] = from_float<T>(sum);
  }
}

unsigned threads_for(int64_t packs) {
  return static_cast<unsigned>(
      std::clamp<int64_t>((packs + kWarp - 1) / kWarp * kWarp, kWarp, kMaxThreads));
}

int64_t backward_blocks(int64_t rows, int64_t columns) {
  return std::min((rows + kRowsOfBlock - 1) / kRowsOfBlock,
                  kBackwardThreads / threads_for(columns / 8));
}

template <class T, class R, int kSize>
int launch_backward(const DropoutAddNormBackward& call, float* scratch, cudaStream_t stream) {
  const int64_t blocks = backward_blocks(call.rows, call.columns);
  if (blocks > 0) {
    const int error =
        launch<backward_kernel<T, R, kSize>>(blocks, threads_for(call.columns / kSize), stream,
                                             call, reinterpret_cast<ColumnSums<kSize>*>(scratch));
    if (error != cudaSuccess || call.grad_normalized == nullptr) return error;
  }
  if (call.grad_normalized == nullptr) return cudaSuccess;
  const int64_t column_blocks = (call.columns + kSummedColumns - 1) / kSummedColumns;
  return launch<column_kernel<T, kSize>>(column_blocks * (call.is_rms_norm ? 1 : 2), kMaxThreads,
                                         stream, static_cast<const float*>(scratch), blocks,
                                         call.columns, call.adds_to_gradients, call.grad_weight,
                                         call.grad_bias);
}

/// Calls `call` with a value of the arrays' type and one of the residual's.
template <class Call>
int with_types(const DropoutAddNorm& shape, Call call) {
  return with_float_type(shape.type, [&](auto zero) -> int {
    if (shape.residual_type == shape.type) return call(zero, zero);
    return call(zero, float());
  });
}

/// Whether rows of all these arrays can be read in packs of R.
template <class R>
bool in_packs(CudaRung rung, int64_t columns, std::initializer_list<const void*> arrays) {
  return rung == CudaRung::kVector && columns % kPackSize<R> == 0 &&
         std::all_of(arrays.begin(), arrays.end(), starts_at_16_bytes);
}

}  // namespace

int dropout_add_norm_forward_cuda(const DropoutAddNormForward& call, CUstream_st* stream,
                                  CudaRung rung) {
  if (call.rows == 0 || call.columns == 0) return cudaSuccess;
  return with_types(call, [&](auto zero, auto residual) -> int {
    using T = decltype(zero);
    using R = decltype(residual);
    constexpr int kSize = kPackSize<R>;
    if (in_packs<R>(
            rung, call.columns,
            {call.branch, call.residual, call.weight, call.bias, call.sum, call.normalized})) {
      return launch<forward_kernel<T, R, kSize>>(call.rows, threads_for(call.columns / kSize),
                                                 stream, call);
    }
    return launch<forward_kernel<T, R, 1>>(call.rows, threads_for(call.columns), stream, call);
  });
}

int64_t dropout_add_norm_scratch(int64_t rows, int64_t columns) {
  return backward_blocks(rows, columns) * columns * 2;
}

int dropout_add_norm_backward_cuda(const DropoutAddNormBackward& call, float* scratch,
                                   CUstream_st* stream, CudaRung rung) {
  if (call.columns == 0) return cudaSuccess;
  return with_types(call, [&](auto zero, auto residual) -> int {
    using T = decltype(zero);
    using R = decltype(residual);
    if (in_packs<R>(rung, call.columns,
                    {call.grad_normalized, call.grad_sum, call.sum, call.weight, call.grad_residual,
                     call.grad_branch})) {
      return launch_backward<T, R, kPackSize<R>>(call, scratch, stream);
    }
    return launch_backward<T, R, 1>(call, scratch, stream);
  });
}

}  // namespace meg::kernels
