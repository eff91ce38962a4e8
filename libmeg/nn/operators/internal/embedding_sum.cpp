#include "libmeg/nn/operators/internal/embedding_sum.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <utility>

#include "libmeg/kernels/embedding_backward.h"
#include "libmeg/nn/operators/internal/autograd_node.h"
#include "libmeg/nn/operators/internal/main_gradient.h"
#include "libmeg/nn/operators/kernel_call.h"

namespace meg::nn {
namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// Gradient of the table `weight`, in which `ids`, [b, s], were looked up (undefined: 0 to s - 1 in
/// each sequence); undefined if it was added to the main gradient. gradient: [b, s, h], dense.
at::Tensor table_gradient(const at::Tensor& gradient, const at::Tensor& weight,
                          const at::Tensor& ids) {
  const at::Tensor main = main_gradient(weight);
  // Zeros, as most rows of the table are not looked up; the kernel writes the others alone.
  const at::Tensor result = main.defined() ? main : at::zeros_like(weight);
  kernels::EmbeddingBackward call;
  call.type = float_type(gradient);
  call.ids = ids.defined() ? ids.const_data_ptr<int64_t>() : nullptr;
  call.period = gradient.size(1);
  call.gradients = gradient.const_data_ptr();
  call.grad_weight = result.mutable_data_ptr();
  call.adds = main.defined();
  call.columns = gradient.size(2);
  call.count = gradient.size(0) * gradient.size(1);
  if (gradient.is_cuda()) {
    // Room for the ids sorted with their places, by which equal ids are summed in a fixed order:
    // atomic additions would give other bits in each run.
    const at::Tensor scratch =
        at::empty({kernels::embedding_backward_scratch(call)}, gradient.options().dtype(at::kLong));
    launch_kernel("embedding_backward", gradient.device(), [&](CUstream_st* stream) {
      return kernels::embedding_backward_cuda(call, scratch.mutable_data_ptr<int64_t>(), stream);
    });
  } else {
    kernels::embedding_backward_cpu(call);
  }
  return main.defined() ? at::Tensor() : result;
}

class EmbeddingSumBackward : public Node {
 public:
  EmbeddingSumBackward(const at::Tensor& words, at::Tensor tokens, const at::Tensor& positions,
                       at::Tensor position_ids)
      : words_(words, /*is_output=*/false),
        positions_(positions, /*is_output=*/false),
        tokens_(std::move(tokens)),
        position_ids_(std::move(position_ids)) {
    set_next_edges(torch::autograd::collect_next_edges(words, positions));
  }

  void release_variables() override {
    words_.reset_data();
    positions_.reset_data();
    tokens_.reset();
  }

 protected:
  variable_list apply(variable_list&& gradients) override {
    const c10::NoGradGuard without_gradients;
    TORCH_CHECK(tokens_.defined(),
                "an embedding's backward pass ran twice, but its inputs were freed");
    const at::Tensor gradient = gradients[0].contiguous();
    variable_list result(2);
    if (task_should_compute_output(0)) {
      result[0] = table_gradient(gradient, words_.unpack(), tokens_.contiguous());
    }
    if (task_should_compute_output(1)) {
      at::Tensor ids = position_ids_;
      if (ids.defined()) ids = ids.expand(tokens_.sizes()).contiguous();
      result[1] = table_gradient(gradient, positions_.unpack(), ids);
    }
    return result;
  }

 private:
  SavedVariable words_, positions_;
  at::Tensor tokens_, position_ids_;  // numbers, which have no gradients
};

}  // namespace

at::Tensor embedding_sum(const at::Tensor& words, const at::Tensor& tokens,
                         const at::Tensor& positions, const at::Tensor& position_ids) {
  at::Tensor sum;
  {
    const c10::NoGradGuard without_gradients;
    // One array for both lookups, added in place; autograd's own operators would keep two.
    sum = at::embedding(words, tokens);
    if (positions.defined()) {
      // Positions 0 to s - 1 need no lookup: broadcasting adds the same rows to each sequence.
      sum.add_(position_ids.defined() ? at::embedding(positions, position_ids)
                                      : positions.narrow(0, 0, tokens.size(1)));
    }
  }
  if (torch::autograd::compute_requires_grad(words, positions)) {
    torch::autograd::set_history(
        sum, make_node<EmbeddingSumBackward>(words, tokens, positions, position_ids));
  }
  return sum;
}

}  // namespace meg::nn
