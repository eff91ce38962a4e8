#include "libmeg/nn/operators/internal/widened_product.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "libmeg/nn/operators/internal/autograd_node.h"

namespace meg::nn {
namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

at::Tensor widened(const at::Tensor& tensor) { return tensor.to(at::kFloat); }

class WidenedProductBackward : public Node {
 public:
  WidenedProductBackward(const at::Tensor& first, const at::Tensor& second, const at::Tensor& bias,
                         double scale)
      : first_(first, /*is_output=*/false),
        second_(second, /*is_output=*/false),
        has_bias_(bias.defined()),
        scale_(scale) {
    set_next_edges(torch::autograd::collect_next_edges(first, second, bias));
  }

  void release_variables() override {
    first_.reset_data();
    second_.reset_data();
  }

 protected:
  variable_list apply(variable_list&& gradients) override {
    const c10::NoGradGuard without_gradients;
    const at::ScalarType type = gradients[0].scalar_type();
    const at::Tensor sums = widened(gradients[0]);
    const at::Tensor scaled = scale_ == 1 ? sums : sums * scale_;
    variable_list result(3);
    if (task_should_compute_output(0)) {
      result[0] = at::matmul(scaled, widened(second_.unpack())).to(type);
    }
    if (task_should_compute_output(1)) {
      result[1] = at::matmul(scaled.transpose(-2, -1), widened(first_.unpack())).to(type);
    }
    if (has_bias_ && task_should_compute_output(2)) result[2] = sums.sum(0).to(type);
    return result;
  }

 private:
  SavedVariable first_, second_;
  bool has_bias_;
  double scale_;
};

at::Tensor forward(const at::Tensor& first, const at::Tensor& second, const at::Tensor& bias,
                   double scale) {
  at::Tensor sums = at::matmul(widened(first), widened(second).transpose(-2, -1));
  if (scale != 1) sums.mul_(scale);
  if (bias.defined()) sums.add_(bias);
  return sums.to(first.scalar_type());
}

/// Whether oneDNN, which multiplies 16-bit matrices for LibTorch, has instructions for them.
///
/// Without them its products in 16 bits take several times as long as those of copies in fp32. The
/// result is rounded once.
bool has_instructions([[maybe_unused]] at::ScalarType type) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return type == at::kHalf ? __builtin_cpu_supports("avx512fp16") != 0
                           : __builtin_cpu_supports("avx512bf16") != 0;
#else
  return true;
#endif
}

}  // namespace

bool is_widened(const at::Tensor& matrix) {
  static const bool half = !has_instructions(at::kHalf);
  static const bool bfloat16 = !has_instructions(at::kBFloat16);
  if (!matrix.is_cpu()) return false;
  return (matrix.scalar_type() == at::kHalf && half) ||
         (matrix.scalar_type() == at::kBFloat16 && bfloat16);
}

at::Tensor widened_product(const at::Tensor& first, const at::Tensor& second,
                           const at::Tensor& bias, double scale) {
  at::Tensor output;
  {
    const c10::NoGradGuard without_gradients;
    output = forward(first, second, bias, scale);
  }
  if (torch::autograd::compute_requires_grad(first, second, bias)) {
    torch::autograd::set_history(output,
                                 make_node<WidenedProductBackward>(first, second, bias, scale));
  }
  return output;
}

}  // namespace meg::nn
