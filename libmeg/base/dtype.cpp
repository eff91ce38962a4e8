#include "libmeg/base/dtype.h"

#include <array>

namespace meg {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  int size;
};

constexpr std::array kRows = {
    Row{DType::kBool, "bool", 1},
    Row{DType::kUint8, "uint8", 1},
    Row{DType::kInt8, "int8", 1},
    Row{DType::kUint16, "uint16", 2},
    Row{DType::kInt16, "int16", 2},
    Row{DType::kInt32, "int32", 4},
    Row{DType::kInt64, "int64", 8},
    Row{DType::kFloat16, "float16", 2},
    Row{DType::kBFloat16, "bfloat16", 2},
    Row{DType::kFloat32, "float32", 4},
    Row{DType::kFloat64, "float64", 8},
    Row{DType::kUint32, "uint32", 4},
    Row{DType::kUint64, "uint64", 8},
    Row{DType::kFloat8E4m3fn, "float8_e4m3fn", 1},
    Row{DType::kFloat8E5m2, "float8_e5m2", 1},
    Row{DType::kComplex64, "complex64", 8},
    Row{DType::kComplex128, "complex128", 16},
};

constexpr const Row& row(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

static_assert(row(DType::kComplex128).dtype == DType::kComplex128,
              "rows stand in the enum's order");

}  // namespace

int dtype_size(DType dtype) { return row(dtype).size; }

std::string_view dtype_name(DType dtype) { return row(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Row& candidate : kRows) {
    if (candidate.name == name) return candidate.dtype;
  }
  return std::nullopt;
}

}  // namespace meg
