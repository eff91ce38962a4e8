#pragma once

#include "libmeg/kernels/internal/float_vector.h"

// CpuLoops::maximum, sum_exp and scaled_exp, for the instruction set of the file that includes
// this.

namespace meg::kernels {
namespace {

float maximum(const float* values, int64_t count) {
  Floats largest = broadcast(-__builtin_inff());
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) largest = larger(load(values + i), largest);
  float result = -__builtin_inff();
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    result = largest[lane] > result ? largest[lane] : result;
  }
  for (; i < count; ++i) result = values[i] > result ? values[i] : result;
  return result;
}

double sum_exp(const float* values, float shift, int64_t count) {
  Floats sums[kSumLanes / kLanes] = {};
  int64_t i = 0;
  for (; i + kSumLanes <= count; i += kSumLanes) {
    for (int64_t part = 0; part < kSumLanes / kLanes; ++part) {
      sums[part] += exponential(load(values + i + part * kLanes) - shift);
    }
  }
  float rest[kSumLanes];
  for (float& value : rest) value = i < count ? values[i++] : -__builtin_inff();
  double sum = 0;
  for (int64_t part = 0; part < kSumLanes / kLanes; ++part) {
    sums[part] += exponential(load(rest + part * kLanes) - shift);
    for (int64_t lane = 0; lane < kLanes; ++lane) sum += double{sums[part][lane]};
  }
  return sum;
}

void scaled_exp(const float* values, float shift, float scale, float* output, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    store(output + i, exponential(load(values + i) - shift) * scale);
  }
  const Floats last = exponential(load_first(values + i, count - i) - shift) * scale;
  store_first(output + i, last, count - i);
}

}  // namespace
}  // namespace meg::kernels
