#include "libmeg/nn/operators/internal/attention/attention_heads.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <utility>
#include <vector>

#include "libmeg/kernels/attention/rotary_heads.h"
#include "libmeg/nn/operators/internal/autograd_node.h"
#include "libmeg/nn/operators/kernel_call.h"

namespace meg::nn {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

/// Tokens that a thread takes at least.
constexpr int64_t kTokenGrain = 4;

/// Strides of [b, s, g, n, hn].
kernels::HeadStrides strides_of(const at::Tensor& heads) {
  return {heads.stride(0), heads.stride(1), heads.stride(2), heads.stride(3)};
}

/// [b, s, n, hn] as [b, s, g, n / g, hn]; channels are dense.
at::Tensor by_group(const at::Tensor& heads, int64_t groups) {
  TORCH_CHECK(heads.defined(), "attention returned no gradient of its queries, keys or values");
  // The kernel takes any strides except for the channels, which it reads as vectors. Attention's
  // gradients come in several layouts.
  const at::Tensor dense = heads.stride(-1) == 1 ? heads : heads.contiguous();
  return dense.unflatten(2, {groups, -1});
}

/// What is rotated, and how. Both kinds of copies are made by one call.
class HeadMover {
 public:
  HeadMover(const RotaryTable& table, bool interleaved)
      : table_(table), interleaved_(interleaved) {}

  /// from, to: as many each, [b, s, g, n, hn] with dense channels. The first `turned_parts` turn.
  void move(const variable_list& from, const variable_list& to, size_t turned_parts,
            bool turns_back) const {
    kernels::RotaryHeads call;
    call.type = float_type(from[0]);
    call.rows = from[0].size(0);
    call.tokens = from[0].size(1);
    call.groups = from[0].size(2);
    call.channels = from[0].size(4);
    call.interleaved = interleaved_;
    // The gradient of a rotation is the rotation by the negative angle.
    call.turns_back = turns_back;
    if (table_.cosine.defined()) {
      call.turned = table_.cosine.size(-1);
      TORCH_CHECK(call.turned <= call.channels && table_.cosine.size(0) == call.tokens,
                  "rotary embedding: expected a table of ", call.tokens, " tokens and at most ",
                  call.channels, " channels, found ", table_.cosine.sizes());
      call.cosine = table_.cosine.const_data_ptr();
      call.sine = table_.sine.const_data_ptr();
    }
    for (size_t i = 0; i < from.size(); ++i) {
      call.copies[i] = {.from = from[i].const_data_ptr(),
                        .from_strides = strides_of(from[i]),
                        .to = to[i].mutable_data_ptr(),
                        .to_strides = strides_of(to[i]),
                        .heads = from[i].size(3),
                        .is_turned = i < turned_parts};
    }
    run_kernel(
        "rotary_heads", from[0].device(), call.rows * call.tokens, kTokenGrain,
        [&](CUstream_st* stream) { return kernels::rotary_heads_cuda(call, stream); },
        [&](int64_t begin, int64_t end) { kernels::rotary_heads_cpu(call, begin, end); });
  }

  bool turns() const { return table_.cosine.defined(); }

 private:
  RotaryTable table_;
  bool interleaved_;
};

/// Queries, keys and values in the mixed array, [b, s, g, n, hn].
variable_list parts_of(const at::Tensor& mixed, int64_t queries_per_group, int64_t kv_channels) {
  return mixed.view({mixed.size(0), mixed.size(1), -1, queries_per_group + 2, kv_channels})
      .split_with_sizes({queries_per_group, 1, 1}, 3);
}

/// Queries and keys, [b, s, n, hn], rotated.
variable_list turned(const variable_list& heads, int64_t groups, const HeadMover& mover,
                     bool back) {
  variable_list from, to, result;
  for (const at::Tensor& one : heads) {
    from.push_back(by_group(one, groups));
    result.push_back(at::empty(one.sizes(), one.options()));
    to.push_back(by_group(result.back(), groups));
  }
  mover.move(from, to, /*turned_parts=*/2, back);
  return result;
}

/// Input: mixed. Outputs: query, key, value.
class SplitHeadsBackward : public Node {
 public:
  SplitHeadsBackward(const at::Tensor& mixed, int64_t queries_per_group, int64_t kv_channels,
                     HeadMover mover)
      : sizes_(mixed.sizes().vec()),
        options_(mixed.options()),
        queries_per_group_(queries_per_group),
        kv_channels_(kv_channels),
        mover_(std::move(mover)) {
    set_next_edges(torch::autograd::collect_next_edges(mixed));
  }

 protected:
  variable_list apply(variable_list&& gradients) override {
    // All three gradients are written into one array, where the mixed product's backward pass wants
    // them: no concatenation.
    const at::AutoDispatchBelowADInplaceOrView without_gradients;
    const at::Tensor grad_mixed = at::empty(sizes_, options_);
    const variable_list to = parts_of(grad_mixed, queries_per_group_, kv_channels_);
    variable_list from;
    for (const at::Tensor& gradient : gradients) {
      from.push_back(by_group(gradient, to[0].size(2)));
    }
    mover_.move(from, to, /*turned_parts=*/2, /*turns_back=*/true);
    return {grad_mixed};
  }

 private:
  std::vector<int64_t> sizes_;
  at::TensorOptions options_;
  int64_t queries_per_group_, kv_channels_;
  HeadMover mover_;
};

/// Inputs: query, key. Outputs: both, rotated.
class TurnHeadsBackward : public Node {
 public:
  TurnHeadsBackward(const AttentionHeads& heads, HeadMover mover)
      : groups_(heads.key.size(2)), mover_(std::move(mover)) {
    set_next_edges(torch::autograd::collect_next_edges(heads.query, heads.key));
  }

 protected:
  variable_list apply(variable_list&& gradients) override {
    const at::AutoDispatchBelowADInplaceOrView without_gradients;
    return turned(gradients, groups_, mover_, /*back=*/true);
  }

 private:
  int64_t groups_;
  HeadMover mover_;
};

}  // namespace

AttentionHeads split_heads(const at::Tensor& mixed, int64_t queries_per_group, int64_t kv_channels,
                           const RotaryTable& table, bool interleaved) {
  const HeadMover mover(table, interleaved);
  AttentionHeads heads;
  {
    const at::AutoDispatchBelowADInplaceOrView without_gradients;
    const at::Tensor dense = mixed.contiguous();
    variable_list parts = parts_of(dense, queries_per_group, kv_channels);
    heads.value = parts[2].squeeze(3);
    // Where nothing is rotated and heads lie one after another, views do.
    if (mover.turns() || queries_per_group > 1) {
      const variable_list from(parts.begin(), parts.begin() + 2);
      for (size_t i = 0; i < 2; ++i) parts[i] = at::empty(parts[i].sizes(), parts[i].options());
      mover.move(from, {parts[0], parts[1]}, /*turned_parts=*/2, /*turns_back=*/false);
    }
    heads.query = parts[0].flatten(2, 3);
    heads.key = parts[1].squeeze(3);
  }
  if (torch::autograd::compute_requires_grad(mixed)) {
    const auto node = make_node<SplitHeadsBackward>(mixed, queries_per_group, kv_channels, mover);
    for (at::Tensor* one : {&heads.query, &heads.key, &heads.value}) {
      torch::autograd::set_history(*one, node);
    }
  }
  return heads;
}

void turn_heads(AttentionHeads& heads, const RotaryTable& table, bool interleaved) {
  const HeadMover mover(table, interleaved);
  variable_list both;
  {
    const at::AutoDispatchBelowADInplaceOrView without_gradients;
    both = turned({heads.query, heads.key}, heads.key.size(2), mover, /*back=*/false);
  }
  if (torch::autograd::compute_requires_grad(heads.query, heads.key)) {
    const auto node = make_node<TurnHeadsBackward>(heads, mover);
    for (at::Tensor& one : both) torch::autograd::set_history(one, node);
  }
  heads.query = both[0];
  heads.key = both[1];
}

}  // namespace meg::nn
