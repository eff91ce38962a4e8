#include <algorithm>
#include <cmath>
#include <vector>

#include "libmeg/kernels/dropout_add_norm.h"
#include "libmeg/kernels/internal/cpu_runs.h"

namespace meg::kernels {
namespace {

using Row = std::vector<float>;

/// Elements [begin, begin + row.size()); zeros where there is no array.
void read(FloatType type, const void* elements, int64_t begin, Row& row) {
  if (elements == nullptr) {
    std::ranges::fill(row, 0.0F);
    return;
  }
  const auto count = static_cast<int64_t>(row.size());
  const float* found = CpuRuns(type).read(elements, begin, count, row.data());
  if (found != row.data()) std::copy_n(found, count, row.data());
}

/// What is written, rounded, is also left in `row`: the norm must see the sum as the backward pass
/// will read it, else its gradient would be that of other numbers.
void write(FloatType type, Row& row, void* elements, int64_t begin) {
  const auto count = static_cast<int64_t>(row.size());
  const CpuRuns runs(type);
  float* const place = runs.place(elements, begin, row.data());
  if (place != row.data()) std::ranges::copy(row, place);
  runs.write(row.data(), elements, begin, count);
  read(type, elements, begin, row);
}

Row new_row(const DropoutAddNorm& call) { return Row(static_cast<size_t>(call.columns)); }

/// What normalized elements are multiplied with.
Row factors(const DropoutAddNorm& call, const void* weight) {
  Row row = new_row(call);
  read(call.type, weight, 0, row);
  // --apply-layernorm-1p: weights are kept as their difference from 1.
  if (!call.is_1p) return row;
  for (float& element : row) element += 1;
  // Rounded to the weights' type, as 1 + weight is in Megatron.
  Row rounded = row;
  write(call.type, row, rounded.data(), 0);
  return row;
}

/// Plain sums in double: what the CUDA kernels' sums in fp32, in whatever order, are held against.
double mean_of(const Row& row) {
  double sum = 0;
  for (const float element : row) sum += element;
  return sum / static_cast<double>(row.size());
}

double rstd_of(const Row& row, double mean, double epsilon) {
  double squares = 0;
  for (const float element : row) squares += (element - mean) * (element - mean);
  return 1 / std::sqrt(squares / static_cast<double>(row.size()) + epsilon);
}

void write_sums(FloatType type, const Row& sums, bool adds, void* gradient) {
  Row row(sums.size());
  if (adds) read(FloatType::kFloat32, gradient, 0, row);
  for (size_t i = 0; i < row.size(); ++i) row[i] += sums[i];
  write(adds ? FloatType::kFloat32 : type, row, gradient, 0);
}

}  // namespace

void dropout_add_norm_forward_cpu(const DropoutAddNormForward& call, int64_t row_begin,
                                  int64_t row_end) {
  const DropoutFactors dropout(call.dropout);
  const Row weight = factors(call, call.weight);
  Row bias = new_row(call), branch = new_row(call), sum = new_row(call);
  read(call.type, call.is_rms_norm ? nullptr : call.bias, 0, bias);
  for (int64_t row = row_begin; row < row_end; ++row) {
    const int64_t begin = row * call.columns;
    read(call.residual_type, call.residual, begin, sum);
    if (call.branch != nullptr) {
      read(call.type, call.branch, begin, branch);
      for (size_t i = 0; i < sum.size(); ++i) {
        sum[i] += branch[i] * dropout.of_element(begin + static_cast<int64_t>(i));
      }
      write(call.residual_type, sum, call.sum, begin);
    }
    if (call.weight == nullptr) continue;
    const double mean = call.is_rms_norm ? 0 : mean_of(sum);
    const double rstd = rstd_of(sum, mean, call.epsilon);
    if (!call.is_rms_norm) call.means[row] = static_cast<float>(mean);
    call.rstds[row] = static_cast<float>(rstd);
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] = static_cast<float>((sum[i] - mean) * rstd * weight[i] + bias[i]);
    }
    write(call.type, sum, call.normalized, begin);
  }
}

void dropout_add_norm_backward_cpu(const DropoutAddNormBackward& call) {
  const DropoutFactors dropout(call.dropout);
  const bool has_norm = call.grad_normalized != nullptr;
  const Row weight = factors(call, has_norm ? call.weight : nullptr);
  Row gradient = new_row(call), x = new_row(call), result = new_row(call);
  Row of_weight = new_row(call), of_bias = new_row(call);
  // Do not run in parallel: the sums over all rows would depend on the number of threads.
  for (int64_t row = 0; row < call.rows; ++row) {
    const int64_t begin = row * call.columns;
    read(call.residual_type, call.grad_sum, begin, result);
    if (has_norm) {
      read(call.type, call.grad_normalized, begin, gradient);
      read(call.residual_type, call.sum, begin, x);
      const float mean = call.is_rms_norm ? 0 : call.means[row], rstd = call.rstds[row];
      double sum = 0, product = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = (x[i] - mean) * rstd;
        of_weight[i] += gradient[i] * x[i];
        of_bias[i] += gradient[i];
        sum += gradient[i] * weight[i];
        product += gradient[i] * weight[i] * x[i];
      }
      const double of_mean = call.is_rms_norm ? 0 : sum / static_cast<double>(x.size());
      const double of_rstd = product / static_cast<double>(x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        result[i] +=
            static_cast<float>(rstd * (gradient[i] * weight[i] - of_mean - x[i] * of_rstd));
      }
    }
    if (call.grad_branch != nullptr) {
      Row branch = result;
      for (size_t i = 0; i < branch.size(); ++i) {
        branch[i] *= dropout.of_element(begin + static_cast<int64_t>(i));
      }
      write(call.type, branch, call.grad_branch, begin);
    }
    write(call.residual_type, result, call.grad_residual, begin);
  }
  if (!has_norm) return;
  write_sums(call.type, of_weight, call.adds_to_gradients, call.grad_weight);
  if (!call.is_rms_norm) write_sums(call.type, of_bias, call.adds_to_gradients, call.grad_bias);
}

}  // namespace meg::kernels
