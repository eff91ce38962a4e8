#pragma once

#include <torch/csrc/autograd/function.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "libmeg/train/internal/flat_buffer.h"

namespace meg::train {

/// Divides `parameters` into buckets and returns the end of each: counted from the last parameter,
/// in the order in which backward passes reach them, a bucket ends once it has `bucket_size`
/// elements. is_alone: whether a parameter gets a bucket of its own. Mirrors Megatron-LM
/// megatron/core/distributed/param_and_grad_buffer.py: _ParamAndGradBuffer.
std::vector<size_t> bucket_ends(std::span<const nn::GptParameter> parameters, int64_t bucket_size,
                                const std::function<bool(const nn::GptParameter&)>& is_alone);

/// Detects when backward passes have produced all gradients of a bucket. Throws LibTorch's
/// exceptions.
class GradientBuckets {
 public:
  /// ready: called during the backward pass with the number of a bucket, as soon as its gradients
  /// exist; may throw. layout: that of the parameters.
  GradientBuckets(std::span<const nn::GptParameter> parameters, const FlatLayout& layout,
                  std::function<void(size_t bucket)> ready);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  /// Forgets the gradients seen so far.
  void begin_step();

  /// Sets whether gradients from now on are the last ones of their parameters in this step.
  void expect(bool last) { last_ = last; }

 private:
  struct Parameter {
    /// The node that receives its gradient.
    decltype(torch::autograd::Edge::function) accumulator;
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
