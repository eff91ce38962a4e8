#include "libmeg/nn/layers/internal/core_attention.h"

#include <ATen/ATen.h>

#include <cmath>
#include <optional>
#include <vector>

#include "libmeg/nn/layers/internal/dropout.h"
#include "libmeg/nn/operators/internal/attention/attention_kernels.h"
#include "libmeg/nn/operators/internal/attention/cudnn_attention.h"
#include "libmeg/nn/operators/internal/attention/fused_attention.h"
#include "libmeg/nn/operators/internal/widened_product.h"

namespace meg::nn {
namespace {

/// What Megatron puts in place of hidden scores.
constexpr double kHiddenScore = -10000.0;

/// [b, s, g, hn] -> [b, s, n, hn]: each of g repeated for the heads of its group.
at::Tensor for_each_head(const at::Tensor& grouped, int64_t heads) {
  const int64_t groups = grouped.size(2);
  if (groups == heads) return grouped;
  return grouped.repeat_interleave(heads / groups, 2);
}

/// [b, s, n, hn] -> [b * n, s, hn]
at::Tensor by_head(const at::Tensor& heads) {
  return heads.transpose(1, 2).reshape({-1, heads.size(1), heads.size(3)});
}

/// queries x transposed keys x scale, which is scaled before it is rounded to the parameters' type.
at::Tensor scaled_scores(const at::Tensor& queries, const at::Tensor& keys, double scale) {
  if (is_widened(queries)) return widened_product(queries, keys, {}, scale);
  return at::baddbmm(at::empty({1}, queries.options().requires_grad(false)), queries,
                     keys.transpose(1, 2), /*beta=*/0, /*alpha=*/scale);
}

at::Tensor weighted_sums(const at::Tensor& probabilities, const at::Tensor& values) {
  if (is_widened(values)) return widened_product(probabilities, values.transpose(1, 2));
  return at::bmm(probabilities, values);
}

/// query: [b, s, n, hn]; key, value: [b, s, g, hn]. Returns [b, n, s, hn].
at::Tensor fused_heads(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                       const at::Tensor& mask, double dropout, double scale) {
  const auto by_heads = [](const at::Tensor& tensor) {
    return (is_widened(tensor) ? tensor.to(at::kFloat) : tensor).transpose(1, 2);
  };
  return fused_attention({.query = by_heads(query),
                          .key = by_heads(key),
                          .value = by_heads(value),
                          .mask = mask.defined() ? std::optional(mask) : std::nullopt,
                          .is_causal = !mask.defined(),
                          .dropout = dropout,
                          .scale = scale})
      .to(query.scalar_type());
}

/// What LibTorch's fused attention depends on beside its arguments, while it computes.
class FusedCall {
 public:
  FusedCall(const GptOptions& options, const ForwardContext& context)
      : dropout_(context.training ? options.attention_dropout : 0) {
    // Documents have as many lengths as texts in inference.
    const bool few_lengths = context.training && !context.document_lengths.defined();
    if (!options.device.is_cpu()) choice_.emplace(attention_kernels(options, few_lengths));
    if (dropout_ > 0) {
      // ATen's fused kernels draw from the default generator and take no other.
      fork_.emplace(options.device,
                    context.random->generator(RandomStates::Stream::kModelParallel));
    }
  }

  double dropout() const { return dropout_; }

 private:
  double dropout_;
  std::optional<AttentionKernelChoice> choice_;
  std::optional<ForkedDefaultGenerator> fork_;
};

}  // namespace

bool is_unfused(const model::GptConfig& config, const GptOptions& options, bool training) {
  if (options.attention_backend == AttentionBackend::kUnfused ||
      options.attention_backend == AttentionBackend::kLocal) {
    return true;
  }
  if (options.attn_logit_softcapping.has_value() || config.has_softmax_offset()) return true;
  return options.device.is_cpu() && training && options.attention_dropout > 0;
}

void set_attention(ForwardContext& context, const model::GptConfig& config,
                   const GptOptions& options, const at::Tensor& mask,
                   const at::Tensor& document_lengths, int64_t sequence_length) {
  const bool has_documents =
      document_lengths.defined() && document_lengths.ne(sequence_length).any().item<bool>();
  if (!is_unfused(config, options, context.training)) {
    if (mask.defined()) context.attention_mask = mask.logical_not();
    if (has_documents) context.document_lengths = document_lengths;
    return;
  }
  context.attention_mask = mask;
  if (mask.defined()) return;
  context.attention_mask = at::ones({1, 1, sequence_length, sequence_length},
                                    at::dtype(at::kBool).device(options.device))
                               .triu_(1);
  if (!has_documents) return;
  const at::Tensor document =
      at::repeat_interleave(document_lengths).view({-1, 1, 1, sequence_length}).to(options.device);
  context.attention_mask =
      document.ne(document.transpose(2, 3)).logical_or_(context.attention_mask);
}

CoreAttention::CoreAttention(const model::GptConfig& config, const GptOptions& options,
                             const at::Tensor& softmax_offset, int64_t layer)
    : options_(options),
      is_unfused_{is_unfused(config, options, false), is_unfused(config, options, true)},
      kv_channels_(config.kv_channels),
      scores_{.scale = options.softmax_scale.value_or(
                  1 / std::sqrt(static_cast<double>(config.kv_channels))),
              .softcap = options.attn_logit_softcapping,
              .window = config.window_of(layer),
              .softmax_offset = softmax_offset},
      layer_scaling_(options.apply_query_key_layer_scaling ? static_cast<double>(layer + 1) : 1) {}

at::Tensor CoreAttention::forward(const at::Tensor& query, const at::Tensor& key,
                                  const at::Tensor& value, const ForwardContext& context) const {
  const bool has_documents = context.document_lengths.defined();
  const at::Tensor heads = is_unfused_[context.training ? 1 : 0]
                               ? unfused(query, key, value, context)
                           : has_documents ? fused_documents(query, key, value, context)
                                           : fused(query, key, value, context);
  return heads.transpose(1, 2).reshape({query.size(0), query.size(1), -1});
}

at::Tensor CoreAttention::forward_mixed(const at::Tensor& mixed,
                                        const ForwardContext& context) const {
  // A mask takes the place of the causal one.
  if (!context.training || is_unfused_[1] ||
      !attention_kernels(options_, /*training=*/true).cudnn || context.attention_mask.defined() ||
      context.document_lengths.defined() || scores_.hides(mixed.size(1))) {
    return {};
  }
  const FusedCall call(options_, context);
  return cudnn_attention(mixed, kv_channels_, scores_.scale, call.dropout());
}

at::Tensor CoreAttention::unfused(const at::Tensor& query, const at::Tensor& key,
                                  const at::Tensor& value, const ForwardContext& context) const {
  const int64_t heads = query.size(2);
  const at::Tensor queries = by_head(query);
  const at::Tensor keys = by_head(for_each_head(key, heads));
  at::Tensor scores = scaled_scores(queries, keys, scores_.scale / layer_scaling_);
  scores = scores.view({query.size(0), heads, query.size(1), key.size(1)});
  const bool in_fp32 = options_.attention_softmax_in_fp32 || options_.apply_query_key_layer_scaling;
  if (in_fp32) scores = scores.to(at::kFloat);
  // --apply-query-key-layer-scaling divides by the layer's number before the product is rounded to
  // 16 bits and multiplies afterwards in fp32: the values are the same, fp16 does not overflow.
  if (layer_scaling_ != 1) scores = scores * layer_scaling_;
  scores = softcapped(scores_, scores).masked_fill(context.attention_mask, kHiddenScore);
  if (scores_.hides(query.size(1))) {
    const at::Tensor visible =
        visible_keys(scores_, query.size(1), key.size(1), /*before=*/0, query.device());
    scores = scores.masked_fill(visible.logical_not(), kHiddenScore);
  }
  at::Tensor probabilities = probabilities_of(scores_, scores).to(query.scalar_type());
  if (context.training) {
    probabilities = dropout(probabilities, options_.attention_dropout,
                            context.random->generator(RandomStates::Stream::kModelParallel));
  }
  const at::Tensor sums =
      weighted_sums(probabilities.flatten(0, 1), by_head(for_each_head(value, heads)));
  return sums.view({query.size(0), heads, query.size(1), value.size(3)});
}

at::Tensor CoreAttention::fused(const at::Tensor& query, const at::Tensor& key,
                                const at::Tensor& value, const ForwardContext& context) const {
  const FusedCall call(options_, context);
  at::Tensor mask = context.attention_mask;
  if (scores_.hides(query.size(1))) {
    const at::Tensor visible =
        visible_keys(scores_, query.size(1), key.size(1), /*before=*/0, query.device());
    mask = mask.defined() ? mask.logical_and(visible) : visible;
  }
  return fused_heads(query, key, value, mask, call.dropout(), scores_.scale);
}

at::Tensor CoreAttention::fused_documents(const at::Tensor& query, const at::Tensor& key,
                                          const at::Tensor& value,
                                          const ForwardContext& context) const {
  const FusedCall call(options_, context);
  const at::Tensor& lengths = context.document_lengths;
  const auto documents = [&](const at::Tensor& heads) {
    return heads.flatten(0, 1).unsqueeze(0).split_with_sizes(
        {lengths.const_data_ptr<int64_t>(), static_cast<size_t>(lengths.numel())}, 1);
  };
  const std::vector<at::Tensor> queries = documents(query), keys = documents(key),
                                values = documents(value);
  std::vector<at::Tensor> outputs;
  outputs.reserve(queries.size());
  for (size_t i = 0; i < queries.size(); ++i) {
    const int64_t length = queries[i].size(1);
    at::Tensor mask;
    if (scores_.hides(length)) {
      mask = visible_keys(scores_, length, length, /*before=*/0, query.device());
    }
    outputs.push_back(
        fused_heads(queries[i], keys[i], values[i], mask, call.dropout(), scores_.scale));
  }
  return at::cat(outputs, 2);
}

}  // namespace meg::nn
