#include "libmeg/base/float_convert.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "libmeg/base/float_kernels.h"

namespace meg {
namespace {

bool is_convertible(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32;
}

FloatKernel widening(const FloatKernels& kernels, DType from) {
  return from == DType::kFloat16 ? kernels.widen_float16 : kernels.widen_bfloat16;
}

FloatKernel narrowing(const FloatKernels& kernels, DType to) {
  return to == DType::kFloat16 ? kernels.narrow_to_float16 : kernels.narrow_to_bfloat16;
}

/// Converts between the two 16-bit types by way of float32, which holds both exactly: only the
/// second step rounds, so the result is that of one rounding. Blocks of 4 KiB stay in the
/// first-level cache.
void convert_16_bit(FloatKernel widen, FloatKernel narrow, std::span<const std::byte> from,
                    std::byte* to) {
  constexpr size_t kBlock = 1024;
  alignas(64) std::array<std::byte, kBlock * 4> wide;
  const size_t count = from.size() / 2;
  for (size_t first = 0; first < count; first += kBlock) {
    const size_t elements = std::min(kBlock, count - first);
    widen(from.data() + 2 * first, wide.data(), elements);
    narrow(wide.data(), to + 2 * first, elements);
  }
}

}  // namespace

Status convert_floats(DType from_dtype, std::span<const std::byte> from, DType to_dtype,
                      std::span<std::byte> to) {
  const bool is_copy = from_dtype == to_dtype;
  if (!is_copy && !(is_convertible(from_dtype) && is_convertible(to_dtype))) {
    return make_error(StatusCode::kUnsupported, "cannot convert {} to {}", dtype_name(from_dtype),
                      dtype_name(to_dtype));
  }
  const auto from_size = static_cast<size_t>(dtype_size(from_dtype));
  const auto to_size = static_cast<size_t>(dtype_size(to_dtype));
  const size_t count = from.size() / from_size;
  if (count * from_size != from.size() || count * to_size != to.size()) {
    return make_error(StatusCode::kInvalidArgument,
                      "cannot convert {} bytes of {} to {} bytes of {}: element counts differ",
                      from.size(), dtype_name(from_dtype), to.size(), dtype_name(to_dtype));
  }
  const FloatKernels& kernels = float_kernels(best_instruction_set());
  if (is_copy) {
    if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
  } else if (to_dtype == DType::kFloat32) {
    widening(kernels, from_dtype)(from.data(), to.data(), count);
  } else if (from_dtype == DType::kFloat32) {
    narrowing(kernels, to_dtype)(from.data(), to.data(), count);
  } else {
    convert_16_bit(widening(kernels, from_dtype), narrowing(kernels, to_dtype), from, to.data());
  }
  return Status();
}

}  // namespace meg
