#include "libmeg/nn/operators/internal/attention/fused_attention.h"

#include <ATen/ATen.h>
#include <ATen/SDPBackend.h>

namespace meg::nn {
namespace {

bool is_grouped(const FusedAttention& inputs) { return inputs.key.size(1) != inputs.query.size(1); }

/// Whether LibTorch would keep the scores of all pairs of tokens.
bool keeps_scores(const FusedAttention& inputs) {
  const int64_t backend =
      at::_fused_sdp_choice(inputs.query, inputs.key, inputs.value, inputs.mask, inputs.dropout,
                            inputs.is_causal, inputs.scale, is_grouped(inputs));
  return backend == static_cast<int64_t>(at::SDPBackend::math);
}

/// Gives every head a key and a value of its own.
void spread_groups(FusedAttention& inputs) {
  const int64_t heads_of_group = inputs.query.size(1) / inputs.key.size(1);
  inputs.key = inputs.key.repeat_interleave(heads_of_group, 1);
  inputs.value = inputs.value.repeat_interleave(heads_of_group, 1);
}

void suit_gpu_kernels(FusedAttention& inputs) {
  // Only FlashAttention and cuDNN take groups; neither takes fp32, nor every mask.
  if (is_grouped(inputs) && keeps_scores(inputs)) spread_groups(inputs);
  constexpr int64_t kChannels = 8;
  const int64_t missing = kChannels - inputs.query.size(3) % kChannels;
  if (missing < kChannels && keeps_scores(inputs)) {
    // Channels of zeros add nothing to scores, and are cut off the output.
    for (at::Tensor* one : {&inputs.query, &inputs.key, &inputs.value}) {
      *one = at::constant_pad_nd(*one, {0, missing});
    }
  }
  TORCH_CHECK(!keeps_scores(inputs), "attention_backend: expected unfused for ",
              inputs.query.scalar_type(), " heads of ", inputs.query.size(3),
              " channels, for which LibTorch has no fused kernel on this GPU");
}

}  // namespace

at::Tensor fused_attention(FusedAttention inputs) {
  const int64_t channels = inputs.query.size(3);
  if (inputs.query.is_cpu()) {
    // LibTorch's CPU attention knows no groups.
    if (is_grouped(inputs)) spread_groups(inputs);
  } else {
    suit_gpu_kernels(inputs);
  }
  const at::Tensor output = at::scaled_dot_product_attention(
      inputs.query, inputs.key, inputs.value, inputs.mask, inputs.dropout, inputs.is_causal,
      inputs.scale, is_grouped(inputs));
  return output.size(3) == channels ? output : output.narrow(3, 0, channels);
}

}  // namespace meg::nn
