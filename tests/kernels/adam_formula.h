#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "libmeg/kernels/optimizer/multi_tensor_adam.h"
#include "tests/kernels/float_array.h"

namespace meg::test {

/// One tensor's state on the host.
struct AdamState {
  AdamState(int64_t count, kernels::FloatType gradient_type, kernels::FloatType weight_type,
            unsigned seed)
      : gradient(gradient_type, normal_values(count, 0.1, seed)),
        master(normal_values(count, 0.02, seed + 1)),
        exp_avg(normal_values(count, 0.01, seed + 2)),
        exp_avg_sq(normal_values(count, 0.001, seed + 3)),
        weight(weight_type, master) {
    for (float& value : exp_avg_sq) value = std::abs(value);
  }

  kernels::AdamTensor tensor(int group) {
    kernels::AdamTensor made{gradient.data(), gradient.type(), master.data(), exp_avg.data(),
                             exp_avg_sq.data()};
    if (weight.type() != kernels::FloatType::kFloat32) {
      made.weight = weight.data();
      made.weight_type = weight.type();
    }
    made.group = group;
    made.count = static_cast<int64_t>(master.size());
    return made;
  }

  FloatArray gradient;
  std::vector<float> master, exp_avg, exp_avg_sq;
  FloatArray weight;
};

inline kernels::AdamStep adam_step(int64_t step) {
  kernels::AdamStep made;
  made.bias_correction1 = kernels::adam_bias_correction(made.beta1, step);
  made.bias_correction2 = kernels::adam_bias_correction(made.beta2, step);
  made.inverse_loss_scale = 1.0f / 1024;
  made.clip_coefficient = 0.7f;
  made.groups[0] = {1e-3f, 0.1f};
  made.groups[1] = {3e-4f, 0};
  return made;
}

/// Element i of `state` after the step, in double precision.
struct PlainAdam {
  PlainAdam(const AdamState& state, const kernels::AdamStep& step, int group, size_t i) {
    const double decay = step.groups[group].weight_decay;
    double g = double{state.gradient.floats()[i]} * step.inverse_loss_scale * step.clip_coefficient;
    if (!step.adam_w_mode) g += decay * state.master[i];
    exp_avg = step.beta1 * double{state.exp_avg[i]} + (1 - double{step.beta1}) * g;
    exp_avg_sq = step.beta2 * double{state.exp_avg_sq[i]} + (1 - double{step.beta2}) * g * g;
    double update = exp_avg / step.bias_correction1 /
                    (std::sqrt(exp_avg_sq / step.bias_correction2) + step.eps);
    if (step.adam_w_mode) update += decay * state.master[i];
    master = state.master[i] - step.groups[group].learning_rate * update;
  }

  double exp_avg, exp_avg_sq, master;
};

}  // namespace meg::test
