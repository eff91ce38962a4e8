#include "libmeg/nn/operators/internal/bias_gelu.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "libmeg/kernels/bias_gelu.h"
#include "libmeg/nn/operators/internal/autograd_node.h"
#include "libmeg/nn/operators/kernel_call.h"

namespace meg::nn {
namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

at::Tensor forward(const at::Tensor& input, const at::Tensor& bias) {
  const at::Tensor output = at::empty_like(input);
  kernels::BiasGeluForward call;
  call.type = float_type(input);
  call.input = input.const_data_ptr();
  call.bias = bias.const_data_ptr();
  call.output = output.mutable_data_ptr();
  call.columns = bias.size(0);
  call.rows = input.numel() / call.columns;
  run_kernel(
      "bias_gelu_forward", input.device(), call.rows, kRowGrain,
      [&](CUstream_st* stream) { return kernels::bias_gelu_forward_cuda(call, stream); },
      [&](int64_t begin, int64_t end) { kernels::bias_gelu_forward_cpu(call, begin, end); });
  return output;
}

at::Tensor backward(const at::Tensor& grad_output, const at::Tensor& input,
                    const at::Tensor& bias) {
  const at::Tensor grad_input = at::empty_like(input);
  kernels::BiasGeluBackward call;
  call.type = float_type(input);
  call.grad_output = grad_output.const_data_ptr();
  call.input = input.const_data_ptr();
  call.bias = bias.const_data_ptr();
  call.grad_input = grad_input.mutable_data_ptr();
  call.columns = bias.size(0);
  call.rows = input.numel() / call.columns;
  run_kernel(
      "bias_gelu_backward", input.device(), call.rows, kRowGrain,
      [&](CUstream_st* stream) { return kernels::bias_gelu_backward_cuda(call, stream); },
      [&](int64_t begin, int64_t end) { kernels::bias_gelu_backward_cpu(call, begin, end); });
  return grad_input;
}

class BiasGeluNode : public Node {
 public:
  BiasGeluNode(const at::Tensor& input, const at::Tensor& bias)
      : input_(input, /*is_output=*/false), bias_(bias, /*is_output=*/false) {
    set_next_edges(torch::autograd::collect_next_edges(input, bias));
  }

  void release_variables() override {
    input_.reset_data();
    bias_.reset_data();
  }

 protected:
  variable_list apply(variable_list&& gradients) override {
    const c10::NoGradGuard without_gradients;
    const at::Tensor bias = bias_.unpack();
    const at::Tensor gradient = backward(gradients[0].contiguous(), input_.unpack(), bias);
    return {gradient, gradient.view({-1, bias.size(0)}).sum(0)};
  }

 private:
  SavedVariable input_, bias_;
};

}  // namespace

at::Tensor bias_gelu(const at::Tensor& input, const at::Tensor& bias) {
  at::Tensor output;
  {
    const c10::NoGradGuard without_gradients;
    output = forward(input.contiguous(), bias);
  }
  if (torch::autograd::compute_requires_grad(input, bias)) {
    torch::autograd::set_history(output, make_node<BiasGeluNode>(input, bias));
  }
  return output;
}

}  // namespace meg::nn
