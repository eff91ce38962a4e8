#include <algorithm>
#include <utility>

#include "libmeg/kernels/embedding_backward.h"
#include "libmeg/kernels/internal/cuda_floats.cuh"
#include "libmeg/kernels/internal/cuda_launch.cuh"

namespace meg::kernels {
namespace {

constexpr int kThreads = 256;

/// Threads that share the comparisons of one lookup with the others of its run: a part of a warp.
constexpr int kSharing = 16;

/// Lookups that are sorted by comparing each with all others, which is sooner done than the passes
/// of a radix sort.
constexpr int64_t kRun = 2048;
/// Sorted runs that one launch merges into one.
constexpr int64_t kMerged = 8;

/// An id and the place of its lookup. Ordered by these numbers, of which no two are equal, lookups
/// are sorted stably by their ids. 32 bits each: the table would not fit into memory before its
/// rows are more, and launch() refuses more lookups.
__device__ int64_t key_of(int64_t id, int64_t lookup) { return id * (int64_t{1} << 32) + lookup; }

__device__ int64_t id_of(int64_t key) { return key >> 32; }

__device__ int64_t lookup_of(int64_t key) { return key & 0xffffffff; }

/// The first place in a sorted range of keys, [begin, end), whose key is not below this one.
__device__ int64_t place_in(const int64_t* keys, int64_t begin, int64_t end, int64_t key) {
  while (begin < end) {
    const int64_t middle = (begin + end) / 2;
    if (keys[middle] < key) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

/// Where a block finds the lookups of its id.
struct Lookups {
  int64_t* keys = nullptr;  ///< Sorted; nullptr: an id's lookups stand `period` apart.
  /// At places where a part begins: the lookups of the id from there on; 0 at others. Unused
  /// without keys.
  int64_t* lengths = nullptr;

  __device__ int64_t id(int64_t place) const {
    return keys == nullptr ? place : id_of(keys[place]);
  }

  __device__ int64_t length(const EmbeddingBackward& call, int64_t place) const {
    return keys == nullptr ? call.count / call.period : lengths[place];
  }

  __device__ int64_t at(const EmbeddingBackward& call, int64_t place, int64_t i) const {
    return keys == nullptr ? place + i * call.period : lookup_of(keys[place + i]);
  }

  /// Whether the id of this place, where a part begins, has a part before it.
  __device__ bool has_part_before(int64_t place) const {
    return place >= kLookupsOfPart && id(place - kLookupsOfPart) == id(place);
  }
};

/// The sums of parts of ids that have several.
struct Parts {
  float* sums = nullptr;
  int64_t count = 0;  ///< of lookups

  /// Parts that another of their id follows are full: no two begin within kLookupsOfPart places.
  static __host__ __device__ int64_t followed(int64_t lookups) {
    return lookups / kLookupsOfPart + 1;
  }

  /// The row for the part that begins at this place; the last of an id has its row by the one
  /// before it.
  __device__ int64_t row(int64_t place, bool is_last) const {
    return is_last ? followed(count) + (place - kLookupsOfPart) / kLookupsOfPart
                   : place / kLookupsOfPart;
  }
};

// Sorts each run by counting: a lookup's place follows from the number of smaller keys. If all
// lookups are one run, lengths are written, too.
__global__ void order_kernel(const int64_t* ids, int64_t count, int64_t* keys, int64_t* lengths) {
  const int64_t i = thread_in_grid() / kSharing;
  const int lane = static_cast<int>(threadIdx.x) % kSharing;
  const int64_t id = i < count ? ids[i] : 0;
  const int64_t begin = i / kRun * kRun;
  const int64_t end = begin + kRun < count ? begin + kRun : count;
  int smaller = 0, same_before = 0, same = 0;
#pragma unroll 8
  for (int64_t j = begin + lane; j < end; j += kSharing) {
    const int64_t other = ids[j];
    smaller += other < id;
    same += other == id;
    same_before += other == id && j < i;
  }
  for (int distance = kSharing / 2; distance > 0; distance /= 2) {
    smaller += __shfl_xor_sync(0xffffffffu, smaller, distance);
    same += __shfl_xor_sync(0xffffffffu, same, distance);
    same_before += __shfl_xor_sync(0xffffffffu, same_before, distance);
  }
  if (lane != 0 || i >= count) return;
  const int64_t place = begin + smaller + same_before;
  keys[place] = key_of(id, i);
  if (count <= kRun) lengths[place] = same_before % kLookupsOfPart == 0 ? same - same_before : 0;
}

// Merges each kMerged sorted runs: a key's place follows from its places in all of them.
__global__ void merge_kernel(const int64_t* from, int64_t* to, int64_t count, int64_t run) {
  const int64_t i = thread_in_grid();
  if (i >= count) return;
  const int64_t key = from[i], own = i / run, first = own / kMerged * kMerged;
  int64_t place = first * run + (i - own * run);
  for (int64_t other = first; other < first + kMerged; ++other) {
    const int64_t begin = other * run;
    if (other == own || begin >= count) continue;
    place += place_in(from, begin, begin + run < count ? begin + run : count, key) - begin;
  }
  to[place] = key;
}

__global__ void length_kernel(Lookups lookups, int64_t count) {
  const int64_t i = thread_in_grid();
  if (i >= count) return;
  const int64_t id = id_of(lookups.keys[i]);
  const int64_t begin = place_in(lookups.keys, 0, i, key_of(id, 0));
  const int64_t end = place_in(lookups.keys, i, count, key_of(id + 1, 0));
  lookups.lengths[i] = (i - begin) % kLookupsOfPart == 0 ? end - i : 0;
}

template <int kSize>
__device__ void add(Pack<float, kSize>& sum, const Pack<float, kSize>& other) {
#pragma unroll
  for (int k = 0; k < kSize; ++k) sum.values[k] += other.values[k];
}

/// Writes the sum of an id's lookups, or adds it.
template <class T, int kSize>
__device__ void put(const EmbeddingBackward& call, int64_t place, Pack<float, kSize> sum) {
  if (call.adds) {
    auto* const weights = static_cast<Pack<float, kSize>*>(call.grad_weight);
    add(sum, weights[place]);
    weights[place] = sum;
    return;
  }
  Pack<T, kSize> rounded;
#pragma unroll
  for (int k = 0; k < kSize; ++k) rounded.values[k] = from_float<T>(sum.values[k]);
  static_cast<Pack<T, kSize>*>(call.grad_weight)[place] = rounded;
}

/// The sum of one pack of columns over lookups [begin, end) of those at `place`.
template <class T, int kSize>
__device__ Pack<float, kSize> sum_of(const EmbeddingBackward& call, const Lookups& lookups,
                                     int64_t place, int64_t begin, int64_t end, int64_t column) {
  const int64_t packs = call.columns / kSize;
  Pack<float, kSize> sum = {};
#pragma unroll 8
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = lookups.at(call, place, i);
    const auto gradient = static_cast<const Pack<T, kSize>*>(call.gradients)[row * packs + column];
#pragma unroll
    for (int k = 0; k < kSize; ++k) sum.values[k] += to_float(gradient.values[k]);
  }
  return sum;
}

// A block a place in the order, or an id of the period; those where no part begins have nothing to
// do. A part of several goes to `parts`.
template <class T, int kSize>
__global__ void sum_kernel(EmbeddingBackward call, Lookups lookups, Parts parts) {
  const int64_t place = blockIdx.x;
  const int64_t length = lookups.length(call, place);
  if (length == 0) return;
  const int64_t packs = call.columns / kSize;
  const int64_t id = lookups.id(place);
  const bool is_followed = lookups.keys != nullptr && length > kLookupsOfPart;
  const bool is_last = lookups.keys != nullptr && !is_followed && lookups.has_part_before(place);
  for (int64_t column = threadIdx.x; column < packs; column += blockDim.x) {
    if (is_followed || is_last) {
      const int64_t end = is_followed ? kLookupsOfPart : length;
      reinterpret_cast<Pack<float, kSize>*>(
          parts.sums)[parts.row(place, is_last) * packs + column] =
          sum_of<T, kSize>(call, lookups, place, 0, end, column);
      continue;
    }
    Pack<float, kSize> sum = {};
    for (int64_t begin = 0; begin < length; begin += kLookupsOfPart) {
      const int64_t end = begin + kLookupsOfPart < length ? begin + kLookupsOfPart : length;
      add(sum, sum_of<T, kSize>(call, lookups, place, begin, end, column));
    }
    put<T, kSize>(call, id * packs + column, sum);
  }
}

// A block for each kLookupsOfPart places, among which at most one id of several parts begins, and
// each blockDim.x packs.
template <class T, int kSize>
__global__ void part_kernel(EmbeddingBackward call, Lookups lookups, Parts parts) {
  const int64_t packs = call.columns / kSize;
  const int64_t shares = (packs + blockDim.x - 1) / blockDim.x;
  const int64_t begin = blockIdx.x / shares * kLookupsOfPart;
  const int64_t end = begin + kLookupsOfPart < call.count ? begin + kLookupsOfPart : call.count;
  const int64_t column = blockIdx.x % shares * blockDim.x + threadIdx.x;
  if (column >= packs) return;
  const auto* const sums = reinterpret_cast<const Pack<float, kSize>*>(parts.sums) + column;
  for (int64_t place = begin; place < end; ++place) {
    if (lookups.lengths[place] <= kLookupsOfPart || lookups.has_part_before(place)) continue;
    const int64_t length = lookups.lengths[place];
    Pack<float, kSize> sum = {};
    for (int64_t i = 0; i < length; i += kLookupsOfPart) {
      add(sum, sums[parts.row(place + i, /*is_last=*/i + kLookupsOfPart >= length) * packs]);
    }
    put<T, kSize>(call, lookups.id(place) * packs + column, sum);
  }
}

/// Fills the lookups' keys and lengths.
int launch_sort(const EmbeddingBackward& call, const Lookups& lookups, cudaStream_t stream) {
  int merges = 0;
  for (int64_t run = kRun; run < call.count; run *= kMerged) ++merges;
  // Merges go from one array to the other and end in the keys.
  int64_t *from = lookups.keys, *to = lookups.lengths;
  if (merges % 2 == 1) std::swap(from, to);
  int error = launch<order_kernel>(blocks_for(call.count * kSharing, kThreads), kThreads, stream,
                                   call.ids, call.count, from, lookups.lengths);
  if (merges == 0) return error;
  const int64_t blocks = blocks_for(call.count, kThreads);
  for (int64_t run = kRun; run < call.count && error == cudaSuccess; run *= kMerged) {
    error = launch<merge_kernel>(blocks, kThreads, stream, static_cast<const int64_t*>(from), to,
                                 call.count, run);
    std::swap(from, to);
  }
  if (error != cudaSuccess) return error;
  return launch<length_kernel>(blocks, kThreads, stream, lookups, call.count);
}

template <class T, int kSize>
int launch_sums(const EmbeddingBackward& call, const Lookups& lookups, const Parts& parts,
                cudaStream_t stream) {
  const int64_t packs = call.columns / kSize;
  const auto threads = static_cast<unsigned>(std::clamp<int64_t>((packs + 31) / 32 * 32, 32, 1024));
  const int error = launch<sum_kernel<T, kSize>>(lookups.keys == nullptr ? call.period : call.count,
                                                 threads, stream, call, lookups, parts);
  if (error != cudaSuccess || parts.sums == nullptr) return error;
  const unsigned of_parts = std::min(threads, 128U);
  return launch<part_kernel<T, kSize>>(
      blocks_for(call.count, kLookupsOfPart) * blocks_for(packs, of_parts), of_parts, stream, call,
      lookups, parts);
}

/// fp32 elements for the sums of parts.
int64_t elements_of_parts(const EmbeddingBackward& call) {
  if (call.ids == nullptr || call.count <= kLookupsOfPart) return 0;
  return 2 * Parts::followed(call.count) * call.columns;
}

}  // namespace

int64_t embedding_backward_scratch(const EmbeddingBackward& call) {
  return call.ids == nullptr ? 0 : 2 * call.count + elements_of_parts(call) / 2;
}

int embedding_backward_cuda(const EmbeddingBackward& call, int64_t* scratch, CUstream_st* stream,
                            CudaAccess access) {
  if (call.count == 0 || call.columns == 0) return cudaSuccess;
  Lookups lookups;
  Parts parts;
  if (call.ids != nullptr) {
    // The sums come first, as they are read in packs.
    const int64_t elements = elements_of_parts(call);
    if (elements > 0) parts = {reinterpret_cast<float*>(scratch), call.count};
    lookups = {scratch + elements / 2, scratch + elements / 2 + call.count};
    if (const int error = launch_sort(call, lookups, stream); error != cudaSuccess) return error;
  }
  return with_float_type(call.type, [&](auto zero) -> int {
    using T = decltype(zero);
    // Twice as wide where sums are fp32 beside 16-bit gradients.
    const bool in_packs = access == CudaAccess::kVectorized && call.columns % kPackSize<T> == 0 &&
                          starts_at_16_bytes(call.gradients) &&
                          reinterpret_cast<uintptr_t>(call.grad_weight) % 32 == 0;
    return in_packs ? launch_sums<T, kPackSize<T>>(call, lookups, parts, stream)
                    : launch_sums<T, 1>(call, lookups, parts, stream);
  });
}

}  // namespace meg::kernels
