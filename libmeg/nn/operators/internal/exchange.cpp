#include "libmeg/nn/operators/internal/exchange.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <functional>
#include <utility>

#include "libmeg/libtorch/torch_guard.h"
#include "libmeg/nn/operators/internal/autograd_node.h"

namespace meg::nn {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

/// What an exchange makes of a tensor.
using Map = at::Tensor (*)(const at::Tensor& tensor, const TensorParallel& ranks);

at::Tensor same(const at::Tensor& tensor, const TensorParallel& /*ranks*/) { return tensor; }

at::Tensor summed(const at::Tensor& tensor, const TensorParallel& ranks) {
  const at::Tensor sum = tensor.contiguous();
  libtorch::throw_if_error(ranks.group->all_reduce(sum));
  return sum;
}

/// A gradient may be that of others, too, and stays.
at::Tensor summed_apart(const at::Tensor& tensor, const TensorParallel& ranks) {
  return summed(tensor.clone(at::MemoryFormat::Contiguous), ranks);
}

/// [b, s / ranks, h] -> [b, s, h]
at::Tensor gathered(const at::Tensor& own, const TensorParallel& ranks) {
  const at::Tensor part = own.contiguous();
  const at::Tensor parts =
      at::empty({ranks.size(), part.size(0), part.size(1), part.size(2)}, part.options());
  libtorch::throw_if_error(ranks.group->all_gather(parts, part));
  return parts.transpose(0, 1).reshape({part.size(0), -1, part.size(2)});
}

/// [b, s, h] -> [ranks, b, s / ranks, h]
at::Tensor by_rank(const at::Tensor& whole, const TensorParallel& ranks) {
  return whole.reshape({whole.size(0), ranks.size(), -1, whole.size(2)}).transpose(0, 1);
}

/// [b, s, h] -> [b, s / ranks, h], summed over the ranks.
at::Tensor scattered(const at::Tensor& whole, const TensorParallel& ranks) {
  const at::Tensor parts = by_rank(whole, ranks).contiguous();
  const at::Tensor part = at::empty(parts[0].sizes(), parts.options());
  libtorch::throw_if_error(ranks.group->reduce_scatter(part, parts));
  return part;
}

at::Tensor own_part(const at::Tensor& whole, const TensorParallel& ranks) {
  return by_rank(whole, ranks)[ranks.rank()].contiguous();
}

class ExchangeBackward : public Node {
 public:
  ExchangeBackward(const at::Tensor& input, Map backward, TensorParallel ranks)
      : backward_(backward), ranks_(std::move(ranks)) {
    set_next_edges(torch::autograd::collect_next_edges(input));
  }

 protected:
  variable_list apply(variable_list&& gradients) override {
    const c10::NoGradGuard without_gradients;
    return {backward_(gradients[0], ranks_)};
  }

 private:
  Map backward_;
  TensorParallel ranks_;
};

/// Megatron's conjugate pairs (core/tensor_parallel/mappings.py): what one direction of a pass does
/// forward, the other does to its gradient. Each rank holds a part of a matrix, so entering copies
/// or gathers the states and sums their gradients, leaving sums or scatters the states and copies
/// or gathers their gradients.
at::Tensor exchange(const at::Tensor& input, const TensorParallel& ranks, Map forward,
                    Map backward) {
  if (ranks.size() == 1) return input;
  const bool has_gradient = c10::GradMode::is_enabled() && input.requires_grad();
  at::Tensor output;
  {
    const c10::NoGradGuard without_gradients;
    // A tensor of its own even where nothing changes (`same`): set_history() below must not give
    // the input a new history.
    output = forward(input.variable_data(), ranks);
  }
  if (has_gradient) {
    torch::autograd::set_history(output, make_node<ExchangeBackward>(input, backward, ranks));
  }
  return output;
}

}  // namespace

at::Tensor enter_matrix(const at::Tensor& hidden_states, const TensorParallel& ranks) {
  if (ranks.sequence_parallel) return exchange(hidden_states, ranks, gathered, scattered);
  return exchange(hidden_states, ranks, same, summed_apart);
}

at::Tensor leave_matrix(const at::Tensor& partial, const TensorParallel& ranks) {
  if (ranks.sequence_parallel) return exchange(partial, ranks, scattered, gathered);
  return sum_of_ranks(partial, ranks);
}

at::Tensor sum_of_ranks(const at::Tensor& partial, const TensorParallel& ranks) {
  return exchange(partial, ranks, summed, same);
}

at::Tensor scatter_to_sequence_parallel_region(const at::Tensor& whole,
                                               const TensorParallel& ranks) {
  return exchange(whole, ranks, own_part, gathered);
}

}  // namespace meg::nn
