#pragma once

#include <cstdint>

namespace meg::kernels {

/// The element types that kernels compute from and to; arithmetic is always fp32.
enum class FloatType : uint8_t { kFloat32, kFloat16, kBFloat16 };

/// Bytes of one element.
constexpr int64_t float_type_size(FloatType type) { return type == FloatType::kFloat32 ? 4 : 2; }

}  // namespace meg::kernels
