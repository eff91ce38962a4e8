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

/// [n], of this rank's heads; undefined: none.
at::Tensor softmax_offset(const model::GptConfig& config, const GptOptions& options,
                          const ParameterStore& store, int64_t layer) {
  if (config.softmax_type != "off-by-one") {
    return parameter(store, "core_attention.softmax_offset", layer);
  }
  return at::zeros({config.num_attention_heads / store.tensor_parallel().size()},
                   at::dtype(options.params_dtype).device(options.device));
}

}  // namespace

SelfAttention::SelfAttention(const model::GptConfig& config, const GptOptions& options,
                             const ParameterStore& store, int64_t layer)
    : linear_qkv_(parameter(store, "linear_qkv.weight", layer),
                  parameter(store, "linear_qkv.bias", layer), store.tensor_parallel()),
      linear_proj_(parameter(store, "linear_proj.weight", layer),
                   parameter(store, "linear_proj.bias", layer), store.tensor_parallel()),
      core_attention_(config, options, softmax_offset(config, options, store, layer), layer),
      layer_(layer),
      queries_per_group_(config.num_attention_heads / config.num_query_groups),
      kv_channels_(config.kv_channels),
      rotary_interleaved_(options.rotary_interleaved),
      recompute_(options.recompute_granularity == model::RecomputeGranularity::kSelective),
      has_rope_(config.layers_without_rope.empty() ||
                !config.layers_without_rope[static_cast<size_t>(layer)]),
      has_local_rope_(options.rotary_base_local.has_value() && config.window_of(layer).has_value()),
      norms_all_heads_(config.qk_layernorm_across_heads) {
  if (config.qk_layernorm) {
    q_layernorm_.emplace(config, options, store, fmt::format("{}q_layernorm.", kStem), layer);
    k_layernorm_.emplace(config, options, store, fmt::format("{}k_layernorm.", kStem), layer);
  }
}

at::Tensor SelfAttention::attend(const AttentionHeads& heads, const ForwardContext& context) const {
  if (context.cache != nullptr) {
    return context.cache->attention(layer_, heads.query, heads.key, heads.value,
                                    core_attention_.scores());
  }
  if (!recompute_ || !context.training) {
    return core_attention_.forward(heads.query, heads.key, heads.value, context);
  }
  const auto core = [this, context](const std::vector<at::Tensor>& inputs) {
    return core_attention_.forward(inputs[0], inputs[1], inputs[2], context);
  };
  return recompute(core, {heads.query, heads.key, heads.value}, *context.random);
}

const RotaryTable& SelfAttention::rotary(const ForwardContext& context) const {
  static const RotaryTable none;
  if (!has_rope_) return none;
  return has_local_rope_ ? context.rotary.local : context.rotary.all;
}

at::Tensor SelfAttention::normalized(const Norm& norm, const at::Tensor& heads) const {
  if (!norms_all_heads_) return norm.forward(heads);
  return norm.forward(heads.flatten(2)).view(heads.sizes());
}

at::Tensor SelfAttention::split_and_attend(const at::Tensor& mixed,
                                           const ForwardContext& context) const {
  const RotaryTable& table = rotary(context);
  const bool turns_later = q_layernorm_ && table.cosine.defined();
  AttentionHeads heads = split_heads(mixed, queries_per_group_, kv_channels_,
                                     q_layernorm_ ? RotaryTable() : table, rotary_interleaved_);
  if (q_layernorm_) {
    heads.query = normalized(*q_layernorm_, heads.query);
    heads.key = normalized(*k_layernorm_, heads.key);
  }
  if (turns_later) turn_heads(heads, table, rotary_interleaved_);
  return attend(heads, context);
}

at::Tensor SelfAttention::forward(const at::Tensor& hidden_states, const ForwardContext& context,
                                  const at::Tensor& rows) const {
  const at::Tensor mixed = linear_qkv_.forward(hidden_states);
  // What is recomputed starts from the heads.
  const bool takes_mixed =
      queries_per_group_ == 1 && !q_layernorm_ && !rotary(context).cosine.defined() && !recompute_;
  at::Tensor outputs;
  if (takes_mixed) outputs = core_attention_.forward_mixed(mixed, context);
  if (!outputs.defined()) outputs = split_and_attend(mixed, context);
  return linear_proj_.forward(chosen_rows(outputs, rows));
}

}  // namespace meg::nn
