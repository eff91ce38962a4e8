#pragma once

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <immintrin.h>
#endif

// Vectors as wide as the file that includes this is compiled for. Only the cpu_loops*.cpp files do:
// everything here is local to them, and they use no inline function of the standard library,
// because the linker would keep one copy of it for all processors.

namespace meg::kernels {
namespace {

#if defined(__AVX512F__)
constexpr int64_t kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int64_t kVectorBytes = 32;
#else
constexpr int64_t kVectorBytes = 16;
#endif
constexpr int64_t kLanes = kVectorBytes / 4;
constexpr int64_t kDoubleLanes = kVectorBytes / 8;
/// Sums run in this many lanes with every instruction set, so that all give the same bits.
constexpr int64_t kSumLanes = 16;

// clang's `using` loses `aligned(4)`. NOLINTBEGIN(modernize-use-using)
typedef float Floats __attribute__((vector_size(kVectorBytes)));
typedef float UnalignedFloats __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
typedef int32_t Integers __attribute__((vector_size(kVectorBytes)));
typedef double Doubles __attribute__((vector_size(kVectorBytes)));
typedef float HalfFloats __attribute__((vector_size(kVectorBytes / 2)));
typedef float UnalignedHalfFloats
    __attribute__((vector_size(kVectorBytes / 2), aligned(4), may_alias));

// NOLINTEND(modernize-use-using)

inline Floats load(const float* from) { return *reinterpret_cast<const UnalignedFloats*>(from); }

inline void store(float* to, Floats values) { *reinterpret_cast<UnalignedFloats*>(to) = values; }

/// Loads the first `count` lanes from memory and sets the rest to zero.
inline Floats load_first(const float* from, int64_t count) {
  Floats values{};
  if (count > 0) std::memcpy(&values, from, static_cast<size_t>(count) * sizeof(float));
  return values;
}

inline void store_first(float* to, Floats values, int64_t count) {
  if (count > 0) std::memcpy(to, &values, static_cast<size_t>(count) * sizeof(float));
}

inline Doubles load_doubles(const float* from) {
  const HalfFloats values = *reinterpret_cast<const UnalignedHalfFloats*>(from);
  return __builtin_convertvector(values, Doubles);
}

inline Floats broadcast(float value) { return Floats{} + value; }

inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }

inline Floats square_root(Floats x) {
#if defined(__AVX512F__)
  return _mm512_maskz_sqrt_ps(static_cast<__mmask16>(-1), x);  // g++ 12 warns of the plain one
#elif defined(__AVX2__)
  return _mm256_sqrt_ps(x);
#elif defined(__SSE2__)
  return _mm_sqrt_ps(x);
#else
  for (int64_t lane = 0; lane < kLanes; ++lane) x[lane] = __builtin_sqrtf(x[lane]);
  return x;
#endif
}

/// e^x within 2 units in the last place; 0 below -87, e^88 above 88; NaN stays NaN.
inline Floats exponential(Floats x) {
  x = x > 88.0f ? broadcast(88.0f) : x;
  // x = power * log(2) + rest, |rest| <= log(2) / 2; adding 1.5 * 2^23 rounds to a whole number.
  const Floats rounded = x * 1.44269504f + 12582912.0f;
  const Integers power = reinterpret_cast<Integers>(rounded) - 0x4b400000;
  const Floats whole = rounded - 12582912.0f;
  // log(2) in two parts, the first with so few bits that its product is exact.
  const Floats rest = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  Floats tail = rest * 1.9875691500e-4f + 1.3981999507e-3f;  // Cephes' expf
  tail = tail * rest + 8.3334519073e-3f;
  tail = tail * rest + 4.1665795894e-2f;
  tail = tail * rest + 1.6666665459e-1f;
  tail = tail * rest + 5.0000001201e-1f;
  const Floats value = tail * (rest * rest) + rest + 1.0f;
  const Floats scale = reinterpret_cast<Floats>((power + 127) << 23);
  return x < -87.0f ? Floats{} : value * scale;
}

/// 2^x within 2 units in the last place for x from -126 to 126, and beyond them the value at the
/// nearer end. If x is a product, its own rounding has a larger effect: x * 4e-8 of the result. NaN
/// stays NaN.
inline Floats power_of_two(Floats x) {
  x = x > 126.0f ? broadcast(126.0f) : x;
  x = x < -126.0f ? broadcast(-126.0f) : x;
  const Floats rounded = x + 12582912.0f;  // to a whole number, as above
  const Integers power = reinterpret_cast<Integers>(rounded) - 0x4b400000;
  const Floats rest = x - (rounded - 12582912.0f);
  Floats value = rest * 1.535336188e-4f + 1.339887440e-3f;  // Cephes' exp2f
  value = value * rest + 9.618437357e-3f;
  value = value * rest + 5.550332471e-2f;
  value = value * rest + 2.402264791e-1f;
  value = value * rest + 6.931472028e-1f;
  value = value * rest + 1.0f;
  return value * reinterpret_cast<Floats>((power + 127) << 23);
}

}  // namespace
}  // namespace meg::kernels
