#include "libmeg/nn/operators/internal/swiglu.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <vector>

#include "libmeg/kernels/swiglu.h"
#include "libmeg/nn/operators/internal/autograd_node.h"
#include "libmeg/nn/operators/kernel_call.h"

namespace meg::nn {
namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

at::Tensor forward(const at::Tensor& input) {
  std::vector<int64_t> sizes = input.sizes().vec();
  sizes.back() /= 2;
  const at::Tensor output = at::empty(sizes, input.options());
  const kernels::SwigluForward call{.type = float_type(input),
                                    .input = input.const_data_ptr(),
                                    .output = output.mutable_data_ptr(),
                                    .rows = input.numel() / input.size(-1),
                                    .columns = sizes.back()};
  run_kernel(
      "swiglu_forward", input.device(), call.rows, kRowGrain,
      [&](CUstream_st* stream) { return kernels::swiglu_forward_cuda(call, stream); },
      [&](int64_t begin, int64_t end) { kernels::swiglu_forward_cpu(call, begin, end); });
  return output;
}

at::Tensor backward(const at::Tensor& grad_output, const at::Tensor& input) {
  const at::Tensor grad_input = at::empty(input.sizes(), input.options());
  const kernels::SwigluBackward call{.type = float_type(input),
                                     .grad_output = grad_output.const_data_ptr(),
                                     .input = input.const_data_ptr(),
                                     .grad_input = grad_input.mutable_data_ptr(),
                                     .rows = input.numel() / input.size(-1),
                                     .columns = input.size(-1) / 2};
  run_kernel(
      "swiglu_backward", input.device(), call.rows, kRowGrain,
      [&](CUstream_st* stream) { return kernels::swiglu_backward_cuda(call, stream); },
      [&](int64_t begin, int64_t end) { kernels::swiglu_backward_cpu(call, begin, end); });
  return grad_input;
}

class SwigluNode : public Node {
 public:
  explicit SwigluNode(const at::Tensor& input) : input_(input, /*is_output=*/false) {
    set_next_edges(torch::autograd::collect_next_edges(input));
  }

  void release_variables() override { input_.reset_data(); }

 protected:
  variable_list apply(variable_list&& gradients) override {
    const c10::NoGradGuard without_gradients;
    return {backward(gradients[0].contiguous(), input_.unpack())};
  }

 private:
  SavedVariable input_;
};

}  // namespace

at::Tensor swiglu(const at::Tensor& input) {
  const at::Tensor dense = input.contiguous();
  at::Tensor output;
  {
    const c10::NoGradGuard without_gradients;
    output = forward(dense);
  }
  if (torch::autograd::compute_requires_grad(dense)) {
    torch::autograd::set_history(output, make_node<SwigluNode>(dense));
  }
  return output;
}

}  // namespace meg::nn
