#include "libmeg/nn/operators/internal/recompute.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <utility>

#include "libmeg/nn/operators/internal/autograd_node.h"

namespace meg::nn {
namespace {

using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// Keeps the inputs of a segment instead of what its operators save, and runs the segment again
/// when its gradient is requested. The generators are put back to where they stood before the first
/// run, so that dropout draws the same masks, and forward again to where they are now, so that the
/// next step draws what it would have drawn without recomputation.
class RecomputeBackward : public Node {
 public:
  RecomputeBackward(Segment segment, const std::vector<at::Tensor>& inputs, RandomStates& random)
      : segment_(std::move(segment)), random_(random), states_(random.snapshot()) {
    for (const at::Tensor& input : inputs) inputs_.emplace_back(input, /*is_output=*/false);
    set_next_edges(torch::autograd::collect_next_edges(inputs));
  }

  void release_variables() override {
    inputs_.clear();
    segment_ = nullptr;
  }

 protected:
  variable_list apply(variable_list&& gradients) override {
    TORCH_CHECK(!inputs_.empty(), "the backward pass of a recomputed section can only run once");
    std::vector<at::Tensor> inputs;
    for (SavedVariable& saved : inputs_) {
      const at::Tensor input = saved.unpack();
      // A graph of their own: backward() inside ends at these and does not run on into the outer
      // graph.
      inputs.push_back(input.detach().requires_grad_(input.requires_grad()));
    }
    {
      const c10::AutoGradMode enabled(true);
      run_again(inputs).backward(gradients[0]);
    }
    variable_list results;
    for (const at::Tensor& input : inputs) results.push_back(input.grad());
    return results;
  }

 private:
  /// The generators are put forward before the gradients are computed, as only the forward pass
  /// draws, and also where the segment throws, so that a step which is tried again draws what it
  /// would have drawn.
  at::Tensor run_again(const std::vector<at::Tensor>& inputs) {
    const std::vector<at::Tensor> now = random_.snapshot();
    random_.restore_snapshot(states_);
    at::Tensor output;
    try {
      output = segment_(inputs);
    } catch (...) {
      random_.restore_snapshot(now);
      throw;
    }
    random_.restore_snapshot(now);
    return output;
  }

  Segment segment_;
  RandomStates& random_;
  std::vector<at::Tensor> states_;
  std::vector<SavedVariable> inputs_;
};

}  // namespace

at::Tensor recompute(Segment segment, const std::vector<at::Tensor>& inputs, RandomStates& random) {
  if (!c10::GradMode::is_enabled()) return segment(inputs);
  // The states before the segment draws from them are the node's.
  const auto node = make_node<RecomputeBackward>(segment, inputs, random);
  at::Tensor output;
  {
    const c10::NoGradGuard without_gradients;
    output = segment(inputs);
  }
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace meg::nn
