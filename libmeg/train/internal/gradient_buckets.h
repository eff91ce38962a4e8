#pragma once

#include <torch/csrc/autograd/function.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "libmeg/train/internal/flat_buffer.h"

namespace meg::train {

/// Behind the last parameter of each bucket into which `parameters` are cut: from the last one
/// back, as backward passes come to them, a bucket ends where it has `bucket_size` elements.
/// is_alone: of those with a bucket of their own. Mirrors Megatron-LM
/// megatron/core/distributed/param_and_grad_buffer.py: _ParamAndGradBuffer.
std::vector<size_t> bucket_ends(std::span<const nn::GptParameter> parameters, int64_t bucket_size,
                                const std::function<bool(const nn::GptParameter&)>& is_alone);

/// Tells when backward passes have brought all gradients of a bucket. LibTorch's exceptions fly.
class GradientBuckets {
 public:
  /// ready: called inside of the backward pass with the number of a bucket, as soon as its
  /// gradients are there; may throw. layout: of the parameters.
  GradientBuckets(std::span<const nn::GptParameter> parameters, const FlatLayout& layout,
                  std::function<void(size_t bucket)> ready);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  /// Forgets what came.
  void begin_step();

  /// Whether gradients that come from here on are the last of their parameters in this step.
  void expect(bool last) { last_ = last; }

 private:
  struct Parameter {
    std::shared_ptr<torch::autograd::Node> accumulator;  ///< Where its gradient comes in.
    uintptr_t hook = 0;
    size_t bucket = 0;
    bool came = false;
  };

  class Hook;

  void came(size_t parameter);

  std::vector<FlatLayout::Bucket> buckets_;
  std::vector<Parameter> parameters_;
  std::function<void(size_t)> ready_;
  bool last_ = false;
};

}  // namespace meg::train
