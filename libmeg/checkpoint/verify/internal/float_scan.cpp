#include "libmeg/checkpoint/verify/internal/float_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "libmeg/base/bytes.h"
#include "libmeg/base/float_convert.h"

namespace meg::checkpoint {
namespace {

/// Elements whose exponents are examined together.
constexpr size_t kBlock = 1024;

/// The bit patterns of a type: NaN and Inf are those whose exponent bits are all ones (of
/// float8_e4m3fn, which has no Inf, all bits but the sign). Adding the lowest of these bits then
/// carries into the sign's place.
template <class Bits, Bits kExponent>
struct Format {
  using Type = Bits;
  static constexpr Bits kLowest = kExponent & static_cast<Bits>(-kExponent);
  static constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));

  static bool is_finite(Bits bits) { return (bits & kExponent) != kExponent; }

  static Bits carry(Bits bits) { return static_cast<Bits>((bits & kExponent) + kLowest); }

  static bool is_negative(Bits bits) {
    return is_finite(bits) && (bits & kSign) != 0 && bits != kSign;
  }
};

template <class F>
void scan_elements(const std::byte* bytes, size_t count, int64_t first_element, bool count_negative,
                   FloatScan* scan) {
  for (size_t i = 0; i < count; ++i) {
    const auto bits = load_le<typename F::Type>(bytes + i * sizeof(typename F::Type));
    const int64_t place = first_element + static_cast<int64_t>(i);
    if (!F::is_finite(bits)) {
      if (scan->not_finite++ == 0) scan->first_not_finite = place;
    } else if (count_negative && F::is_negative(bits)) {
      if (scan->negative++ == 0) scan->first_negative = place;
    }
  }
}

template <class F>
void scan_blocks(std::span<const std::byte> bytes, int64_t first_element, bool count_negative,
                 FloatScan* scan) {
  using Bits = typename F::Type;
  const size_t count = bytes.size() / sizeof(Bits);
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const std::byte* block = bytes.data() + begin * sizeof(Bits);
    const size_t size = std::min(kBlock, count - begin);
    Bits carries = 0;
    Bits signs = 0;
    for (size_t i = 0; i < size; ++i) {
      const Bits bits = load_le<Bits>(block + i * sizeof(Bits));
      carries = static_cast<Bits>(carries | F::carry(bits));
      signs = static_cast<Bits>(signs | bits);
    }
    // One bit tells whether a block of 1024 has something to examine; the loop above has no branch,
    // so that it becomes vector instructions. A block of negative zeros is examined without need.
    const bool is_odd = ((count_negative ? carries | signs : carries) & F::kSign) != 0;
    if (!is_odd) continue;
    scan_elements<F>(block, size, first_element + static_cast<int64_t>(begin), count_negative,
                     scan);
  }
}

}  // namespace

void FloatScan::add(const FloatScan& later) {
  if (not_finite == 0) first_not_finite = later.first_not_finite;
  if (negative == 0) first_negative = later.first_negative;
  not_finite += later.not_finite;
  negative += later.negative;
}

bool is_scannable(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kFloat8E4m3fn:
    case DType::kFloat8E5m2:
      return true;
    default:
      return false;
  }
}

void scan_floats(DType dtype, std::span<const std::byte> bytes, int64_t first_element,
                 bool count_negative, FloatScan* scan) {
  switch (dtype) {
    case DType::kFloat16:
      return scan_blocks<Format<uint16_t, 0x7C00>>(bytes, first_element, count_negative, scan);
    case DType::kBFloat16:
      return scan_blocks<Format<uint16_t, 0x7F80>>(bytes, first_element, count_negative, scan);
    case DType::kFloat32:
      return scan_blocks<Format<uint32_t, 0x7F800000>>(bytes, first_element, count_negative, scan);
    case DType::kFloat64:
      return scan_blocks<Format<uint64_t, 0x7FF0000000000000>>(bytes, first_element, count_negative,
                                                               scan);
    case DType::kFloat8E4m3fn:
      return scan_blocks<Format<uint8_t, 0x7F>>(bytes, first_element, count_negative, scan);
    case DType::kFloat8E5m2:
      return scan_blocks<Format<uint8_t, 0x7C>>(bytes, first_element, count_negative, scan);
    default:
      return;
  }
}

namespace {

/// A float8 from its parts; `bias` of the exponent.
double float8_value(uint8_t bits, int mantissa_bits, int bias) {
  const int exponent = (bits & 0x7F) >> mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int lead = exponent == 0 ? 0 : 1 << mantissa_bits;
  const double size = std::ldexp(mantissa + lead, std::max(exponent, 1) - bias - mantissa_bits);
  return (bits & 0x80) != 0 ? -size : size;
}

}  // namespace

double widened_element(DType dtype, const std::byte* element) {
  switch (dtype) {
    case DType::kFloat64:
      return load_le<double>(element);
    case DType::kFloat32:
      return static_cast<double>(load_le<float>(element));
    case DType::kFloat8E4m3fn: {
      const auto bits = load_le<uint8_t>(element);
      if ((bits & 0x7F) == 0x7F) return std::numeric_limits<double>::quiet_NaN();
      return float8_value(bits, 3, 7);
    }
    case DType::kFloat8E5m2: {
      const auto bits = load_le<uint8_t>(element);
      if ((bits & 0x7F) > 0x7C) return std::numeric_limits<double>::quiet_NaN();
      const double infinity = std::numeric_limits<double>::infinity();
      if ((bits & 0x7F) == 0x7C) return (bits & 0x80) != 0 ? -infinity : infinity;
      return float8_value(bits, 2, 15);
    }
    default: {
      float value = 0;
      const std::span<const std::byte> from(element, static_cast<size_t>(dtype_size(dtype)));
      const bool known =
          convert_floats(dtype, from, DType::kFloat32, std::as_writable_bytes(std::span(&value, 1)))
              .ok();
      return known ? static_cast<double>(value) : 0;
    }
  }
}

std::string element_text(DType dtype, const std::byte* element) {
  switch (dtype) {
    case DType::kBool:
      return load_le<uint8_t>(element) != 0 ? "true" : "false";
    case DType::kUint8:
      return std::to_string(load_le<uint8_t>(element));
    case DType::kInt8:
      return std::to_string(load_le<int8_t>(element));
    case DType::kUint16:
      return std::to_string(load_le<uint16_t>(element));
    case DType::kInt16:
      return std::to_string(load_le<int16_t>(element));
    case DType::kUint32:
      return std::to_string(load_le<uint32_t>(element));
    case DType::kInt32:
      return std::to_string(load_le<int32_t>(element));
    case DType::kUint64:
      return std::to_string(load_le<uint64_t>(element));
    case DType::kInt64:
      return std::to_string(load_le<int64_t>(element));
    case DType::kComplex64:
      return fmt::format("{}{:+}j", load_le<float>(element), load_le<float>(element + 4));
    case DType::kComplex128:
      return fmt::format("{}{:+}j", load_le<double>(element), load_le<double>(element + 8));
    case DType::kFloat64:
      return fmt::format("{}", load_le<double>(element));
    default:
      // Exact in float32: the shortest text of that tells it from its neighbours.
      return fmt::format("{}", static_cast<float>(widened_element(dtype, element)));
  }
}

}  // namespace meg::checkpoint
