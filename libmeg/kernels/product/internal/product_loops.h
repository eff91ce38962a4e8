#pragma once

#include "libmeg/kernels/internal/float_vector.h"
#include "libmeg/kernels/product/internal/product_kernels.h"

// ProductKernels::product and weighted_sum, for the instruction set of the file that includes this.

namespace meg::kernels {
namespace {

/// Rows of the input and of the weight whose products a tile keeps in registers: with AVX-512 4 x 6
/// sums, 4 inputs and a weight are 29 of 32. 8 x 3 was slower (docs/performance.md, "Generation").
constexpr int64_t kTileRows = 4;
#if defined(__AVX512F__)
constexpr int64_t kTileColumns = 6;
#elif defined(__AVX2__)
constexpr int64_t kTileColumns = 3;
#else
constexpr int64_t kTileColumns = 2;
#endif
constexpr int64_t kCacheLine = 64;

/// a * b + c, rounded once if the processor can do that.
inline Floats multiply_add(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

/// The sum of all lanes, halves first.
inline float sum_of_lanes(Floats values) {
#ifdef __SSE2__
#if defined(__AVX512F__)
  // g++ 12 warns of the intrinsics that cut a vector in halves.
  const HalfFloats half = __builtin_shufflevector(values, values, 0, 1, 2, 3, 4, 5, 6, 7) +
                          __builtin_shufflevector(values, values, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#elif defined(__AVX2__)
  const __m128 quarter =
      _mm_add_ps(_mm256_castps256_ps128(values), _mm256_extractf128_ps(values, 1));
#else
  const __m128 quarter = values;
#endif
  const __m128 pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_shuffle_ps(pair, pair, 1)));
#else
  float sum = 0;
  for (int64_t lane = 0; lane < kLanes; ++lane) sum += values[lane];
  return sum;
#endif
}

/// Prefetches memory that will be needed soon, a little at each step.
struct Ahead {
  const char* at;
  int64_t lines;  ///< Cache lines prefetched at each step.

  inline void step() {
    for (int64_t line = 0; line < lines; ++line, at += kCacheLine) __builtin_prefetch(at, 0, 2);
  }
};

/// Products of kRows rows of `input` and kColumns rows of `weight`. Every product sums in the same
/// order whatever the tile's size, so that no row depends on its neighbours.
template <int64_t kRows, int64_t kColumns>
inline void tile(const ProductCall& call, const float* input, const float* weight, float* output,
                 Ahead ahead) {
  Floats sums[kRows][kColumns] = {};
  const auto add = [&](auto read) __attribute__((always_inline)) {
    Floats inputs[kRows];
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) inputs[r] = read(input + r * call.input_stride);
#pragma GCC unroll 8
    for (int64_t c = 0; c < kColumns; ++c) {
      const Floats weights = read(weight + c * call.depth);
#pragma GCC unroll 8
      for (int64_t r = 0; r < kRows; ++r) {
        sums[r][c] = multiply_add(inputs[r], weights, sums[r][c]);
      }
    }
  };
  int64_t i = 0;
  for (; i + kLanes <= call.depth; i += kLanes) {
    ahead.step();
    add([i](const float* from) { return load(from + i); });
  }
  const int64_t rest = call.depth - i;
  if (rest > 0) add([i, rest](const float* from) { return load_first(from + i, rest); });
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kColumns; ++c) {
      output[r * call.output_stride + c] = sum_of_lanes(sums[r][c]);
    }
  }
}

template <int64_t kColumns>
inline void tiles_of_columns(const ProductCall& call, const float* weight, float* output,
                             int64_t lines_ahead) {
  const auto* next = reinterpret_cast<const char*>(weight + kColumns * call.depth);
  int64_t r = 0;
  for (; r + kTileRows <= call.rows; r += kTileRows) {
    tile<kTileRows, kColumns>(call, call.input + r * call.input_stride, weight,
                              output + r * call.output_stride, {next, lines_ahead});
    next += lines_ahead * kCacheLine * (call.depth / kLanes);
  }
  const float* input = call.input + r * call.input_stride;
  float* to = output + r * call.output_stride;
  const Ahead ahead{next, lines_ahead};
  if (call.rows - r == 1) tile<1, kColumns>(call, input, weight, to, ahead);
  if (call.rows - r == 2) tile<2, kColumns>(call, input, weight, to, ahead);
  if (call.rows - r == 3) tile<3, kColumns>(call, input, weight, to, ahead);
}

void product(const ProductCall& call) {
  // Prefetch into the second-level cache: 77 GFLOP/s instead of 57; into the first-level one, where
  // it pushes out the tile in use, 60.
  // While one tile of the weight is multiplied, the next one comes from memory.
  const int64_t blocks = (call.rows + kTileRows - 1) / kTileRows;
  const int64_t lines_ahead =
      (kTileColumns * kVectorBytes + blocks * kCacheLine - 1) / (blocks * kCacheLine);
  int64_t c = 0;
  for (; c + kTileColumns <= call.columns; c += kTileColumns) {
    const bool is_last = c + 2 * kTileColumns > call.columns;
    tiles_of_columns<kTileColumns>(call, call.weight + c * call.depth, call.output + c,
                                   is_last ? 0 : lines_ahead);
  }
  for (; c < call.columns; ++c) {
    tiles_of_columns<1>(call, call.weight + c * call.depth, call.output + c, 0);
  }
}

void weighted_sum(const float* weights, const float* rows, int64_t count, int64_t depth,
                  float* output) {
  int64_t i = 0;
  for (; i + 4 * kLanes <= depth; i += 4 * kLanes) {
    Floats sums[4];
    for (int64_t part = 0; part < 4; ++part) sums[part] = load(output + i + part * kLanes);
    for (int64_t row = 0; row < count; ++row) {
      const Floats weight = broadcast(weights[row]);
      const float* values = rows + row * depth + i;
      for (int64_t part = 0; part < 4; ++part) {
        sums[part] = multiply_add(weight, load(values + part * kLanes), sums[part]);
      }
    }
    for (int64_t part = 0; part < 4; ++part) store(output + i + part * kLanes, sums[part]);
  }
  for (; i < depth; i += kLanes) {
    const int64_t rest = depth - i < kLanes ? depth - i : kLanes;
    Floats sum = load_first(output + i, rest);
    for (int64_t row = 0; row < count; ++row) {
      sum = multiply_add(broadcast(weights[row]), load_first(rows + row * depth + i, rest), sum);
    }
    store_first(output + i, sum, rest);
  }
}

}  // namespace
}  // namespace meg::kernels
