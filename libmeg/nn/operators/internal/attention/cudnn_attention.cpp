#include "libmeg/nn/operators/internal/attention/cudnn_attention.h"

#include <ATen/ATen.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "libmeg/kernels/cudnn/attention_gradient.h"
#include "libmeg/nn/operators/internal/autograd_node.h"
#include "libmeg/nn/operators/kernel_call.h"

namespace meg::nn {
namespace {

using Gradient = kernels::CudnnAttentionGradient;
using Shape = kernels::AttentionGradientShape;
using torch::autograd::Node;
using torch::autograd::variable_list;

/// What cuDNN computes a shape's gradient with, made at its first use; null where it has nothing.
const Gradient* gradient_of(const Shape& shape, at::Device device) {
  static std::mutex mutex;
  // It is never destroyed: at the end of the program cuDNN may be gone before it.
  static auto& known =
      *new std::map<std::pair<c10::DeviceIndex, Shape>, std::unique_ptr<const Gradient>>;
  const std::lock_guard lock(mutex);
  const auto [place, is_new] = known.try_emplace({device.index(), shape});
  if (is_new) {
    const c10::DeviceGuard guard(device);
    if (auto made = Gradient::create(shape)) place->second = std::move(*made);
  }
  return place->second.get();
}

/// Queries, keys and values, [b, n, s, hn] each, where they lie.
variable_list heads_of(const at::Tensor& mixed, int64_t channels) {
  variable_list heads = mixed.view({mixed.size(0), mixed.size(1), -1, 3, channels}).unbind(3);
  for (at::Tensor& one : heads) one = one.transpose(1, 2);
  return heads;
}

/// Whether scaled_dot_product_attention would compute by cuDNN.
bool is_choice(variable_list heads, double scale, double dropout) {
  for (at::Tensor& one : heads) one.set_requires_grad(true);
  const int64_t choice = at::_fused_sdp_choice(heads[0], heads[1], heads[2], {}, dropout,
                                               /*is_causal=*/true, scale);
  return choice == static_cast<int64_t>(at::SDPBackend::cudnn_attention);
}

/// What the backward pass reads, all of this node alone.
struct Passed {
  at::Tensor mixed, output, statistics;
  at::Tensor seed, seed_offset;  ///< Undefined without dropout.
};

const void* data_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr() : nullptr;
}

/// Input: mixed. Output: the heads' outputs.
class CudnnAttentionBackward : public Node {
 public:
  CudnnAttentionBackward(const at::Tensor& mixed, const Gradient& gradient, Passed passed)
      : gradient_(gradient), passed_(std::move(passed)) {
    set_next_edges(torch::autograd::collect_next_edges(mixed));
  }

  void release_variables() override { passed_ = {}; }

 protected:
  variable_list apply(variable_list&& gradients) override {
    const at::AutoDispatchBelowADInplaceOrView without_gradients;
    TORCH_CHECK(passed_.mixed.defined(),
                "attention's backward pass ran twice, but its inputs were freed");
    const at::Tensor grad_output = gradients[0].contiguous();
    const at::Tensor grad_mixed = at::empty_like(passed_.mixed);
    const at::Tensor workspace =
        at::empty({gradient_.workspace_size()}, grad_mixed.options().dtype(at::kByte));
    kernels::AttentionGradientArrays arrays;
    arrays.mixed = data_of(passed_.mixed);
    arrays.output = data_of(passed_.output);
    arrays.grad_output = grad_output.const_data_ptr();
    arrays.statistics = data_of(passed_.statistics);
    arrays.seed = data_of(passed_.seed);
    arrays.seed_offset = data_of(passed_.seed_offset);
    arrays.grad_mixed = grad_mixed.mutable_data_ptr();
    arrays.workspace = workspace.mutable_data_ptr();
    const c10::DeviceGuard guard(grad_mixed.device());
    const Status status = gradient_.run(arrays, current_stream(grad_mixed.device()));
    TORCH_CHECK(status.ok(), status.message());
    return {grad_mixed};
  }

 private:
  const Gradient& gradient_;
  Passed passed_;
};

}  // namespace

at::Tensor cudnn_attention(const at::Tensor& mixed, int64_t channels, double scale,
                           double dropout) {
  const bool is_half = mixed.scalar_type() == at::kHalf || mixed.scalar_type() == at::kBFloat16;
  if (!mixed.is_cuda() || !is_half || !mixed.is_contiguous() ||
      !torch::autograd::compute_requires_grad(mixed)) {
    return {};
  }
  Passed passed;
  const Gradient* gradient = nullptr;
  {
    const at::AutoDispatchBelowADInplaceOrView without_gradients;
    passed.mixed = mixed.detach();
    const variable_list heads = heads_of(passed.mixed, channels);
    if (!is_choice(heads, scale, dropout)) return {};
    gradient = gradient_of({.type = float_type(mixed),
                            .rows = mixed.size(0),
                            .tokens = mixed.size(1),
                            .heads = heads[0].size(1),
                            .channels = channels,
                            .scale = static_cast<float>(scale),
                            .dropout = static_cast<float>(dropout),
                            .deterministic = at::globalContext().deterministicAlgorithms()},
                           mixed.device());
    if (gradient == nullptr) return {};
    const auto result = at::_scaled_dot_product_cudnn_attention(
        heads[0], heads[1], heads[2], /*attn_bias=*/{}, /*compute_log_sumexp=*/true, dropout,
        /*is_causal=*/true, /*return_debug_mask=*/false, scale);
    // LibTorch gives it in the order of the queries: a token's heads side by side.
    passed.output = std::get<0>(result).transpose(1, 2).contiguous();
    passed.statistics = std::get<1>(result).contiguous();
    if (dropout > 0) {
      passed.seed = std::get<6>(result);
      passed.seed_offset = std::get<7>(result);
      TORCH_CHECK(passed.seed.is_cuda() && passed.seed_offset.is_cuda(),
                  "cuDNN's attention: expected the dropout's seed on the GPU");
    }
  }
  at::Tensor output = passed.output.flatten(2);
  torch::autograd::set_history(
      output, make_node<CudnnAttentionBackward>(mixed, *gradient, std::move(passed)));
  return output;
}

}  // namespace meg::nn
