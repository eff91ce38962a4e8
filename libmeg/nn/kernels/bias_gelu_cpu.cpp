#include <cmath>

#include "libmeg/nn/kernels/bias_gelu.h"

namespace meg::nn {

void bias_gelu_cpu(const float* input, const float* bias, float* output, int64_t rows,
                   int64_t columns) {
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t begin = row * columns;
    for (int64_t column = 0; column < columns; ++column) {
      const float x = input[begin + column] + bias[column];
      const float inner = 0.79788456f * x * (1.0f + 0.044715f * x * x);
      output[begin + column] = x * 0.5f * (1.0f + std::tanh(inner));
    }
  }
}

}  // namespace meg::nn
