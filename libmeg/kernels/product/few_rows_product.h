#pragma once

#include <cstdint>

#include "libmeg/kernels/float_type.h"

namespace meg::kernels {

/// output = input * weight^T + bias for so few rows that reading the weight is most of the work: it
/// is read once, in order. Arithmetic in fp32, rounded once to the arrays' type. A row's result
/// does not depend on the other rows, bit for bit.
struct FewRowsProduct {
  FloatType type = FloatType::kFloat32;  ///< of all arrays
  const void* input = nullptr;           ///< (rows, depth), dense
  const void* weight = nullptr;          ///< (columns, depth), dense
  const void* bias = nullptr;            ///< (columns), or none
  void* output = nullptr;                ///< (rows, columns)
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;
};

/// Computes columns [column_begin, column_end), so that the caller can divide the weight over
/// threads; results do not depend on the division.
void few_rows_product_cpu(const FewRowsProduct& call, int64_t column_begin, int64_t column_end);

}  // namespace meg::kernels
