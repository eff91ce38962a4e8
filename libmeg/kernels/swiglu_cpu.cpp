#include <algorithm>

#include "libmeg/kernels/internal/cpu_runs.h"
#include "libmeg/kernels/swiglu.h"

namespace meg::kernels {

void swiglu_forward_cpu(const SwigluForward& call, int64_t row_begin, int64_t row_end) {
  const CpuRuns runs(call.type);
  float gate_room[kRunElements], up_room[kRunElements];
  for (int64_t row = row_begin; row < row_end; ++row) {
    for (int64_t column = 0; column < call.columns; column += kRunElements) {
      const int64_t count = std::min(kRunElements, call.columns - column);
      const int64_t gates = 2 * row * call.columns + column;
      const int64_t begin = row * call.columns + column;
      const float* gate = runs.read(call.input, gates, count, gate_room);
      const float* up = runs.read(call.input, gates + call.columns, count, up_room);
      float* output = runs.place(call.output, begin, gate_room);
      runs.loops().swiglu(gate, up, output, count);
      runs.write(output, call.output, begin, count);
    }
  }
}

void swiglu_backward_cpu(const SwigluBackward& call, int64_t row_begin, int64_t row_end) {
  const CpuRuns runs(call.type);
  float gradient_room[kRunElements], gate_room[kRunElements], up_room[kRunElements];
  for (int64_t row = row_begin; row < row_end; ++row) {
    for (int64_t column = 0; column < call.columns; column += kRunElements) {
      const int64_t count = std::min(kRunElements, call.columns - column);
      const int64_t gates = 2 * row * call.columns + column;
      const int64_t ups = gates + call.columns;
      const float* gradient =
          runs.read(call.grad_output, row * call.columns + column, count, gradient_room);
      const float* gate = runs.read(call.input, gates, count, gate_room);
      const float* up = runs.read(call.input, ups, count, up_room);
      // The loop may write where it reads.
      float* grad_gate = runs.place(call.grad_input, gates, gate_room);
      float* grad_up = runs.place(call.grad_input, ups, up_room);
      runs.loops().swiglu_backward(gradient, gate, up, grad_gate, grad_up, count);
      runs.write(grad_gate, call.grad_input, gates, count);
      runs.write(grad_up, call.grad_input, ups, count);
    }
  }
}

}  // namespace meg::kernels
