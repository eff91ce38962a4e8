#include <algorithm>

#include "libmeg/kernels/attention/cached_attention.h"
#include "libmeg/kernels/internal/cuda_floats.cuh"
#include "libmeg/kernels/internal/cuda_launch.cuh"

namespace meg::kernels {
namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 8;
/// Keys of one head that a block takes. Cut at the same places whatever the batch, so that a row's
/// result is its own.
constexpr int64_t kBlockKeys = 512;

/// Packs of a head that a lane may have to hold.
template <int kSize>
constexpr int kLanePacks = static_cast<int>(kMaxCachedDepth) / kWarp / kSize;

/// The softmax and its sum of values over some keys, as lanes that share a key hold it: each has
/// its packs of the values.
template <int kSize>
struct Sums {
  float maximum = -INFINITY;
  float sum = 0.0f;
  Pack<float, kSize> values[kLanePacks<kSize>] = {};
};

/// The factor that brings a sum from one maximum to another; 1 also between two -infinities.
template <class T>
__device__ float rescale(float from, float to) {
  return from == to ? 1.0f : exponential<T>(from - to);
}

/// How the lanes of a warp share keys: `lanes` of them, a power of two, take the packs of one in
/// turn.
struct LaneShare {
  int lanes, key, place;

  __device__ LaneShare(int lanes_of_key)
      : lanes(lanes_of_key),
        key(static_cast<int>(threadIdx.x) % kWarp / lanes_of_key),
        place(static_cast<int>(threadIdx.x) % lanes_of_key) {}

  __device__ int keys_at_once() const { return kWarp / lanes; }
};

/// A lane's packs of one head.
template <class T, int kSize>
__device__ void read(const T* head, int64_t packs, const LaneShare& share,
                     Pack<T, kSize> (&found)[kLanePacks<kSize>]) {
#pragma unroll
  for (int j = 0; j < kLanePacks<kSize>; ++j) {
    const int pack = share.place + j * share.lanes;
    found[j] =
        pack < packs ? reinterpret_cast<const Pack<T, kSize>*>(head)[pack] : Pack<T, kSize>{};
  }
}

template <class T, int kSize>
__device__ float part_of_product(const Pack<T, kSize> (&a)[kLanePacks<kSize>],
                                 const Pack<T, kSize> (&b)[kLanePacks<kSize>]) {
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < kLanePacks<kSize>; ++j) {
#pragma unroll
    for (int k = 0; k < kSize; ++k) sum += to_float(a[j].values[k]) * to_float(b[j].values[k]);
  }
  return sum;
}

template <class T, int kSize>
__device__ void take_in(Sums<kSize>& sums, float score,
                        const Pack<T, kSize> (&values)[kLanePacks<kSize>]) {
  const float maximum = fmaxf(sums.maximum, score);
  const float before = rescale<T>(sums.maximum, maximum), factor = rescale<T>(score, maximum);
  sums.maximum = maximum;
  sums.sum = sums.sum * before + factor;
#pragma unroll
  for (int j = 0; j < kLanePacks<kSize>; ++j) {
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      float& value = sums.values[j].values[k];
      value = value * before + to_float(values[j].values[k]) * factor;
    }
  }
}

/// Adds what lanes that hold the same packs of other keys have; all lanes of the warp come.
template <class T, int kSize>
__device__ void merge_in_warp(Sums<kSize>& sums, const LaneShare& share) {
  for (int distance = share.lanes; distance < kWarp; distance *= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, sums.maximum, distance);
    const float maximum = fmaxf(sums.maximum, other);
    const float own = rescale<T>(sums.maximum, maximum), theirs = rescale<T>(other, maximum);
    sums.maximum = maximum;
    sums.sum = sums.sum * own + __shfl_xor_sync(0xffffffffu, sums.sum, distance) * theirs;
#pragma unroll
    for (int j = 0; j < kLanePacks<kSize>; ++j) {
#pragma unroll
      for (int k = 0; k < kSize; ++k) {
        float& value = sums.values[j].values[k];
        value = value * own + __shfl_xor_sync(0xffffffffu, value, distance) * theirs;
      }
    }
  }
}

/// One head of one row, and which of its keys a block takes.
struct Unit {
  int64_t row, head, group, part, begin, end;
  bool has_newest;  ///< The row's own key is the last of these.

  __device__ Unit(const CachedAttention& call, int64_t parts) {
    part = blockIdx.x % parts;
    head = blockIdx.x / parts % call.heads;
    row = blockIdx.x / parts / call.heads;
    group = head / (call.heads / call.groups);
    const int64_t length = call.lengths[row];
    begin = part * kBlockKeys;
    end = begin + kBlockKeys < length ? begin + kBlockKeys : length;
    has_newest = end == length;
  }
};

template <class T>
__device__ const T* head_of(const HeadRows& heads, int64_t row, int64_t head) {
  return static_cast<const T*>(heads.data) + row * heads.row_stride + head * heads.head_stride;
}

/// Sums over the unit's keys that fall to a warp.
template <class T, int kSize>
__device__ Sums<kSize> sums_of_warp(const CachedAttention& call, const Unit& unit,
                                    const LaneShare& share) {
  const int64_t packs = call.depth / kSize;
  const int64_t cached = (call.slots[unit.row] * call.groups + unit.group) * call.capacity;
  const T* const new_key = head_of<T>(call.new_keys, unit.row, unit.group);
  const T* const new_value = head_of<T>(call.new_values, unit.row, unit.group);
  Pack<T, kSize> query[kLanePacks<kSize>], of_key[kLanePacks<kSize>], of_value[kLanePacks<kSize>];
  read<T, kSize>(head_of<T>(call.queries, unit.row, unit.head), packs, share, query);
  Sums<kSize> sums;
  const int64_t step = kWarps * share.keys_at_once();
  for (int64_t first = unit.begin + threadIdx.x / kWarp * share.keys_at_once(); first < unit.end;
       first += step) {
    const int64_t key = first + share.key;
    const bool exists = key < unit.end;
    const bool is_newest = unit.has_newest && key == unit.end - 1;
    const int64_t place = (cached + (exists ? key : unit.begin)) * call.depth;
    read<T, kSize>(is_newest ? new_key : static_cast<const T*>(call.keys) + place, packs, share,
                   of_key);
    read<T, kSize>(is_newest ? new_value : static_cast<const T*>(call.values) + place, packs, share,
                   of_value);
    float score = part_of_product<T, kSize>(query, of_key);
    for (int distance = share.lanes / 2; distance > 0; distance /= 2) {
      score += __shfl_xor_sync(0xffffffffu, score, distance);
    }
    if (exists) take_in<T, kSize>(sums, score * call.scale, of_value);
  }
  merge_in_warp<T, kSize>(sums, share);
  return sums;
}

/// Only the block of a group's first head writes: no other reads them there in this launch.
template <class T>
__device__ void keep_newest(const CachedAttention& call, const Unit& unit) {
  if (!unit.has_newest || unit.head % (call.heads / call.groups) != 0) return;
  const int64_t place =
      ((call.slots[unit.row] * call.groups + unit.group) * call.capacity + unit.end - 1) *
      call.depth;
  for (int64_t i = threadIdx.x; i < call.depth; i += blockDim.x) {
    static_cast<T*>(call.keys)[place + i] = head_of<T>(call.new_keys, unit.row, unit.group)[i];
    static_cast<T*>(call.values)[place + i] = head_of<T>(call.new_values, unit.row, unit.group)[i];
  }
}

/// A part's maximum, sum and values in the scratch.
__device__ float* scratch_of(float* scratch, int64_t depth, int64_t part) {
  return scratch + part * (depth + 2);
}

// A block for kBlockKeys keys of a head of a row: all of them where there is one part; else the
// result waits in the scratch for the other parts'.
template <class T, int kSize>
__global__ void __launch_bounds__(kWarps* kWarp)
    part_kernel(CachedAttention call, int lanes, int64_t parts, float* scratch) {
  __shared__ float maxima[kWarps], weights[kWarps];
  __shared__ float values[kWarps][kMaxCachedDepth];
  const Unit unit(call, parts);
  if (unit.begin >= unit.end) return;
  keep_newest<T>(call, unit);
  const LaneShare share(lanes);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const Sums<kSize> sums = sums_of_warp<T, kSize>(call, unit, share);
  if (share.key == 0) {
    maxima[warp] = sums.maximum;
    weights[warp] = sums.sum;
#pragma unroll
    for (int j = 0; j < kLanePacks<kSize>; ++j) {
      const int first = (share.place + j * share.lanes) * kSize;
#pragma unroll
      for (int k = 0; k < kSize; ++k) {
        if (first + k < call.depth) values[warp][first + k] = sums.values[j].values[k];
      }
    }
  }
  __syncthreads();
  float maximum = -INFINITY, sum = 0.0f;
  for (const float of_warp : maxima) maximum = fmaxf(maximum, of_warp);
  for (int w = 0; w < kWarps; ++w) sum += weights[w] * rescale<T>(maxima[w], maximum);
  float* const kept = scratch_of(scratch, call.depth, blockIdx.x);
  for (int64_t i = threadIdx.x; i < call.depth; i += blockDim.x) {
    float value = 0.0f;
    for (int w = 0; w < kWarps; ++w) value += values[w][i] * rescale<T>(maxima[w], maximum);
    if (parts > 1) {
      kept[2 + i] = value;
    } else {
      static_cast<T*>(call.output)[blockIdx.x * call.depth + i] = from_float<T>(value / sum);
    }
  }
  if (parts == 1 || threadIdx.x != 0) return;
  kept[0] = maximum;
  kept[1] = sum;
}

// A block a head of a row.
template <class T>
__global__ void merge_kernel(CachedAttention call, int64_t parts, const float* scratch) {
  const int64_t length = call.lengths[blockIdx.x / call.heads];
  const int64_t own = (length + kBlockKeys - 1) / kBlockKeys;
  const int64_t stride = call.depth + 2;
  const float* const first = scratch + blockIdx.x * parts * stride;
  float maximum = -INFINITY;
  for (int64_t part = 0; part < own; ++part) maximum = fmaxf(maximum, first[part * stride]);
  for (int64_t i = threadIdx.x; own > 0 && i < call.depth; i += blockDim.x) {
    float value = 0.0f, sum = 0.0f;
    for (int64_t part = 0; part < own; ++part) {
      const float* const kept = first + part * stride;
      const float factor = rescale<T>(kept[0], maximum);
      sum += kept[1] * factor;
      value += kept[2 + i] * factor;
    }
    static_cast<T*>(call.output)[blockIdx.x * call.depth + i] = from_float<T>(value / sum);
  }
}

int64_t parts_for(int64_t longest) { return (longest + kBlockKeys - 1) / kBlockKeys; }

template <class T, int kSize>
int launch_parts(const CachedAttention& call, int64_t longest, float* scratch,
                 cudaStream_t stream) {
  int lanes = 1;
  while (lanes < kWarp && lanes * kSize < call.depth) lanes *= 2;
  const int64_t parts = parts_for(longest), heads = call.rows * call.heads;
  const int error = launch<part_kernel<T, kSize>>(heads * parts, kWarps * kWarp, stream, call,
                                                  lanes, parts, scratch);
  if (error != cudaSuccess || parts == 1) return error;
  return launch<merge_kernel<T>>(heads, kWarps * kWarp, stream, call, parts,
                                 static_cast<const float*>(scratch));
}

template <class T>
bool in_packs(const HeadRows& heads) {
  return starts_at_16_bytes(heads.data) && heads.row_stride % kPackSize<T> == 0 &&
         heads.head_stride % kPackSize<T> == 0;
}

}  // namespace

int64_t cached_attention_scratch(const CachedAttention& call, int64_t longest) {
  const int64_t parts = parts_for(longest);
  return parts > 1 ? call.rows * call.heads * parts * (call.depth + 2) : 0;
}

int cached_attention_cuda(const CachedAttention& call, int64_t longest, float* scratch,
                          CUstream_st* stream, CudaAccess access) {
  if (call.depth > kMaxCachedDepth) return cudaErrorInvalidConfiguration;
  if (call.rows == 0 || call.heads == 0 || call.depth == 0 || longest == 0) return cudaSuccess;
  return with_float_type(call.type, [&](auto zero) -> int {
    using T = decltype(zero);
    const bool packs = access == CudaAccess::kVectorized && call.depth % kPackSize<T> == 0 &&
                       in_packs<T>(call.queries) && in_packs<T>(call.new_keys) &&
                       in_packs<T>(call.new_values) && starts_at_16_bytes(call.keys) &&
                       starts_at_16_bytes(call.values);
    return packs ? launch_parts<T, kPackSize<T>>(call, longest, scratch, stream)
                 : launch_parts<T, 1>(call, longest, scratch, stream);
  });
}

}  // namespace meg::kernels
