#include "libmeg/nn/operators/internal/epilogue_linear.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <map>
#include <mutex>
#include <utility>

#include "libmeg/kernels/product/epilogue_product.h"
#include "libmeg/nn/operators/internal/autograd_node.h"
#include "libmeg/nn/operators/internal/main_gradient.h"
#include "libmeg/nn/operators/kernel_call.h"

namespace meg::nn {
namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// nullptr where LibTorch has not loaded the library.
kernels::CublasLtProducts* cublaslt_products() {
  // Never destroy them, nor the workspaces: the GPU may be gone when static objects are.
  static kernels::CublasLtProducts* const products =
      kernels::CublasLtProducts::of_loaded_library().release();
  return products;
}

/// The memory that algorithms may use beside a product's arrays: one for each stream, whose
/// products run one after the other.
at::Tensor workspace_of(at::Device device, CUstream_st* stream) {
  static auto* const mutex = new std::mutex;
  static auto* const workspaces =
      new std::map<std::pair<at::DeviceIndex, CUstream_st*>, at::Tensor>;
  const std::lock_guard lock(*mutex);
  at::Tensor& workspace = (*workspaces)[{device.index(), stream}];
  if (!workspace.defined()) {
    workspace = at::empty({static_cast<int64_t>(kernels::CublasLtProducts::kWorkspaceSize)},
                          at::TensorOptions(device).dtype(at::kByte));
  }
  return workspace;
}

/// A product as EpilogueProduct says, its sizes taken of the arrays; false where these are no
/// GPU's, or cuBLASLt refuses the shape. An output that is wider than the operands is added to.
bool run_on_gpu(kernels::Epilogue epilogue, const at::Tensor& left, const at::Tensor& right,
                int64_t inner, const at::Tensor& output, const at::Tensor& bias,
                const at::Tensor& auxiliary = {}) {
  // False rather than an error, so that every caller falls back to ATen's operators: cuBLASLt has
  // no algorithm for some shapes and alignments.
  if (!output.is_cuda()) return false;
  const kernels::EpilogueProduct product = {
      .epilogue = epilogue,
      .type = float_type(left),
      .adds = output.scalar_type() != left.scalar_type(),
      .left = left.const_data_ptr(),
      .right = right.const_data_ptr(),
      .output = output.mutable_data_ptr(),
      .auxiliary = auxiliary.defined() ? auxiliary.data_ptr() : nullptr,
      .bias = bias.defined() ? bias.data_ptr() : nullptr,
      .rows = output.size(0),
      .columns = output.size(1),
      .inner = inner};
  const c10::DeviceGuard guard(output.device());
  CUstream_st* const stream = current_stream(output.device());
  // Timing may choose another algorithm in the next process, whose sums are rounded otherwise.
  // Without gradients shapes change from batch to batch: timing each costs more than it gains.
  const bool timed =
      epilogue != kernels::Epilogue::kGeluBias && !at::globalContext().deterministicAlgorithms();
  return cublaslt_products()->run(product, workspace_of(output.device(), stream).mutable_data_ptr(),
                                  stream, timed);
}

/// gelu(input x weight, transposed, + bias) and what gelu was taken of.
std::pair<at::Tensor, at::Tensor> gelu_product(const at::Tensor& input, const at::Tensor& weight,
                                               const at::Tensor& bias) {
  const at::Tensor output = at::empty({input.size(0), weight.size(0)}, input.options());
  // What GELU is taken of is kept, as its gradient needs it; cuBLASLt writes it on the way.
  const at::Tensor before = at::empty_like(output);
  if (run_on_gpu(kernels::Epilogue::kGeluAuxBias, input, weight, input.size(1), output, bias,
                 before)) {
    return {output, before};
  }
  const at::Tensor sums = at::linear(input, weight, bias);
  return {at::gelu(sums, "tanh"), sums};
}

/// (gradient x weight) * gelu'(before).
at::Tensor gelu_gradient_product(const at::Tensor& gradient, const at::Tensor& weight,
                                 const at::Tensor& before) {
  const at::Tensor output = at::empty_like(before);
  if (run_on_gpu(kernels::Epilogue::kGeluGradient, gradient, weight, gradient.size(1), output, {},
                 before)) {
    return output;
  }
  return at::gelu_backward(at::mm(gradient, weight), before, "tanh");
}

/// A linear layer's gradient of its weight, and where `bias` is defined of its bias. What the
/// optimizer gathers in arrays of its own is added there, and undefined here.
std::pair<at::Tensor, at::Tensor> weight_and_bias_gradients(const at::Tensor& gradient,
                                                            const at::Tensor& input,
                                                            const at::Tensor& weight,
                                                            const at::Tensor& bias) {
  // Megatron's gradient accumulation fusion: the product adds to the fp32 array itself, which saves
  // one pass over every weight's gradient.
  const at::Tensor main = main_gradient(weight);
  if (!main.defined() && !bias.defined()) return {at::mm(gradient.t(), input), {}};
  const at::Tensor of_weight = main.defined() ? main : at::empty(weight.sizes(), input.options());
  at::Tensor of_bias, sums = of_weight;
  if (bias.defined()) of_bias = at::empty({weight.size(0)}, of_weight.options());
  const auto epilogue =
      bias.defined() ? kernels::Epilogue::kBiasGradient : kernels::Epilogue::kWeightGradient;
  if (!run_on_gpu(epilogue, gradient, input, input.size(0), of_weight, of_bias)) {
    sums = at::mm(gradient.t(), input);
    // The sum of two steps instead of one: rounded to 16 bits in between. Only where cuBLASLt
    // refuses.
    if (main.defined()) main.add_(sums);
    if (bias.defined()) of_bias = gradient.sum(0);
  }
  return {main.defined() ? at::Tensor() : sums, left_for_autograd(bias, of_bias)};
}

/// The nodes of autograd are written by hand because one product of cuBLASLt gives two gradients at
/// once, the weight's and the bias's, which separate operators would compute in two passes over the
/// same array.
class EpilogueLinearBackward : public Node {
 public:
  EpilogueLinearBackward(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias)
      : input_(input, /*is_output=*/false),
        weight_(weight, /*is_output=*/false),
        bias_(bias, /*is_output=*/false) {
    set_next_edges(torch::autograd::collect_next_edges(input, weight, bias));
  }

  void release_variables() override {
    input_.reset_data();
    weight_.reset_data();
    bias_.reset_data();
  }

 protected:
  variable_list apply(variable_list&& gradients) override {
    const c10::NoGradGuard without_gradients;
    const at::Tensor gradient = gradients[0].contiguous(), weight = weight_.unpack();
    variable_list result(3);
    if (task_should_compute_output(0)) result[0] = at::mm(gradient, weight);
    if (task_should_compute_output(1) || task_should_compute_output(2)) {
      std::tie(result[1], result[2]) =
          weight_and_bias_gradients(gradient, input_.unpack(), weight, bias_.unpack());
    }
    return result;
  }

 private:
  SavedVariable input_, weight_, bias_;
};

class EpilogueMlpBackward : public Node {
 public:
  EpilogueMlpBackward(const at::Tensor& input, const at::Tensor& fc1_weight,
                      const at::Tensor& fc1_bias, const at::Tensor& fc2_weight,
                      const at::Tensor& fc2_bias, at::Tensor before, at::Tensor activated)
      : input_(input, /*is_output=*/false),
        fc1_weight_(fc1_weight, /*is_output=*/false),
        fc1_bias_(fc1_bias, /*is_output=*/false),
        fc2_weight_(fc2_weight, /*is_output=*/false),
        fc2_bias_(fc2_bias, /*is_output=*/false),
        before_(std::move(before)),
        activated_(std::move(activated)) {
    set_next_edges(
        torch::autograd::collect_next_edges(input, fc1_weight, fc1_bias, fc2_weight, fc2_bias));
  }

  void release_variables() override {
    input_.reset_data();
    fc1_weight_.reset_data();
    fc1_bias_.reset_data();
    fc2_weight_.reset_data();
    fc2_bias_.reset_data();
    before_.reset();
    activated_.reset();
  }

 protected:
  variable_list apply(variable_list&& gradients) override {
    const c10::NoGradGuard without_gradients;
    TORCH_CHECK(before_.defined(), "the MLP's backward pass ran twice, but its inputs were freed");
    const at::Tensor gradient = gradients[0].contiguous();
    const at::Tensor fc1_weight = fc1_weight_.unpack(), fc2_weight = fc2_weight_.unpack();
    variable_list result(5);
    std::tie(result[3], result[4]) =
        weight_and_bias_gradients(gradient, activated_, fc2_weight, fc2_bias_.unpack());
    const at::Tensor inner = gelu_gradient_product(gradient, fc2_weight, before_);
    std::tie(result[1], result[2]) =
        weight_and_bias_gradients(inner, input_.unpack(), fc1_weight, fc1_bias_.unpack());
    if (task_should_compute_output(0)) result[0] = at::mm(inner, fc1_weight);
    return result;
  }

 private:
  SavedVariable input_, fc1_weight_, fc1_bias_, fc2_weight_, fc2_bias_;
  at::Tensor before_, activated_;  // of this node alone, so that no hook nor version watches them
};

/// [b, s, h] as [b * s, h], which is what a matrix product takes.
at::Tensor as_rows(const at::Tensor& input) {
  return input.reshape({-1, input.size(-1)}).contiguous();
}

at::Tensor as_before(const at::Tensor& rows, const at::Tensor& input) {
  std::vector<int64_t> sizes = input.sizes().vec();
  sizes.back() = rows.size(1);
  return rows.view(sizes);
}

at::Tensor linear_of_rows(const at::Tensor& input, const at::Tensor& weight,
                          const at::Tensor& bias) {
  at::Tensor output;
  {
    const c10::NoGradGuard without_gradients;
    output = at::linear(input, weight, bias);
  }
  if (torch::autograd::compute_requires_grad(input, weight, bias)) {
    torch::autograd::set_history(output, make_node<EpilogueLinearBackward>(input, weight, bias));
  }
  return output;
}

at::Tensor mlp_of_rows(const at::Tensor& input, const at::Tensor& fc1_weight,
                       const at::Tensor& fc1_bias, const at::Tensor& fc2_weight,
                       const at::Tensor& fc2_bias) {
  at::Tensor before, activated, output;
  {
    const c10::NoGradGuard without_gradients;
    std::tie(activated, before) = gelu_product(input, fc1_weight, fc1_bias);
    output = at::linear(activated, fc2_weight, fc2_bias);
  }
  if (torch::autograd::compute_requires_grad(input, fc1_weight, fc1_bias, fc2_weight, fc2_bias)) {
    torch::autograd::set_history(
        output, make_node<EpilogueMlpBackward>(input, fc1_weight, fc1_bias, fc2_weight, fc2_bias,
                                               before, activated));
  }
  return output;
}

}  // namespace

bool has_gelu_epilogue(const at::Tensor& input, const at::Tensor& weight) {
  // fp32 has no such epilogues.
  return input.is_cuda() &&
         (input.scalar_type() == at::kBFloat16 || input.scalar_type() == at::kHalf) &&
         weight.scalar_type() == input.scalar_type() && cublaslt_products() != nullptr;
}

bool has_epilogues(const at::Tensor& input, const at::Tensor& weight) {
  // Without a gradient there is nothing to fuse backward.
  return c10::GradMode::is_enabled() && weight.requires_grad() && has_gelu_epilogue(input, weight);
}

at::Tensor gelu_linear(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor rows = as_rows(input);
  const at::Tensor output = at::empty({rows.size(0), weight.size(0)}, rows.options());
  if (run_on_gpu(kernels::Epilogue::kGeluBias, rows, weight, rows.size(1), output, bias)) {
    return as_before(output, input);
  }
  return at::gelu(at::linear(input, weight, bias), "tanh");
}

at::Tensor epilogue_linear(const at::Tensor& input, const at::Tensor& weight,
                           const at::Tensor& bias) {
  return as_before(linear_of_rows(as_rows(input), weight, bias), input);
}

at::Tensor epilogue_mlp(const at::Tensor& input, const at::Tensor& fc1_weight,
                        const at::Tensor& fc1_bias, const at::Tensor& fc2_weight,
                        const at::Tensor& fc2_bias) {
  return as_before(mlp_of_rows(as_rows(input), fc1_weight, fc1_bias, fc2_weight, fc2_bias), input);
}

}  // namespace meg::nn
