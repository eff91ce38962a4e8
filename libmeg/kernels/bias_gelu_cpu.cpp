#include <algorithm>

#include "libmeg/kernels/bias_gelu.h"
#include "libmeg/kernels/internal/cpu_runs.h"

// Runs go along the rows and read the bias again in each, instead of down a block of columns with
// the bias kept: the latter took half as long again in bf16, as the processor's prefetching stops
// at the end of every row (docs/performance.md, "Kernels beside ATen: log").

namespace meg::kernels {

void bias_gelu_forward_cpu(const BiasGeluForward& call, int64_t row_begin, int64_t row_end) {
  const CpuRuns runs(call.type);
  float bias_room[kRunElements];
  float buffer[kRunElements];
  for (int64_t row = row_begin; row < row_end; ++row) {
    for (int64_t column = 0; column < call.columns; column += kRunElements) {
      const int64_t begin = row * call.columns + column;
      const int64_t count = std::min(kRunElements, call.columns - column);
      const float* bias = runs.read(call.bias, column, count, bias_room);
      const float* input = runs.read(call.input, begin, count, buffer);
      float* output = runs.place(call.output, begin, buffer);
      runs.loops().bias_gelu(input, bias, output, count);
      runs.write(output, call.output, begin, count);
    }
  }
}

void bias_gelu_backward_cpu(const BiasGeluBackward& call, int64_t row_begin, int64_t row_end) {
  const CpuRuns runs(call.type);
  float bias_room[kRunElements];
  float gradient_room[kRunElements];
  float input_room[kRunElements];
  for (int64_t row = row_begin; row < row_end; ++row) {
    for (int64_t column = 0; column < call.columns; column += kRunElements) {
      const int64_t begin = row * call.columns + column;
      const int64_t count = std::min(kRunElements, call.columns - column);
      const float* bias = runs.read(call.bias, column, count, bias_room);
      const float* grad_output = runs.read(call.grad_output, begin, count, gradient_room);
      const float* input = runs.read(call.input, begin, count, input_room);
      // The loop may write where it reads, so the result needs no buffer of its own, and grad_input
      // may be either of the inputs.
      float* grad_input = runs.place(call.grad_input, begin, gradient_room);
      runs.loops().bias_gelu_backward(grad_output, input, bias, grad_input, count);
      runs.write(grad_input, call.grad_input, begin, count);
    }
  }
}

}  // namespace meg::kernels
