#pragma once

#include "libmeg/kernels/cpu/cpu_loops.h"
#include "libmeg/kernels/internal/float_vector.h"

// CpuLoops::square_sum and adam, for the instruction set of the file that includes this.

namespace meg::kernels {
namespace {

void square_sum(const float* values, int64_t count, double* sum, int64_t* num_zeros) {
  constexpr int64_t kParts = kSumLanes / kDoubleLanes;
  Doubles sums[kParts] = {};
  Integers zeros = {};
  const auto take = [&](const float* from) {
    for (int64_t lane = 0; lane < kSumLanes; lane += kLanes) zeros -= load(from + lane) == 0.0f;
    for (int64_t part = 0; part < kParts; ++part) {
      const Doubles wide = load_doubles(from + part * kDoubleLanes);
      sums[part] += wide * wide;
    }
  };
  int64_t i = 0;
  for (; i + kSumLanes <= count; i += kSumLanes) take(values + i);
  float rest[kSumLanes];
  for (float& value : rest) value = i < count ? values[i++] : 0.0f;
  take(rest);
  *num_zeros -= kSumLanes - count % kSumLanes;  // the lanes past the end
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

/// AdamScalars in registers: the arrays that adam() writes could otherwise be the scalars
/// themselves.
struct AdamFactors {
  explicit AdamFactors(const AdamScalars& scalars)
      : gradient_scale(scalars.inverse_loss_scale * scalars.clip_coefficient),
        beta1(scalars.beta1),
        rest1(1.0f - scalars.beta1),
        beta2(scalars.beta2),
        rest2(1.0f - scalars.beta2),
        inverse_correction1(1.0f / scalars.bias_correction1),
        inverse_correction2(1.0f / scalars.bias_correction2),
        eps(scalars.eps),
        learning_rate(scalars.learning_rate),
        weight_decay(scalars.weight_decay) {}

  float gradient_scale, beta1, rest1, beta2, rest2, inverse_correction1, inverse_correction2, eps,
      learning_rate, weight_decay;
};

// The order of operations is that of apex's multi_tensor_adam.cu, except for the two divisions by
// the bias corrections, which are products here.
template <bool kAdamWMode>
inline AdamElements adam_update(const AdamFactors& by, Floats gradient, AdamElements at) {
  gradient = gradient * by.gradient_scale;
  if (!kAdamWMode) gradient = gradient + at.master * by.weight_decay;
  at.exp_avg = at.exp_avg * by.beta1 + gradient * by.rest1;
  at.exp_avg_sq = at.exp_avg_sq * by.beta2 + gradient * by.rest2 * gradient;
  const Floats denominator = square_root(at.exp_avg_sq * by.inverse_correction2) + by.eps;
  Floats update = at.exp_avg * by.inverse_correction1 / denominator;
  if (kAdamWMode) update = update + at.master * by.weight_decay;
  at.master = at.master - update * by.learning_rate;
  return at;
}

template <bool kAdamWMode>
void adam_in_mode(const AdamFactors by, const float* gradient, float* master, float* exp_avg,
                  float* exp_avg_sq, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const AdamElements next = adam_update<kAdamWMode>(
        by, load(gradient + i), {load(master + i), load(exp_avg + i), load(exp_avg_sq + i)});
    store(master + i, next.master);
    store(exp_avg + i, next.exp_avg);
    store(exp_avg_sq + i, next.exp_avg_sq);
  }
  const int64_t rest = count - i;
  const AdamElements last{load_first(master + i, rest), load_first(exp_avg + i, rest),
                          load_first(exp_avg_sq + i, rest)};
  const AdamElements next = adam_update<kAdamWMode>(by, load_first(gradient + i, rest), last);
  store_first(master + i, next.master, rest);
  store_first(exp_avg + i, next.exp_avg, rest);
  store_first(exp_avg_sq + i, next.exp_avg_sq, rest);
}

void adam(const AdamScalars& scalars, const float* gradient, float* master, float* exp_avg,
          float* exp_avg_sq, int64_t count) {
  const auto in_mode = scalars.adam_w_mode ? adam_in_mode<true> : adam_in_mode<false>;
  in_mode(AdamFactors(scalars), gradient, master, exp_avg, exp_avg_sq, count);
}

}  // namespace
}  // namespace meg::kernels
