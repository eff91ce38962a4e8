#include <algorithm>
#include <cstring>

#include "libmeg/kernels/dropout_add_norm.h"
#include "libmeg/kernels/internal/cuda_floats.cuh"
#include "libmeg/kernels/internal/cuda_launch.cuh"

namespace meg::kernels {
namespace {

constexpr int kWarp = 32;
/// Packs of a row that a thread keeps in registers: all that it reads is under way at once. The
/// backward pass keeps sums of columns besides.
constexpr int kForwardKept = 4, kBackwardKept = 2;
/// With fewer rows than this, a thread of the forward pass keeps one pack. Sums are the same to the
/// bit: a row's result does not depend on the number of rows.
constexpr int64_t kFewRows = 512;
/// Threads of a row, at most.
constexpr int kMaxThreads = 256;
/// Threads of a block, at least. Where a row is a warp's alone, its warps take a row each.
constexpr int kMinThreads = 128;
/// Threads that the backward pass keeps at work, each for its columns of many rows: enough for the
/// memory of any GPU. Fixed, so that sums have the same order on all of them.
constexpr int64_t kBackwardThreads = 65536;
/// Rows that a block of the backward pass takes at least, so that its parts are a fraction of them.
constexpr int64_t kRowsOfBlock = 8;

struct Totals {
  float first, second;
};

/// A thread's place: its row's number among those of a launch, and its own among the row's.
struct Place {
  int64_t row;
  int lane, threads;

  /// threads_of_row: a warp's, or all of a block.
  __device__ explicit Place(int threads_of_row)
      : row(static_cast<int64_t>(blockIdx.x) * (blockDim.x / threads_of_row) +
            threadIdx.x / threads_of_row),
        lane(static_cast<int>(threadIdx.x) % threads_of_row),
        threads(threads_of_row) {}

  /// Rows that the launch has threads for.
  __device__ int64_t rows() const {
    return static_cast<int64_t>(gridDim.x) * (blockDim.x / threads);
  }

  /// The thread's pack number p of its row.
  __device__ int pack(int p) const { return lane + p * threads; }
};

/// The parts of a row's threads put together in a fixed order, in each of them. of_warps: one for
/// each warp, in shared memory, which no thread reads any more.
__device__ Totals totals_in_row(Totals part, const Place& place, Totals* of_warps) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    part.first += __shfl_xor_sync(0xffffffffu, part.first, distance);
    part.second += __shfl_xor_sync(0xffffffffu, part.second, distance);
  }
  if (place.threads == kWarp) return part;
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = part;
  __syncthreads();
  Totals totals = {0.0f, 0.0f};
  for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) {
    totals.first += of_warps[warp].first;
    totals.second += of_warps[warp].second;
  }
  return totals;
}

template <class T, int kSize>
__device__ Pack<float, kSize> widened(Pack<T, kSize> pack) {
  Pack<float, kSize> values;
#pragma unroll
  for (int k = 0; k < kSize; ++k) values.values[k] = to_float(pack.values[k]);
  return values;
}

template <class T, int kSize>
__device__ Pack<T, kSize> narrowed(const Pack<float, kSize>& values) {
  Pack<T, kSize> pack;
#pragma unroll
  for (int k = 0; k < kSize; ++k) pack.values[k] = from_float<T>(values.values[k]);
  return pack;
}

/// What normalized elements are multiplied with.
template <class T, int kSize>
__device__ Pack<float, kSize> factors(Pack<T, kSize> weight, bool is_1p) {
  Pack<float, kSize> values = widened(weight);
  if (!is_1p) return values;
#pragma unroll
  for (int k = 0; k < kSize; ++k) {
    values.values[k] = to_float(from_float<T>(values.values[k] + 1.0f));
  }
  return values;
}

/// The pack's elements times what dropout does to them; `first`: the first one's place in the
/// array. Rounded before anything is added, as on a CPU.
template <int kSize>
__device__ void drop(Pack<float, kSize>& values, const DropoutFactors& dropout, int64_t first) {
  if (dropout.keeps_all()) return;
  if constexpr (kSize == 1) {
    values.values[0] = __fmul_rn(values.values[0], dropout.of_element(first));
  } else {
#pragma unroll
    for (int k = 0; k < kSize; k += 4) {
      const PhiloxWords decisions = dropout.words_of((first + k) / 4);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        values.values[k + j] = __fmul_rn(values.values[k + j], dropout.of_word(decisions.words[j]));
      }
    }
  }
}

/// The packs of an array from `first` on; nullptr of none.
template <class T, int kSize>
__device__ const Pack<T, kSize>* packs_of(const void* array, int64_t first) {
  return array == nullptr ? nullptr : static_cast<const Pack<T, kSize>*>(array) + first;
}

template <class T, int kSize>
__device__ Pack<T, kSize>* packs_of(void* array, int64_t first) {
  return array == nullptr ? nullptr : static_cast<Pack<T, kSize>*>(array) + first;
}

/// A pack that is kept as it lies in memory: its 16-bit elements, and their floats even more, would
/// each take a register.
template <class T, int kSize>
class KeptPack {
 public:
  KeptPack() = default;

  __device__ explicit KeptPack(Pack<T, kSize> pack) { memcpy(words_, &pack, sizeof(pack)); }

  /// What was computed of the elements before is computed again instead of kept.
  __device__ Pack<T, kSize> get() const {
    uint32_t words[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      words[i] = words_[i];
#ifdef __CUDA_ARCH__
      asm volatile("" : "+r"(words[i]));
#endif
    }
    Pack<T, kSize> pack;
    memcpy(&pack, words, sizeof(pack));
    return pack;
  }

 private:
  static constexpr int kWords = (sizeof(Pack<T, kSize>) + 3) / 4;

  uint32_t words_[kWords] = {};
};

/// A thread's packs of a row, where the row has so many.
template <class T, int kSize, int kKept>
__device__ void read_kept(KeptPack<T, kSize> (&kept)[kKept], const Pack<T, kSize>* row, int packs,
                          const Place& place) {
#pragma unroll
  for (int p = 0; p < kKept; ++p) {
    if (place.pack(p) < packs) kept[p] = KeptPack<T, kSize>(row[place.pack(p)]);
  }
}

// A thread reads the packs that it does not keep, of rows longer than its block is wide, again
// where it or the residual's author wrote them. A row is summed as by `summing` of its threads,
// each of which adds every summing-th pack to its part; where a row has more threads, those get the
// sums of packs from the others.
template <class T, class R, int kSize, int kKept>
__global__ void __launch_bounds__(kMaxThreads)
    forward_kernel(DropoutAddNormForward call, DropoutFactors dropout, int threads, int summing) {
  __shared__ Totals of_warps[2][kMaxThreads / kWarp];
  __shared__ float of_packs[kKept < kForwardKept ? kForwardKept * kMaxThreads : 1];
  const Place place(threads);
  if (place.row >= call.rows) return;  // only where no other warp waits for this one
  const int packs = static_cast<int>(call.columns / kSize);
  const int64_t begin = place.row * packs;
  const auto* const residual = packs_of<R, kSize>(call.residual, begin);
  const auto* const branch = packs_of<T, kSize>(static_cast<const void*>(call.branch), begin);
  auto* const sum = packs_of<R, kSize>(call.sum, begin);
  KeptPack<R, kSize> kept[kKept];
  read_kept(kept, residual, packs, place);
  if (branch != nullptr) {
    const auto add = [&](int i, Pack<T, kSize> of_branch, Pack<R, kSize> x) {
      Pack<float, kSize> values = widened(of_branch);
      drop(values, dropout, (begin + i) * kSize);
#pragma unroll
      for (int k = 0; k < kSize; ++k) values.values[k] += to_float(x.values[k]);
      return sum[i] = narrowed<R>(values);
    };
    KeptPack<T, kSize> kept_branch[kKept];
    read_kept(kept_branch, branch, packs, place);
#pragma unroll
    for (int p = 0; p < kKept; ++p) {
      const int i = place.pack(p);
      if (i < packs) kept[p] = KeptPack<R, kSize>(add(i, kept_branch[p].get(), kept[p].get()));
    }
    for (int i = place.pack(kKept); i < packs; i += threads) add(i, branch[i], residual[i]);
  }
  if (call.weight == nullptr) return;
  const auto for_packs = [&](auto&& body) {
#pragma unroll
    for (int p = 0; p < kKept; ++p) {
      if (place.pack(p) < packs) body(place.pack(p), kept[p].get());
    }
    const Pack<R, kSize>* const sums = branch == nullptr ? residual : sum;
    for (int i = place.pack(kKept); i < packs; i += threads) body(i, sums[i]);
  };
  // Fused multiply-adds are written out from here on, because the compiler may fuse differently in
  // the kernels for few and for many rows.
  const auto sum_of_row = [&](Totals* shared, auto&& added) {
    float part = 0.0f;
    for_packs([&](int i, Pack<R, kSize> x) {
      float of_pack = 0.0f;
#pragma unroll
      for (int k = 0; k < kSize; ++k) of_pack = added(of_pack, to_float(x.values[k]));
      if (kKept < kForwardKept && summing < threads) {
        of_packs[i] = of_pack;
      } else {
        part += of_pack;
      }
    });
    if (kKept < kForwardKept && summing < threads) {
      __syncthreads();
      for (int i = place.lane; place.lane < summing && i < packs; i += summing) part += of_packs[i];
    }
    return totals_in_row({part, 0.0f}, place, shared).first;
  };
  const auto columns = static_cast<float>(call.columns);
  float mean = 0.0f;
  if (!call.is_rms_norm) {
    mean = sum_of_row(of_warps[0], [](float before, float x) { return before + x; }) / columns;
  }
  const float squares = sum_of_row(
      of_warps[1], [&](float before, float x) { return fmaf(x - mean, x - mean, before); });
  const float rstd = rsqrtf(squares / columns + call.epsilon);
  const auto* const weights = packs_of<T, kSize>(call.weight, 0);
  const auto* const biases = packs_of<T, kSize>(call.is_rms_norm ? nullptr : call.bias, 0);
  auto* const normalized = packs_of<T, kSize>(call.normalized, begin);
  for_packs([&](int i, Pack<R, kSize> x) {
    const Pack<float, kSize> weight = factors(weights[i], call.is_1p);
    Pack<float, kSize> y = {};
    if (biases != nullptr) y = widened(biases[i]);
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      y.values[k] = fmaf((to_float(x.values[k]) - mean) * rstd, weight.values[k], y.values[k]);
    }
    normalized[i] = narrowed<T>(y);
  });
  if (place.lane != 0) return;
  if (!call.is_rms_norm) call.means[place.row] = mean;
  call.rstds[place.row] = rstd;
}

/// Sums of one pack of columns over a block's rows.
template <int kSize>
struct ColumnSums {
  Pack<float, kSize> weight, bias;
};

/// What a row's norm was.
struct RowNorm {
  float mean = 0.0f, rstd = 0.0f;

  __device__ float normalized(float x) const { return (x - mean) * rstd; }
};

/// Adds a pack's parts to the row's sums of gradient * weight, and of that times what was
/// normalized, and to the columns'.
template <class T, class R, int kSize>
__device__ void take_in(Pack<T, kSize> gradient, Pack<R, kSize> x, Pack<float, kSize> weight,
                        const RowNorm& norm, Totals& totals, ColumnSums<kSize>& sums) {
#pragma unroll
  for (int k = 0; k < kSize; ++k) {
    const float g = to_float(gradient.values[k]);
    const float normalized = norm.normalized(to_float(x.values[k]));
    const float weighted = g * weight.values[k];
    totals.first += weighted;
    totals.second += weighted * normalized;
    sums.weight.values[k] += g * normalized;
    sums.bias.values[k] += g;
  }
}

/// Adds what goes back through the norm; means: of the row's sums.
template <class T, class R, int kSize>
__device__ void add_gradient(Pack<float, kSize>& into, Pack<T, kSize> gradient, Pack<R, kSize> x,
                             Pack<float, kSize> weight, const RowNorm& norm, const Totals& means) {
#pragma unroll
  for (int k = 0; k < kSize; ++k) {
    const float weighted = to_float(gradient.values[k]) * weight.values[k];
    const float normalized = norm.normalized(to_float(x.values[k]));
    into.values[k] += norm.rstd * (weighted - means.first - normalized * means.second);
  }
}

/// The sums of a block's warps, one after the other, in the last warp. shared: one for each pack.
template <int kSize, int kKept>
__device__ void sum_of_warps(ColumnSums<kSize> (&own)[kKept], ColumnSums<kSize>* shared) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int turn = 0; turn < kMinThreads / kWarp; ++turn) {
    if (turn == warp) {
#pragma unroll
      for (int p = 0; p < kKept; ++p) {
        ColumnSums<kSize>& place = shared[p * kWarp + lane];
        if (turn > 0) {
#pragma unroll
          for (int k = 0; k < kSize; ++k) {
            own[p].weight.values[k] += place.weight.values[k];
            own[p].bias.values[k] += place.bias.values[k];
          }
        }
        place = own[p];
      }
    }
    __syncthreads();
  }
}

// The threads of a row take every rows()-th one and leave their block's part of the weight's and
// bias's gradients in its row of `parts`.
template <class T, class R, int kSize, int kKept>
__global__ void __launch_bounds__(kMaxThreads)
    backward_kernel(DropoutAddNormBackward call, DropoutFactors dropout, ColumnSums<kSize>* parts,
                    int threads) {
  __shared__ Totals of_warps[2][kMaxThreads / kWarp];  // in turn, so that a barrier a row is enough
  __shared__ ColumnSums<kSize> shared[kWarp * kKept];
  const Place place(threads);
  const int packs = static_cast<int>(call.columns / kSize);
  const auto columns = static_cast<float>(call.columns);
  const bool has_norm = call.grad_normalized != nullptr;
  const auto* const weights = packs_of<T, kSize>(call.weight, 0);
  ColumnSums<kSize> own[kKept] = {};
  parts += static_cast<int64_t>(blockIdx.x) * packs;
  int turn = 0;
  for (int64_t row = place.row; row < call.rows; row += place.rows(), turn = 1 - turn) {
    const int64_t begin = row * packs;
    const auto* const gradients = packs_of<T, kSize>(call.grad_normalized, begin);
    const auto* const xs = packs_of<R, kSize>(call.sum, begin);
    const auto* const grad_sums = packs_of<R, kSize>(call.grad_sum, begin);
    KeptPack<T, kSize> gradient[kKept];
    KeptPack<R, kSize> x[kKept], grad_sum[kKept];
    if (has_norm) {
      read_kept(gradient, gradients, packs, place);
      read_kept(x, xs, packs, place);
    }
    if (grad_sums != nullptr) read_kept(grad_sum, grad_sums, packs, place);
    RowNorm norm;
    Totals means = {0.0f, 0.0f};
    if (has_norm) {
      if (!call.is_rms_norm) norm.mean = call.means[row];
      norm.rstd = call.rstds[row];
      Totals totals = {0.0f, 0.0f};
#pragma unroll
      for (int p = 0; p < kKept; ++p) {
        const int i = place.pack(p);
        if (i >= packs) continue;
        take_in(gradient[p].get(), x[p].get(), factors(weights[i], call.is_1p), norm, totals,
                own[p]);
      }
      for (int i = place.pack(kKept); i < packs; i += threads) {
        ColumnSums<kSize> sums = {};
        if (row != place.row) sums = parts[i];
        take_in(gradients[i], xs[i], factors(weights[i], call.is_1p), norm, totals, sums);
        parts[i] = sums;
      }
      totals = totals_in_row(totals, place, of_warps[turn]);
      means = {call.is_rms_norm ? 0.0f : totals.first / columns, totals.second / columns};
    }
    auto* const grad_residual = packs_of<R, kSize>(call.grad_residual, begin);
    auto* const grad_branch = packs_of<T, kSize>(call.grad_branch, begin);
    const auto write = [&](int i, Pack<float, kSize> values) {
      grad_residual[i] = narrowed<R>(values);
      if (grad_branch == nullptr) return;
      drop(values, dropout, (begin + i) * kSize);
      grad_branch[i] = narrowed<T>(values);
    };
#pragma unroll
    for (int p = 0; p < kKept; ++p) {
      const int i = place.pack(p);
      if (i >= packs) continue;
      Pack<float, kSize> into = widened(grad_sum[p].get());
      if (has_norm) {
        add_gradient(into, gradient[p].get(), x[p].get(), factors(weights[i], call.is_1p), norm,
                     means);
      }
      write(i, into);
    }
    for (int i = place.pack(kKept); i < packs; i += threads) {
      Pack<float, kSize> into = {};
      if (grad_sums != nullptr) into = widened(grad_sums[i]);
      if (has_norm) {
        add_gradient(into, gradients[i], xs[i], factors(weights[i], call.is_1p), norm, means);
      }
      write(i, into);
    }
  }
  if (!has_norm) return;
  if (threads == kWarp) {
    sum_of_warps(own, shared);
    if (threadIdx.x + kWarp < blockDim.x) return;
  }
#pragma unroll
  for (int p = 0; p < kKept; ++p) {
    if (place.pack(p) < packs) parts[place.pack(p)] = own[p];
  }
}

/// Columns that a block sums, a lane each; its warps share the parts.
constexpr int kSummedColumns = kWarp;
constexpr int kColumnThreads = 1024;

// parts: `count` rows of ColumnSums<kSize>. Blocks of the weight's gradient, then of the bias's.
template <class T, int kSize>
__global__ void column_kernel(const float* parts, int64_t count, int64_t columns, bool adds,
                              void* grad_weight, void* grad_bias) {
  constexpr int kWarps = kColumnThreads / kWarp;
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

/// The number of threads that share a row.
int threads_for(int64_t packs, int kept) {
  const int64_t warps = (packs + kept * kWarp - 1) / (kept * kWarp);
  return kWarp * static_cast<int>(std::clamp<int64_t>(warps, 1, kMaxThreads / kWarp));
}

/// The number of threads of a block whose rows have `threads` each.
int block_threads(int threads) { return threads == kWarp ? kMinThreads : threads; }

int64_t backward_blocks(int64_t rows, int64_t columns) {
  return std::min((rows + kRowsOfBlock - 1) / kRowsOfBlock,
                  kBackwardThreads / block_threads(threads_for(columns / 8, kBackwardKept)));
}

template <class T, class R, int kSize>
int launch_backward(const DropoutAddNormBackward& call, float* scratch, cudaStream_t stream) {
  const int64_t blocks = backward_blocks(call.rows, call.columns);
  if (blocks > 0) {
    const int threads = threads_for(call.columns / kSize, kBackwardKept);
    const int error = launch<backward_kernel<T, R, kSize, kBackwardKept>>(
        blocks, static_cast<unsigned>(block_threads(threads)), stream, call,
        DropoutFactors(call.dropout), reinterpret_cast<ColumnSums<kSize>*>(scratch), threads);
    if (error != cudaSuccess || call.grad_normalized == nullptr) return error;
  }
  if (call.grad_normalized == nullptr) return cudaSuccess;
  const int64_t column_blocks = (call.columns + kSummedColumns - 1) / kSummedColumns;
  return launch<column_kernel<T, kSize>>(column_blocks * (call.is_rms_norm ? 1 : 2), kColumnThreads,
                                         stream, static_cast<const float*>(scratch), blocks,
                                         call.columns, call.adds_to_gradients, call.grad_weight,
                                         call.grad_bias);
}

template <int kKept, class T, class R, int kSize>
int launch_forward_of(const DropoutAddNormForward& call, cudaStream_t stream) {
  const int threads = threads_for(call.columns / kSize, kKept);
  const auto of_block = static_cast<unsigned>(block_threads(threads));
  return launch<forward_kernel<T, R, kSize, kKept>>(
      blocks_for(call.rows, of_block / threads), of_block, stream, call,
      DropoutFactors(call.dropout), threads, threads_for(call.columns / kSize, kForwardKept));
}

template <class T, class R, int kSize>
int launch_forward(const DropoutAddNormForward& call, cudaStream_t stream) {
  // Few rows, as a step of decoding has, leave most of a GPU idle: more threads for each are
  // sooner done with it.
  return call.rows < kFewRows ? launch_forward_of<1, T, R, kSize>(call, stream)
                              : launch_forward_of<kForwardKept, T, R, kSize>(call, stream);
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
bool in_packs(CudaAccess access, int64_t columns, std::initializer_list<const void*> arrays) {
  return access == CudaAccess::kVectorized && columns % kPackSize<R> == 0 &&
         std::all_of(arrays.begin(), arrays.end(), starts_at_16_bytes);
}

}  // namespace

int dropout_add_norm_forward_cuda(const DropoutAddNormForward& call, CUstream_st* stream,
                                  CudaAccess access) {
  if (call.rows == 0 || call.columns == 0) return cudaSuccess;
  return with_types(call, [&](auto zero, auto residual) -> int {
    using T = decltype(zero);
    using R = decltype(residual);
    constexpr int kSize = kPackSize<R>;
    if (in_packs<R>(
            access, call.columns,
            {call.branch, call.residual, call.weight, call.bias, call.sum, call.normalized})) {
      return launch_forward<T, R, kSize>(call, stream);
    }
    return launch_forward<T, R, 1>(call, stream);
  });
}

int64_t dropout_add_norm_scratch(int64_t rows, int64_t columns) {
  return backward_blocks(rows, columns) * columns * 2;
}

int dropout_add_norm_backward_cuda(const DropoutAddNormBackward& call, float* scratch,
                                   CUstream_st* stream, CudaAccess access) {
  if (call.columns == 0) return cudaSuccess;
  return with_types(call, [&](auto zero, auto residual) -> int {
    using T = decltype(zero);
    using R = decltype(residual);
    if (in_packs<R>(access, call.columns,
                    {call.grad_normalized, call.grad_sum, call.sum, call.weight, call.grad_residual,
                     call.grad_branch})) {
      return launch_backward<T, R, kPackSize<R>>(call, scratch, stream);
    }
    return launch_backward<T, R, 1>(call, scratch, stream);
  });
}

}  // namespace meg::kernels
