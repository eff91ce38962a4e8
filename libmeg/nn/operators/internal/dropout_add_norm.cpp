#include "libmeg/nn/operators/internal/dropout_add_norm.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <mutex>
#include <utility>

#include "libmeg/kernels/dropout_add_norm.h"
#include "libmeg/nn/operators/internal/autograd_node.h"
#include "libmeg/nn/operators/internal/main_gradient.h"
#include "libmeg/nn/operators/kernel_call.h"

namespace meg::nn {
namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

const void* data_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr() : nullptr;
}

/// What both passes know; `like`: an array of the kernels' `type`.
kernels::DropoutAddNorm shape_of(const at::Tensor& like, const at::Tensor& residual,
                                 const kernels::DropoutMask& dropout, const NormKernel& norm) {
  kernels::DropoutAddNorm shape;
  shape.type = float_type(like);
  shape.residual_type = float_type(residual);
  TORCH_CHECK(shape.residual_type == shape.type || residual.scalar_type() == at::kFloat,
              "expected residuals in the parameters' type or fp32, found ", residual.scalar_type());
  shape.is_rms_norm = norm.is_rms_norm;
  shape.is_1p = norm.is_1p;
  shape.epsilon = static_cast<float>(norm.epsilon);
  shape.dropout = dropout;
  shape.columns = residual.size(-1);
  shape.rows = residual.numel() / shape.columns;
  return shape;
}

/// What a forward pass leaves, and what its backward pass needs of it.
struct Passed {
  at::Tensor sum, normalized, means, rstds;
};

Passed forward(const at::Tensor& branch, const at::Tensor& residual,
               const kernels::DropoutMask& dropout, const NormKernel& norm) {
  // Without a norm only dropout and sum are left: at the end of a pipeline stage or of a segment
  // that is recomputed, whose successor begins with the norm.
  const bool has_norm = norm.weight.defined();
  const at::Tensor& like = has_norm ? norm.weight : branch;
  kernels::DropoutAddNormForward call{shape_of(like, residual, dropout, norm)};
  Passed passed;
  // Without a branch the sum is the residual itself, and nothing is written.
  passed.sum = branch.defined() ? at::empty_like(residual) : residual;
  if (has_norm) {
    passed.normalized = at::empty(residual.sizes(), like.options().requires_grad(false));
    passed.means = at::empty({call.rows}, residual.options().dtype(at::kFloat));
    // Two floats a row instead of the normalized rows: those follow from the sum again in the
    // backward pass.
    passed.rstds = at::empty_like(passed.means);
    call.normalized = passed.normalized.mutable_data_ptr();
    call.means = passed.means.mutable_data_ptr<float>();
    call.rstds = passed.rstds.mutable_data_ptr<float>();
  }
  call.branch = data_of(branch);
  call.residual = data_of(residual);
  call.weight = data_of(norm.weight);
  call.bias = data_of(norm.bias);
  if (branch.defined()) call.sum = passed.sum.mutable_data_ptr();
  run_kernel(
      "dropout_add_norm_forward", residual.device(), call.rows, kRowGrain,
      [&](CUstream_st* stream) { return kernels::dropout_add_norm_forward_cuda(call, stream); },
      [&](int64_t begin, int64_t end) { kernels::dropout_add_norm_forward_cpu(call, begin, end); });
  return passed;
}

void run_backward(const kernels::DropoutAddNormBackward& call, const at::Tensor& sum) {
  if (!sum.is_cuda()) {
    kernels::dropout_add_norm_backward_cpu(call);
    return;
  }
  const at::Tensor scratch =
      at::empty({call.grad_normalized == nullptr
                     ? 0
                     : kernels::dropout_add_norm_scratch(call.rows, call.columns)},
                sum.options().dtype(at::kFloat));
  launch_kernel("dropout_add_norm_backward", sum.device(), [&](CUstream_st* stream) {
    return kernels::dropout_add_norm_backward_cuda(call, scratch.mutable_data_ptr<float>(), stream);
  });
}

/// Gradients of the weight and the bias: arrays of their own, or what the optimizer gathers them
/// in.
class NormGradients {
 public:
  NormGradients(const at::Tensor& weight, const at::Tensor& bias)
      : weight_(main_gradient(weight)), bias_(bias.defined() ? main_gradient(bias) : weight_) {
    // Both or none, as one call of the kernel adds to both or writes both.
    gathers_ = weight_.defined() && bias_.defined();
    if (gathers_) return;
    weight_ = at::empty_like(weight);
    bias_ = at::empty_like(weight);
  }

  void put_into(kernels::DropoutAddNormBackward& call) const {
    call.adds_to_gradients = gathers_;
    call.grad_weight = weight_.mutable_data_ptr();
    call.grad_bias = bias_.mutable_data_ptr();
  }

  /// Returns what autograd gets; undefined where gradients are gathered.
  at::Tensor weight() const { return gathers_ ? at::Tensor() : weight_; }

  at::Tensor bias() const { return gathers_ ? at::Tensor() : bias_; }

 private:
  at::Tensor weight_, bias_;
  bool gathers_ = false;
};

/// Inputs: branch, residual, weight, bias. Outputs: sum, normalized.
class DropoutAddNormBackward : public Node {
 public:
  DropoutAddNormBackward(const at::Tensor& branch, const at::Tensor& residual,
                         const kernels::DropoutMask& dropout, const NormKernel& norm,
                         const Passed& passed)
      : dropout_(dropout),
        norm_{.weight = {},
              .bias = {},
              .is_rms_norm = norm.is_rms_norm,
              .is_1p = norm.is_1p,
              .epsilon = norm.epsilon},
        weight_(norm.weight, /*is_output=*/false),
        bias_(norm.bias, /*is_output=*/false),
        branch_type_(branch.defined() ? branch.scalar_type() : residual.scalar_type()),
        // Detached, or the node would hold itself through its own output and never be freed.
        sum_(passed.sum.detach()),
        means_(passed.means),
        rstds_(passed.rstds) {
    set_next_edges(torch::autograd::collect_next_edges(branch, residual, norm.weight, norm.bias));
  }

  void release_variables() override {
    weight_.reset_data();
    bias_.reset_data();
    sum_.reset();
    means_.reset();
    rstds_.reset();
  }

 protected:
  variable_list apply(variable_list&& gradients) override {
    const c10::NoGradGuard without_gradients;
    TORCH_CHECK(sum_.defined(), "a norm's backward pass ran twice, but its inputs were freed");
    const at::Tensor weight = weight_.unpack(), bias = bias_.unpack();
    const bool wants_branch = task_should_compute_output(0);
    const bool has_norm = gradients.size() > 1 && gradients[1].defined();
    const at::Tensor grad_sum = gradients[0].defined() ? gradients[0].contiguous() : at::Tensor();
    const at::Tensor grad_normalized = has_norm ? gradients[1].contiguous() : at::Tensor();
    const at::Tensor grad_residual = at::empty_like(sum_);
    // Without dropout the branch's is the residual's, unless that is wider.
    const bool is_same = dropout_.kept == 1 && branch_type_ == sum_.scalar_type();
    at::Tensor grad_branch = grad_residual;
    if (wants_branch && !is_same) {
      grad_branch = at::empty(sum_.sizes(), sum_.options().dtype(branch_type_));
    }
    kernels::DropoutAddNormBackward call{
        shape_of(weight.defined() ? weight : grad_branch, sum_, dropout_, norm_)};
    call.grad_normalized = data_of(grad_normalized);
    call.grad_sum = data_of(grad_sum);
    call.sum = data_of(sum_);
    call.grad_residual = grad_residual.mutable_data_ptr();
    if (wants_branch && !is_same) call.grad_branch = grad_branch.mutable_data_ptr();
    variable_list result = {wants_branch ? grad_branch : at::Tensor(), grad_residual, {}, {}};
    if (has_norm) {
      const NormGradients of_norm(weight, bias);
      of_norm.put_into(call);
      call.weight = data_of(weight);
      call.means = means_.const_data_ptr<float>();
      call.rstds = rstds_.const_data_ptr<float>();
      result[2] = of_norm.weight();
      if (bias.defined()) result[3] = of_norm.bias();
    }
    run_backward(call, sum_);
    return result;
  }

 private:
  kernels::DropoutMask dropout_;
  NormKernel norm_;  ///< Without its tensors.
  SavedVariable weight_, bias_;
  at::ScalarType branch_type_;
  at::Tensor sum_, means_, rstds_;  // of this node alone, so that no hook nor version watches them
};

}  // namespace

kernels::DropoutMask draw_dropout_mask(double probability, at::Generator& generator) {
  if (probability == 0) return {};
  const std::lock_guard<std::mutex> lock(generator.mutex());
  const uint64_t offset = generator.get_offset();
  generator.set_offset(offset + kernels::DropoutMask::kOffsets);
  return {.kept = 1 - probability, .seed = generator.current_seed(), .offset = offset};
}

SumAndNormalized dropout_add_norm(const at::Tensor& branch, const at::Tensor& residual,
                                  const kernels::DropoutMask& dropout, const NormKernel& norm) {
  Passed passed;
  {
    const c10::NoGradGuard without_gradients;
    passed = forward(branch.defined() ? branch.contiguous() : branch, residual.contiguous(),
                     dropout, norm);
  }
  if (torch::autograd::compute_requires_grad(branch, residual, norm.weight, norm.bias)) {
    const auto node = make_node<DropoutAddNormBackward>(branch, residual, dropout, norm, passed);
    // Its gradient comes through this node too, which adds it to its own.
    if (!branch.defined()) passed.sum = passed.sum.detach();
    torch::autograd::set_history(passed.sum, node);
    if (passed.normalized.defined()) torch::autograd::set_history(passed.normalized, node);
  }
  return {.sum = passed.sum, .normalized = passed.normalized};
}

}  // namespace meg::nn
