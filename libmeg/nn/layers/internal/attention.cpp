#include "libmeg/nn/layers/internal/attention.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "libmeg/nn/operators/internal/chosen_rows.h"
#include "libmeg/nn/operators/internal/recompute.h"

namespace meg::nn {
namespace {

constexpr std::string_view kStem = "decoder.layers.{}.self_attention.";

at::Tensor parameter(const ParameterStore& store, std::string_view name, int64_t layer) {
  return store.find(std::string(kStem) + std::string(name), layer);
}

}  // namespace

SelfAttention::SelfAttention(const model::GptConfig& config, const GptOptions& options,
                             const ParameterStore& store, int64_t layer)
    : linear_qkv_(parameter(store, "linear_qkv.weight", layer),
                  parameter(store, "linear_qkv.bias", layer), store.tensor_parallel()),
      linear_proj_(parameter(store, "linear_proj.weight", layer),
                   parameter(store, "linear_proj.bias", layer), store.tensor_parallel()),
      core_attention_(config, options, layer),
      layer_(layer),
      queries_per_group_(config.num_attention_heads / config.num_query_groups),
      kv_channels_(config.kv_channels),
      rotary_interleaved_(options.rotary_interleaved),
      recompute_(options.recompute_granularity == model::RecomputeGranularity::kSelective) {
  if (config.qk_layernorm) {
    q_layernorm_.emplace(config, options, store, fmt::format("{}q_layernorm.", kStem), layer);
    k_layernorm_.emplace(config, options, store, fmt::format("{}k_layernorm.", kStem), layer);
  }
}

at::Tensor SelfAttention::attend(const AttentionHeads& heads, const ForwardContext& context) const {
  if (context.cache != nullptr) {
    return context.cache->attention(layer_, heads.query, heads.key, heads.value,
                                    core_attention_.softmax_scale());
  }
  if (!recompute_ || !context.training) {
    return core_attention_.forward(heads.query, heads.key, heads.value, context);
  }
  const auto core = [this, context](const std::vector<at::Tensor>& inputs) {
    return core_attention_.forward(inputs[0], inputs[1], inputs[2], context);
  };
  return recompute(core, {heads.query, heads.key, heads.value}, *context.random);
}

at::Tensor SelfAttention::split_and_attend(const at::Tensor& mixed,
                                           const ForwardContext& context) const {
  const bool turns_later = q_layernorm_ && context.rotary.cosine.defined();
  AttentionHeads heads =
      split_heads(mixed, queries_per_group_, kv_channels_,
                  q_layernorm_ ? RotaryTable() : context.rotary, rotary_interleaved_);
  if (q_layernorm_) {
    heads.query = q_layernorm_->forward(heads.query);
    heads.key = k_layernorm_->forward(heads.key);
  }
  if (turns_later) turn_heads(heads, context.rotary, rotary_interleaved_);
  return attend(heads, context);
}

at::Tensor SelfAttention::forward(const at::Tensor& hidden_states, const ForwardContext& context,
                                  const at::Tensor& rows) const {
  const at::Tensor mixed = linear_qkv_.forward(hidden_states);
  // What is recomputed starts from the heads.
  const bool takes_mixed =
      queries_per_group_ == 1 && !q_layernorm_ && !context.rotary.cosine.defined() && !recompute_;
  at::Tensor outputs;
  if (takes_mixed) outputs = core_attention_.forward_mixed(mixed, context);
  if (!outputs.defined()) outputs = split_and_attend(mixed, context);
  return linear_proj_.forward(chosen_rows(outputs, rows));
}

}  // namespace meg::nn
