#pragma once

#include "libmeg/nn/kernels/cpu_loops.h"
#include "libmeg/nn/kernels/float_vector.h"

// CpuLoops::square_sum and adam, for the instruction set of the file that includes this.

namespace meg::nn {
namespace {

void square_sum(const float* gradient, float scale, int64_t count, double* sum,
                int64_t* num_zeros) {
  constexpr int64_t kParts = kSumLanes / kDoubleLanes;
  Doubles sums[kParts] = {};
  Integers zeros = {};
  float scaled[kSumLanes];
  for (int64_t i = 0; i < count; i += kSumLanes) {
    const int64_t present = count - i < kSumLanes ? count - i : kSumLanes;
    for (int64_t lane = present; lane < kSumLanes; ++lane) scaled[lane] = 0;
    std::memcpy(scaled, gradient + i, static_cast<size_t>(present) * sizeof(float));
    for (int64_t lane = 0; lane < kSumLanes; lane += kLanes) {
      const Floats values = load(scaled + lane) * scale;
      zeros -= values == 0.0f;
      store(scaled + lane, values);
    }
    for (int64_t part = 0; part < kParts; ++part) {
      const Doubles values = load_doubles(scaled + part * kDoubleLanes);
      sums[part] += values * values;
    }
  }
  *num_zeros -= (kSumLanes - count % kSumLanes) % kSumLanes;  // the lanes past the end
  for (int64_t lane = 0; lane < kLanes; ++lane) *num_zeros += zeros[lane];
  for (int64_t part = 0; part < kParts; ++part) {
    for (int64_t lane = 0; lane < kDoubleLanes; ++lane) *sum += sums[part][lane];
  }
}

struct AdamElements {
  Floats master;
  Floats exp_avg;
  Floats exp_avg_sq;
};

// The order of operations is apex's multi_tensor_adam.cu's.
inline AdamElements adam_update(const AdamScalars& scalars, Floats gradient, AdamElements at) {
  gradient = gradient * scalars.inverse_loss_scale * scalars.clip_coefficient;
  if (!scalars.adam_w_mode) gradient = gradient + at.master * scalars.weight_decay;
  at.exp_avg = at.exp_avg * scalars.beta1 + gradient * (1.0f - scalars.beta1);
  at.exp_avg_sq = at.exp_avg_sq * scalars.beta2 + gradient * (1.0f - scalars.beta2) * gradient;
  const Floats denominator = square_root(at.exp_avg_sq / scalars.bias_correction2) + scalars.eps;
  Floats update = at.exp_avg / scalars.bias_correction1 / denominator;
  if (scalars.adam_w_mode) update = update + at.master * scalars.weight_decay;
  at.master = at.master - update * scalars.learning_rate;
  return at;
}

void adam(const AdamScalars& scalars, const float* gradient, float* master, float* exp_avg,
          float* exp_avg_sq, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const AdamElements next = adam_update(
        scalars, load(gradient + i), {load(master + i), load(exp_avg + i), load(exp_avg_sq + i)});
    store(master + i, next.master);
    store(exp_avg + i, next.exp_avg);
    store(exp_avg_sq + i, next.exp_avg_sq);
  }
  const int64_t rest = count - i;
  const AdamElements next =
      adam_update(scalars, load_first(gradient + i, rest),
                  {load_first(master + i, rest), load_first(exp_avg + i, rest),
                   load_first(exp_avg_sq + i, rest)});
  store_first(master + i, next.master, rest);
  store_first(exp_avg + i, next.exp_avg, rest);
  store_first(exp_avg_sq + i, next.exp_avg_sq, rest);
}

}  // namespace
}  // namespace meg::nn
