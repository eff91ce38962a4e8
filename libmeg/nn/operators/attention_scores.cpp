#include "libmeg/nn/operators/attention_scores.h"

#include <ATen/ATen.h>

#include <limits>

namespace meg::nn {

at::Tensor visible_keys(const AttentionScores& scores, int64_t queries, int64_t keys,
                        int64_t before, at::Device device) {
  at::Tensor visible = at::ones({queries, keys}, at::dtype(at::kBool).device(device)).tril_(before);
  if (scores.window.has_value()) visible.triu_(before - *scores.window + 1);
  return visible;
}

at::Tensor softcapped(const AttentionScores& scores, const at::Tensor& products) {
  if (!scores.softcap.has_value()) return products;
  return at::tanh(products / *scores.softcap) * *scores.softcap;
}

at::Tensor probabilities_of(const AttentionScores& scores, const at::Tensor& masked) {
  if (!scores.softmax_offset.defined()) return at::softmax(masked, -1);
  const at::Tensor offsets = scores.softmax_offset.view({1, -1, 1, 1})
                                 .expand({masked.size(0), masked.size(1), masked.size(2), 1});
  return at::softmax(at::cat({masked, offsets}, -1), -1).narrow(-1, 0, masked.size(3));
}

at::Tensor attention_by_products(const AttentionScores& scores, const at::Tensor& query,
                                 const at::Tensor& key, const at::Tensor& value,
                                 const at::Tensor& mask) {
  const int64_t heads_of_group = query.size(1) / key.size(1);
  const auto for_each_head = [&](const at::Tensor& grouped) {
    return heads_of_group == 1 ? grouped : grouped.repeat_interleave(heads_of_group, 1);
  };
  const at::Tensor products = at::matmul(query, for_each_head(key).transpose(2, 3)) * scores.scale;
  const at::Tensor hidden =
      softcapped(scores, products)
          .to(at::kFloat)
          .masked_fill(mask.logical_not(), -std::numeric_limits<float>::infinity());
  return at::matmul(probabilities_of(scores, hidden).to(query.scalar_type()), for_each_head(value));
}

}  // namespace meg::nn
