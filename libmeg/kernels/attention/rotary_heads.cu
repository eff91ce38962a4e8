#include "libmeg/kernels/attention/rotary_heads.h"
#include "libmeg/kernels/internal/cuda_floats.cuh"
#include "libmeg/kernels/internal/cuda_launch.cuh"

namespace meg::kernels {
namespace {

constexpr int kThreads = 128;

template <class T, int kSize>
__device__ Pack<T, kSize> pack_at(const void* elements, int64_t place) {
  return *reinterpret_cast<const Pack<T, kSize>*>(static_cast<const T*>(elements) + place);
}

// Two packs of a head, whose channels make kSize pairs where they turn: pair p is channels
// first(p) and second(p) of both packs together.
template <class T, int kSize, bool kInterleaved>
struct TwoPacks {
  Pack<T, kSize> packs[2];

  static __device__ int first(int pair) { return kInterleaved ? 2 * pair : pair; }

  static __device__ int second(int pair) { return kInterleaved ? 2 * pair + 1 : kSize + pair; }

  __device__ T& operator[](int i) { return packs[i / kSize].values[i % kSize]; }

  // cosine, sine: of the first channels of the pairs, at place of their packs.
  __device__ void turn(const RotaryHeads& call, int64_t place) {
    TwoPacks cosine, sine;
    cosine.packs[0] = pack_at<T, kSize>(call.cosine, place);
    sine.packs[0] = pack_at<T, kSize>(call.sine, place);
    if constexpr (kInterleaved) {
      cosine.packs[1] = pack_at<T, kSize>(call.cosine, place + kSize);
      sine.packs[1] = pack_at<T, kSize>(call.sine, place + kSize);
    }
#pragma unroll
    for (int pair = 0; pair < kSize; ++pair) {
      const float a = to_float((*this)[first(pair)]), b = to_float((*this)[second(pair)]);
      const float c = to_float(cosine[first(pair)]);
      const float s = call.turns_back ? -to_float(sine[first(pair)]) : to_float(sine[first(pair)]);
      (*this)[first(pair)] = from_float<T>(a * c - b * s);
      (*this)[second(pair)] = from_float<T>(b * c + a * s);
    }
  }
};

__device__ int64_t place_of(const HeadStrides& strides, int64_t row, int64_t token, unsigned group,
                            unsigned head) {
  return row * strides.row + token * strides.token + group * strides.group + head * strides.head;
}

// A block a token.
template <class T, int kSize, bool kInterleaved>
__global__ void __launch_bounds__(kThreads) copy_kernel(const RotaryHeads call) {
  const int64_t row = blockIdx.x / call.tokens;
  const int64_t token = blockIdx.x - row * call.tokens;
  const auto units = static_cast<unsigned>((call.channels + 2 * kSize - 1) / (2 * kSize));
  const auto turned_units = static_cast<unsigned>(call.turned / (2 * kSize));
#pragma unroll
  for (const HeadCopy& copy : call.copies) {
    if (copy.to == nullptr) continue;
    const auto heads = static_cast<unsigned>(copy.heads);
    const unsigned count = static_cast<unsigned>(call.groups) * heads * units;
    for (unsigned i = threadIdx.x; i < count; i += kThreads) {
      const unsigned unit = i % units, head = i / units;
      const int64_t from = place_of(copy.from_strides, row, token, head / heads, head % heads);
      const int64_t to = place_of(copy.to_strides, row, token, head / heads, head % heads);
      const bool is_together = kInterleaved || unit >= turned_units;
      const int64_t first = (is_together ? 2 : 1) * kSize * static_cast<int64_t>(unit);
      const int64_t second = first + (is_together ? kSize : call.turned / 2);
      const bool has_second = kSize > 1 || second < call.channels;  // not the last of an odd number
      TwoPacks<T, kSize, kInterleaved> channels = {};
      channels.packs[0] = pack_at<T, kSize>(copy.from, from + first);
      if (has_second) channels.packs[1] = pack_at<T, kSize>(copy.from, from + second);
      if (copy.is_turned && unit < turned_units) {
        channels.turn(call, token * call.turned + first);
      }
      auto* const target = static_cast<T*>(copy.to) + to;
      *reinterpret_cast<Pack<T, kSize>*>(target + first) = channels.packs[0];
      if (has_second) *reinterpret_cast<Pack<T, kSize>*>(target + second) = channels.packs[1];
    }
  }
}

bool is_in_packs(const HeadStrides& strides, int64_t size) {
  return strides.row % size == 0 && strides.token % size == 0 && strides.group % size == 0 &&
         strides.head % size == 0;
}

bool is_in_packs(const RotaryHeads& call, int64_t size) {
  for (const HeadCopy& copy : call.copies) {
    if (!starts_at_16_bytes(copy.from) || !starts_at_16_bytes(copy.to) ||
        !is_in_packs(copy.from_strides, size) || !is_in_packs(copy.to_strides, size)) {
      return false;
    }
  }
  return starts_at_16_bytes(call.cosine) && starts_at_16_bytes(call.sine) &&
         call.channels % (2 * size) == 0 && call.turned % (2 * size) == 0;
}

template <class T, int kSize>
int launch_copy(const RotaryHeads& call, cudaStream_t stream) {
  const int64_t blocks = call.rows * call.tokens;
  return call.interleaved ? launch<copy_kernel<T, kSize, true>>(blocks, kThreads, stream, call)
                          : launch<copy_kernel<T, kSize, false>>(blocks, kThreads, stream, call);
}

}  // namespace

int rotary_heads_cuda(const RotaryHeads& call, CUstream_st* stream, CudaAccess access) {
  if (call.rows == 0 || call.tokens == 0) return cudaSuccess;
  return with_float_type(call.type, [&](auto zero) -> int {
    using T = decltype(zero);
    return access == CudaAccess::kVectorized && is_in_packs(call, kPackSize<T>)
               ? launch_copy<T, kPackSize<T>>(call, stream)
               : launch_copy<T, 1>(call, stream);
  });
}

}  // namespace meg::kernels
