#include "libmeg/nn/operators/internal/cross_entropy.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <utility>

#include "libmeg/kernels/softmax_cross_entropy.h"
#include "libmeg/nn/operators/internal/autograd_node.h"
#include "libmeg/nn/operators/kernel_call.h"

namespace meg::nn {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

/// Rows that a thread takes at least.
///
/// A row is a vocabulary, which is work enough.
constexpr int64_t kVocabularyGrain = 1;

/// What the two passes share.
struct Rows {
  at::Tensor logits;  ///< [rows, v], dense; after the backward pass their gradient
  at::Tensor labels;  ///< [rows]
  at::Tensor losses, maxima, sums;
};

Rows rows_of(const at::Tensor& logits, const at::Tensor& labels) {
  Rows rows;
  // Where logits are dense this is their memory, and the gradient will replace them: an array of
  // [tokens, vocabulary] is the largest of a training step, and a second one is spared.
  rows.logits = logits.detach().contiguous().view({-1, logits.size(-1)});
  rows.labels = labels.reshape({-1}).contiguous();
  // Use fp32 whatever type the logits have, as Megatron's vocab_parallel_cross_entropy converts
  // them.
  rows.losses = at::empty({rows.logits.size(0)}, logits.options().dtype(at::kFloat));
  // With a row's largest logit and the sum of exponentials the backward pass need not go through
  // the row a second time to find them.
  rows.maxima = at::empty_like(rows.losses);
  rows.sums = at::empty_like(rows.losses);
  return rows;
}

kernels::SoftmaxCrossEntropyForward forward_call(const Rows& rows) {
  kernels::SoftmaxCrossEntropyForward call;
  call.type = float_type(rows.logits);
  call.logits = rows.logits.const_data_ptr();
  call.labels = rows.labels.const_data_ptr<int64_t>();
  call.losses = rows.losses.mutable_data_ptr<float>();
  call.maxima = rows.maxima.mutable_data_ptr<float>();
  call.sums = rows.sums.mutable_data_ptr<float>();
  call.rows = rows.logits.size(0);
  call.columns = rows.logits.size(1);
  return call;
}

/// bad: the first row whose label is outside, or -1.
void check_label(const kernels::SoftmaxCrossEntropyForward& call, int64_t bad) {
  TORCH_CHECK_INDEX(bad < 0, "labels: expected 0 to ", call.columns - 1, ", found ",
                    call.labels[bad < 0 ? 0 : bad]);
}

void forward(const Rows& rows, const at::Tensor& label_error) {
  const kernels::SoftmaxCrossEntropyForward call = forward_call(rows);
  run_kernel(
      "softmax_cross_entropy_forward", rows.logits.device(), call.rows, kVocabularyGrain,
      [&](CUstream_st* stream) {
        return kernels::softmax_cross_entropy_forward_cuda(
            call, label_error.mutable_data_ptr<int>(), stream);
      },
      [&](int64_t begin, int64_t end) {
        check_label(call, kernels::softmax_cross_entropy_forward_cpu(call, begin, end));
      });
}

void forward_backward(const Rows& rows, const at::Tensor& grad_losses,
                      const at::Tensor& label_error) {
  const kernels::SoftmaxCrossEntropyForward call = forward_call(rows);
  const auto* factors = grad_losses.const_data_ptr<float>();
  void* gradient = rows.logits.mutable_data_ptr();
  run_kernel(
      "softmax_cross_entropy_forward_backward", rows.logits.device(), call.rows, kVocabularyGrain,
      [&](CUstream_st* stream) {
        return kernels::softmax_cross_entropy_forward_backward_cuda(
            call, factors, gradient, label_error.mutable_data_ptr<int>(), stream);
      },
      [&](int64_t begin, int64_t end) {
        check_label(call, kernels::softmax_cross_entropy_forward_backward_cpu(
                              call, factors, gradient, begin, end));
      });
}

void backward(const Rows& rows, const at::Tensor& grad_losses) {
  kernels::SoftmaxCrossEntropyBackward call;
  call.type = float_type(rows.logits);
  call.logits = rows.logits.const_data_ptr();
  call.labels = rows.labels.const_data_ptr<int64_t>();
  call.maxima = rows.maxima.const_data_ptr<float>();
  call.sums = rows.sums.const_data_ptr<float>();
  call.grad_losses = grad_losses.const_data_ptr<float>();
  call.grad_logits = rows.logits.mutable_data_ptr();
  call.rows = rows.logits.size(0);
  call.columns = rows.logits.size(1);
  run_kernel(
      "softmax_cross_entropy_backward", rows.logits.device(), call.rows, kVocabularyGrain,
      [&](CUstream_st* stream) {
        return kernels::softmax_cross_entropy_backward_cuda(call, stream);
      },
      [&](int64_t begin, int64_t end) {
        kernels::softmax_cross_entropy_backward_cpu(call, begin, end);
      });
}

class CrossEntropyBackward : public Node {
 public:
  CrossEntropyBackward(const at::Tensor& logits, Rows rows)
      : sizes_(logits.sizes().vec()), rows_(std::move(rows)) {
    set_next_edges(torch::autograd::collect_next_edges(logits));
  }

  void release_variables() override { rows_ = Rows(); }

 protected:
  variable_list apply(variable_list&& gradients) override {
    // The first backward pass has overwritten the logits, of which a second would take a wrong
    // gradient.
    TORCH_CHECK(rows_.logits.defined(), "the gradient of cross_entropy can only be computed once");
    const c10::NoGradGuard without_gradients;
    backward(rows_, gradients[0].reshape({-1}).contiguous());
    const at::Tensor result = rows_.logits.view(sizes_);
    rows_ = Rows();
    return {result};
  }

 private:
  std::vector<int64_t> sizes_;
  Rows rows_;
};

}  // namespace

at::Tensor cross_entropy(at::Tensor logits, const at::Tensor& labels,
                         const at::Tensor& label_error) {
  const bool has_gradient = c10::GradMode::is_enabled() && logits.requires_grad();
  at::Tensor losses;
  Rows rows;
  {
    const c10::NoGradGuard without_gradients;
    rows = rows_of(logits, labels);
    forward(rows, label_error);
    losses = rows.losses.view(labels.sizes());
  }
  // The node needs all but the losses, which are its output: it would hold itself.
  rows.losses = at::Tensor();
  if (has_gradient) {
    torch::autograd::set_history(losses, make_node<CrossEntropyBackward>(logits, std::move(rows)));
  }
  return losses;
}

LossesAndGradient cross_entropy_with_gradient(const at::Tensor& logits, const at::Tensor& labels,
                                              const at::Tensor& grad_losses,
                                              const at::Tensor& label_error) {
  const c10::NoGradGuard without_gradients;
  const Rows rows = rows_of(logits, labels);
  forward_backward(rows, grad_losses.reshape({-1}).contiguous(), label_error);
  return {.losses = rows.losses.view(labels.sizes()),
          .grad_logits = rows.logits.view(logits.sizes())};
}

}  // namespace meg::nn
