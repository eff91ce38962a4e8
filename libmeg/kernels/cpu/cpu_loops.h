#pragma once

#include <cstdint>

#include "libmeg/base/cpu.h"

namespace meg::kernels {

/// The scalars that one Adam step applies to every element of a tensor.
struct AdamScalars {
  float inverse_loss_scale;
  float clip_coefficient;
  float beta1;
  float beta2;
  float bias_correction1;
  float bias_correction2;
  float eps;
  float learning_rate;
  float weight_decay;
  bool adam_w_mode;
};

/// The inner loops of the CPU kernels, over runs of fp32 that should fit the nearest cache. All
/// instruction sets give the same bits: no fused multiply-add, sums in a fixed order. Outputs may
/// be the inputs.
struct CpuLoops {
  /// The maximum, -infinity if there are no values; NaN is ignored.
  float (*maximum)(const float* values, int64_t count);

  /// The sum of e^(value - shift).
  double (*sum_exp)(const float* values, float shift, int64_t count);

  /// output = e^(value - shift) * scale
  void (*scaled_exp)(const float* values, float shift, float scale, float* output, int64_t count);

  /// output = gelu(input + bias)
  void (*bias_gelu)(const float* input, const float* bias, float* output, int64_t count);

  /// grad_input = grad_output * gelu'(input + bias)
  void (*bias_gelu_backward)(const float* grad_output, const float* input, const float* bias,
                             float* grad_input, int64_t count);

  /// output = silu(gate) * up
  void (*swiglu)(const float* gate, const float* up, float* output, int64_t count);

  /// The gradients of swiglu.
  void (*swiglu_backward)(const float* grad_output, const float* gate, const float* up,
                          float* grad_gate, float* grad_up, int64_t count);

  /// Adds the squares of `values` to *sum, in double precision, and their zeros to *num_zeros.
  void (*square_sum)(const float* values, int64_t count, double* sum, int64_t* num_zeros);

  void (*adam)(const AdamScalars& scalars, const float* gradient, float* master, float* exp_avg,
               float* exp_avg_sq, int64_t count);
};

/// The loops for a set that best_instruction_set() allows.
const CpuLoops& cpu_loops(InstructionSet set);

extern const CpuLoops kPortableCpuLoops;

#ifdef __x86_64__
extern const CpuLoops kAvx2CpuLoops;
extern const CpuLoops kAvx512CpuLoops;
#endif

}  // namespace meg::kernels
