#include "libmeg/nn/cross_entropy.h"

#include <ATen/ATen.h>

namespace meg::nn {

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  const at::Tensor rows = logits.to(at::kFloat).view({-1, logits.size(-1)});
  return at::cross_entropy_loss(rows, labels.reshape({-1}), {}, at::Reduction::None)
      .view(labels.sizes());
}

}  // namespace meg::nn
